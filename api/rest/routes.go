package rest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// bodyKind says where a route reads its request from.
type bodyKind uint8

const (
	fromQuery bodyKind = iota // the query
	fromJSON                  // a JSON body
	fromFile                  // the body is the field yaml; the query has the other fields
)

// route is one method of one path, with the data for its description.
type route struct {
	method, path string
	rpc          string // the call whose proto comments describe the route, such as QuotaService.Allow
	summary      string // describes the route instead of rpc
	in           bodyKind
	req, res     proto.Message // nil: none; res nil: text
	without      string        // field of req that the request does not carry
	serve        handler
}

// routes returns all routes. The OpenAPI document is built from them.
func (r *router) routes() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return append(slices.Concat(r.accountRoutes(), r.securityRoutes(), r.clusterRoutes(), r.rateRoutes(), r.forwardRoutes(), schemaRoutes()), []route{
		{method: post, path: "/v1/allow", rpc: "QuotaService.Allow", in: fromJSON, req: &quoratev1.AllowRequest{}, res: &quoratev1.AllowResponse{}, serve: r.postAllow},
		{method: post, path: "/v1/allow:batch", rpc: "QuotaService.AllowBatch", in: fromJSON, req: &quoratev1.AllowBatchRequest{}, res: &quoratev1.AllowBatchResponse{}, serve: r.postBatch},
		ordinary(post, "/v1/allow:all", "QuotaService.AllowAll", fromJSON, r.Quota.AllowAll),
		ordinary(post, "/v1/refund", "QuotaService.Refund", fromJSON, r.Quota.Refund),
		ordinary(post, "/v1/report", "QuotaService.Report", fromJSON, r.Quota.Report),
		ordinary(post, "/v1/reserve", "QuotaService.Reserve", fromJSON, r.Quota.Reserve),
		ordinary(post, "/v1/settle", "QuotaService.Settle", fromJSON, r.Quota.Settle),
		ordinary(post, "/v1/renew", "QuotaService.Renew", fromJSON, r.Quota.Renew),
		ordinary(post, "/v1/acquire", "QuotaService.Acquire", fromJSON, r.Quota.Acquire),
		ordinary(post, "/v1/release", "QuotaService.Release", fromJSON, r.Quota.Release),
		{method: get, path: "/v1/limits", rpc: "LimitService.GetLimits", req: &quoratev1.GetLimitsRequest{}, res: &quoratev1.GetLimitsResponse{}, serve: r.serveLimits},
		ordinary(put, "/v1/limits", "LimitService.ApplyLimits", fromFile, r.Limits.ApplyLimits),
		ordinary(post, "/v1/limits:validate", "LimitService.ValidateLimits", fromFile, r.Limits.ValidateLimits),
		ordinary(post, "/v1/limits:diff", "LimitService.DiffLimits", fromJSON, r.Limits.DiffLimits),
		ordinary(post, "/v1/limits:rollback", "LimitService.RollbackLimits", fromJSON, r.Limits.RollbackLimits),
		ordinary(get, "/v1/limits/versions", "LimitService.ListVersions", fromQuery, r.Limits.ListVersions),
		{method: del, path: limitPath, rpc: "LimitService.DeleteLimits", req: &quoratev1.DeleteLimitsRequest{}, without: "limits", res: &quoratev1.DeleteLimitsResponse{}, serve: r.deleteLimit},
		ordinary(get, "/v1/overrides", "OverrideService.ListOverrides", fromQuery, r.Overrides.ListOverrides),
		ordinary(put, "/v1/overrides", "OverrideService.SetOverrides", fromJSON, r.Overrides.SetOverrides),
		{method: del, path: "/v1/overrides", rpc: "OverrideService.DeleteOverrides", req: &quoratev1.KeyRef{}, res: &quoratev1.DeleteOverridesResponse{}, serve: r.deleteOverride},
		ordinary(post, "/v1/overrides:delete", "OverrideService.DeleteOverrides", fromJSON, r.Overrides.DeleteOverrides),
		ordinary(get, "/v1/overrides:get", "OverrideService.GetOverride", fromQuery, r.Overrides.GetOverride),
		ordinary(get, "/v1/keys", "KeyService.GetKey", fromQuery, r.Keys.GetKey),
		ordinary(post, "/v1/keys:reset", "KeyService.ResetKey", fromJSON, r.Keys.ResetKey),
		{method: get, path: "/v1/events", rpc: "EventService.Watch", req: &quoratev1.WatchRequest{}, res: &quoratev1.WatchResponse{}, serve: r.getEvents},
		ordinary(get, "/v1/status", "ClusterService.GetStatus", fromQuery, r.Cluster.GetStatus),
		{method: get, path: "/v1/backup", rpc: "BackupService.Backup", req: &quoratev1.BackupRequest{}, serve: r.getBackup},
		{method: get, path: "/v1/openapi.json", summary: "This document.", serve: r.getOpenAPI},
		{method: get, path: "/healthz", summary: "Whether the node runs.", serve: getHealth},
		{method: get, path: "/readyz", summary: "Whether this node decides: it has the limits, has seen all leaders since it started or has waited 10 s for those of the ranges, and does not stop.", serve: r.getReady},
		{method: get, path: clusterReadyPath, summary: "Whether /readyz succeeds and all ranges have leaders, as this node sees it, or had one within the last 3 s.", serve: r.getClusterReady},
		{method: get, path: envoyHealthPath, summary: "The same as /readyz, at the path that probes of envoyproxy/ratelimit use: OK, or 500.", serve: r.getEnvoyHealth},
		{method: get, path: "/metrics", summary: "Metrics in Prometheus's text format.", serve: r.getMetrics},
	}...)
}

