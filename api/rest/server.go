package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/tracing"
)

// Bounds of the HTTP server.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHTTPHeader     = 16 << 10
)

// Options configure the server, in addition to its service.
type Options struct {
	// Mount serves other protocols and pages: each handler serves its path, such as /api, and
	// everything below it. The routes of this package take precedence.
	Mount map[string]http.Handler
	// ForwardAuth serves the check for proxies, GET /v1/forward-auth.
	ForwardAuth bool
	// Forwarded is called concurrently with the outcome of each of these checks: allowed, refused,
	// invalid, denied, or fault for a limit that cannot be decided. Nil counts nothing.
	Forwarded func(code string)
}

// New returns a server of the HTTP/JSON API. The caller serves it on a listener and shuts it down;
// shutting down ends the streams of the service.
func New(s *api.Service, o Options) *http.Server {
	srv := &http.Server{
		Handler:           newRouter(s, o),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHTTPHeader,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	srv.RegisterOnShutdown(s.EndStreams)
	return srv
}

// handler serves one method of one path. It returns the status that it sent, or 0 and the error that
// its caller is to send. An error with a status happened after the status was sent.
type handler func(http.ResponseWriter, *http.Request) (status int, err error)

// guarded is a handler behind authentication, authorization and audit. It returns the status that it
// sent.
type guarded func(http.ResponseWriter, *http.Request) int

// served is a route with the observers of its most frequent statuses.
type served struct {
	serve       guarded
	route       string // its name in metrics
	anyHost     bool   // accepts any name in the header Host
	ok, refused func() prometheus.Observer
}

func (r *router) served(route string, h guarded) *served {
	of := func(code int) func() prometheus.Observer { // a series appears with its first call
		return sync.OnceValue(func() prometheus.Observer { return r.Meter.Duration.WithLabelValues("http", route, strconv.Itoa(code)) })
	}
	return &served{serve: h, route: route, ok: of(http.StatusOK), refused: of(http.StatusTooManyRequests)}
}

// observe records a call and the status that it sent.
func (s *served) observe(m *api.Meter, code int, start time.Time, trace string) {
	switch code {
	case http.StatusOK:
		api.ObserveTraced(s.ok(), time.Since(start).Seconds(), trace)
	case http.StatusTooManyRequests:
		api.ObserveTraced(s.refused(), time.Since(start).Seconds(), trace)
	default:
		m.Observe("http", s.route, strconv.Itoa(code), start, trace)
	}
}

type router struct {
	*api.Service
	options Options
	metrics http.Handler
	hosts   hosts
	bodies  *bodies
	byPath  map[string]map[string]*served // path, method
	paths   []string
	openAPI func() []byte // built on first use
}

func newRouter(s *api.Service, o Options) *router {
	r := &router{Service: s, options: o, bodies: newBodies(), byPath: make(map[string]map[string]*served)}
	r.hosts.names = s.Opts.Hosts
	r.metrics = promhttp.HandlerFor(s.Opts.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelError)})
	routes := r.routes()
	r.openAPI = sync.OnceValue(func() []byte { return describe(routes) })
	for _, route := range routes {
		if r.byPath[route.path] == nil {
			r.byPath[route.path] = make(map[string]*served)
		}
		h := r.served(route.method+" "+route.path, r.guardedRoute(route.name(), route.serve))
		rule, _ := auth.RuleOf(route.name())
		h.anyHost = rule.AnyHost
		r.byPath[route.path][route.method] = h
	}
	r.paths = slices.Concat(slices.Sorted(maps.Keys(r.byPath)), slices.Sorted(maps.Keys(o.Mount)))
	return r
}

func (r *router) getMetrics(w http.ResponseWriter, req *http.Request) (int, error) {
	r.metrics.ServeHTTP(w, req)
	return http.StatusOK, nil
}

// ServeHTTP implements http.Handler.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	start := time.Now()
	var route string
	var code int
	method := req.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http drops the body
	}
	path := req.URL.Path
	methods, ok := r.byPath[path]
	if !ok {
		path = pathOf(path)
		methods, ok = r.byPath[path]
	}
	h := methods[method]
	if err := r.hostFault(req); err != nil && (h == nil || !h.anyHost) {
		r.Meter.Observe("http", api.OtherMethod, strconv.Itoa(writeFault(w, err)), start, "")
		return
	}
	switch {
	case !ok:
		route, code = r.serveOther(w, req)
	case h == nil:
		route = api.OtherMethod
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		w.Header().Set("Allow", allowed)
		code = writeFault(w, &apierr.Error{HTTP: http.StatusMethodNotAllowed, Detail: apierr.Clip(req.Method) + " is not for " + path + "; use " + allowed})
	default:
		parent := req.Header.Get(tracing.Header)
		if r.Opts.Tracer == nil {
			h.observe(r.Meter, h.serve(w, req), start, api.SampledTrace(parent))
			return
		}
		ctx, span := r.Opts.Tracer.Serve(req.Context(), h.route, parent)
		code := h.serve(w, req.WithContext(ctx))
		span.Int("http.response.status_code", int64(code))
		h.observe(r.Meter, code, start, cmp.Or(span.Sampled(), api.SampledTrace(parent)))
		span.End(nil)
		return
	}
	r.Meter.Observe("http", route, strconv.Itoa(code), start, api.SampledTrace(req.Header.Get(tracing.Header)))
}

var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	textType    = []string{"text/plain; charset=utf-8"}
)

func writeJSON(w http.ResponseWriter, code int, body []byte) int {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(code)
	w.Write(append(body, '\n')) //nolint:errcheck // the caller has gone
	return code
}

// problem is an RFC 9457 problem, with the field at fault as an extension.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Reason string `json:"reason,omitempty"`
	Field  string `json:"field,omitempty"`
	// Only in refusals for a missing permission.
	Permission string `json:"permission,omitempty"`
	Scope      string `json:"scope,omitempty"`
	Identity   string `json:"identity,omitempty"`
	// How to give a credential to a call, or a role to its caller.
	Help string `json:"help,omitempty"`
}

// credentialHelp explains authentication to callers that have not read the manual: over HTTP
// nothing else leads there.
const credentialHelp = `give a credential: the header "authorization: Bearer TOKEN" (quorate tokens create), or a client certificate (quorate cert issue; curl --cert, --key): ` +
	"https://github.com/quorate/quorate/blob/main/docs/explanation/security.md#authentication"

func writeFault(w http.ResponseWriter, err error) int {
	f := apierr.From(err)
	title := http.StatusText(f.HTTP)
	if title == "" {
		title = "Client Closed Request"
	}
	p := problem{Type: "about:blank", Title: title, Status: f.HTTP, Detail: f.Error(), Reason: f.Reason, Field: f.Field, Permission: f.Meta["permission"], Scope: f.Meta["scope"], Identity: f.Meta["identity"]}
	switch {
	case f.HTTP == http.StatusUnauthorized:
		p.Help = credentialHelp
	case p.Permission != "" && p.Identity != "" && f.Meta["realm"] == "":
		p.Help = fmt.Sprintf("a caller with access.admin can give it a role: quorate roles bind %s ROLE (\"quorate roles show\" lists them)", phrase.Show(p.Identity))
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // invariant: strings and an int encode as JSON
	}
	h := w.Header()
	h["Content-Type"] = problemType
	if f.HTTP == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="quorate"`)
	}
	if f.Retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(apiproto.WholeSeconds(f.Retry), 10))
	}
	w.WriteHeader(f.HTTP)
	w.Write(append(jsontext.Escape(body), '\n')) //nolint:errcheck // as in writeJSON
	return f.HTTP
}