// limitPath is the only path with parameters.
const limitPath = "/v1/limits/{namespace}/{limit}"

// pathOf returns the path of the route that a request's path matches.
func pathOf(path string) string {
	if rest, ok := strings.CutPrefix(path, "/v1/limits/"); ok && strings.Count(rest, "/") == 1 {
		return limitPath
	}
	return path
}

// ordinary returns the route of an ordinary call.
func ordinary[Q, R any, PQ interface {
	*Q
	proto.Message
}, PR interface {
	*R
	proto.Message
}](method, path, rpc string, in bodyKind, serve func(context.Context, PQ) (PR, error),
) route {
	return route{
		method: method, path: path, rpc: rpc, in: in, req: PQ(new(Q)), res: PR(new(R)),
		serve: func(w http.ResponseWriter, req *http.Request) (int, error) {
			q := PQ(new(Q))
			if err := readRequest(w, req, in, q); err != nil {
				return 0, err
			}
			if err := api.AuthorizeRequest(req.Context(), q); err != nil {
				return 0, err
			}
			res, err := serve(api.WithAddress(authorContext(req), req.RemoteAddr), q)
			if err != nil {
				return 0, err
			}
			api.CallOf(req.Context()).Answered(res)
			return writeJSON(w, statusOf(w, res), apijson.Format(res)), nil
		},
	}
}

// statusOf returns 429 for a refusal, and sets Retry-After; it returns 409 for operations that were
// not applied.
func statusOf(w http.ResponseWriter, res proto.Message) int {
	if ops, ok := res.(*quoratev1.ApplyOpsResponse); ok && !ops.Applied {
		return http.StatusConflict
	}
	a, ok := res.(interface{ GetAllowed() bool })
	if !ok || a.GetAllowed() {
		return http.StatusOK
	}
	retry := res
	if acquired, ok := res.(*quoratev1.AcquireResponse); ok {
		retry = acquired.Result
	}
	if again, ok := retry.(interface{ GetRetryAfter() *durationpb.Duration }); ok && again.GetRetryAfter() != nil {
		w.Header().Set("Retry-After", strconv.FormatInt(max(apiproto.WholeSeconds(again.GetRetryAfter().AsDuration()), 1), 10))
	}
	return http.StatusTooManyRequests
}

// authorContext passes on the headers that may name the author of a change.
func authorContext(req *http.Request) context.Context {
	for _, key := range api.AuthorKeys {
		if who := req.Header.Get(key); who != "" {
			return metadata.NewIncomingContext(req.Context(), metadata.Pairs(key, who))
		}
	}
	return req.Context()
}

func readRequest(w http.ResponseWriter, req *http.Request, in bodyKind, q proto.Message) error {
	var err error
	switch in {
	case fromQuery:
		err = readQuery(req, q)
	case fromJSON:
		err = readJSON(w, req, q)
	default:
		err = readFile(w, req, q)
	}
	if err == nil {
		err = readIfMatch(req, q)
	}
	return err
}

func readJSON(w http.ResponseWriter, req *http.Request, q proto.Message) error {
	if _, err := query(req); err != nil {
		return err
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	if err := s.read(w, req, api.MaxBatchBody); err != nil {
		return err
	}
	example := `{"` + strings.Join(apijson.FieldsOf(q.ProtoReflect().Descriptor()), `": ..., "`) + `": ...}`
	return apijson.Decode(s.in.Bytes(), q, example)
}

// readFile reads a body that is a limit file.
func readFile(w http.ResponseWriter, req *http.Request, q proto.Message) error {
	if err := readQuery(req, q, "yaml"); err != nil {
		return err
	}
	var s scratch // limit files are rare and large: not pooled
	if err := s.read(w, req, apiproto.MaxLimitsFile); err != nil {
		return err
	}
	if s.in.Len() == 0 {
		return apierr.Invalid("yaml", "the body is empty; send a limit file, as curl --data-binary @limits.yaml does")
	}
	m := q.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("yaml"), protoreflect.ValueOfString(s.in.String()))
	return nil
}

// readQuery reads a message from the query, except the fields without.
func readQuery(req *http.Request, m proto.Message, without ...string) error {
	var known []string
	for _, name := range apijson.FieldsOf(m.ProtoReflect().Descriptor()) {
		if !slices.Contains(without, name) {
			known = append(known, name)
		}
	}
	q, err := query(req, known...)
	if err != nil {
		return err
	}
	return apijson.DecodeQuery(q, m)
}

// readAuthorized reads a message from the query, and authorizes the call with it.
func readAuthorized(req *http.Request, m proto.Message) error {
	if err := readQuery(req, m); err != nil {
		return err
	}
	return api.AuthorizeRequest(req.Context(), m)
}

// readIfMatch reads expected_version from the header If-Match: a version, with or without the
// quotes of an ETag, or * for any.
func readIfMatch(req *http.Request, q proto.Message) error {
	text := req.Header.Get("If-Match")
	m := q.ProtoReflect()
	fd := m.Descriptor().Fields().ByName("expected_version")
	if fd == nil || text == "" || text == "*" {
		return nil
	}
	n, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 64)
	if err != nil {
		return apierr.Invalid("If-Match", "is %q; must be a version of the limits, such as \"7\", or *", apierr.Clip(text))
	}
	if m.Has(fd) && m.Get(fd).Uint() != n {
		return apierr.Invalid("If-Match", "is %d, but expected_version is %d; give one of them", n, m.Get(fd).Uint())
	}
	m.Set(fd, protoreflect.ValueOfUint64(n))
	return nil
}

// serveLimits answers with JSON, or with the limit file if the request asks for it.
func (r *router) serveLimits(w http.ResponseWriter, req *http.Request) (int, error) {
	q := &quoratev1.GetLimitsRequest{}
	if err := readAuthorized(req, q); err != nil {
		return 0, err
	}
	file := strings.Contains(req.Header.Get("Accept"), "yaml")
	q.File = q.File || file
	res, err := r.Limits.GetLimits(req.Context(), q)
	if err != nil {
		return 0, err
	}
	w.Header().Set("ETag", `"`+strconv.FormatUint(res.Version, 10)+`"`)
	if !file {
		return writeJSON(w, http.StatusOK, apijson.Format(res)), nil
	}
	w.Header()["Content-Type"] = yamlType
	w.Write([]byte(res.Yaml)) //nolint:errcheck // as in writeJSON
	return http.StatusOK, nil
}

var yamlType = []string{"application/yaml"}

func (r *router) deleteLimit(w http.ResponseWriter, req *http.Request) (int, error) {
	q := &quoratev1.DeleteLimitsRequest{}
	err := readQuery(req, q, "limits")
	if err == nil {
		err = readIfMatch(req, q)
	}
	if err != nil {
		return 0, err
	}
	namespace, limit, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v1/limits/"), "/")
	if err := apiproto.CheckLimitName(quota.LimitName{Namespace: namespace, Limit: limit}); err != nil {
		return 0, err
	}
	q.Limits = []*quoratev1.LimitRef{{Namespace: namespace, Limit: limit}}
	if err := api.AuthorizeRequest(req.Context(), q); err != nil {
		return 0, err
	}
	res, err := r.Limits.DeleteLimits(authorContext(req), q)
	if err != nil {
		return 0, err
	}
	api.CallOf(req.Context()).Answered(res)
	return writeJSON(w, http.StatusOK, apijson.Format(res)), nil
}

func (r *router) deleteOverride(w http.ResponseWriter, req *http.Request) (int, error) {
	ref := &quoratev1.KeyRef{}
	if err := readQuery(req, ref); err != nil {
		return 0, err
	}
	q := &quoratev1.DeleteOverridesRequest{Keys: []*quoratev1.KeyRef{ref}}
	if err := api.AuthorizeRequest(req.Context(), q); err != nil {
		return 0, err
	}
	res, err := r.Overrides.DeleteOverrides(req.Context(), q)
	if err != nil {
		return 0, within(err, "keys[0]")
	}
	api.CallOf(req.Context()).Answered(res)
	return writeJSON(w, http.StatusOK, apijson.Format(res)), nil
}
