package quotaservice

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/quota"
)

// Root is the path that Handler serves, with everything below it.
const Root = "/api"

// Handler returns the read-only admin API:
//
//	GET /api                          all limits, as a ServiceConfig
//	GET /api/{namespace}              its NamespaceConfig
//	GET /api/{namespace}/{bucket}     its BucketConfig
//	GET /api/configs                  the newest versions of the limits
//	GET /api/stats/{namespace}        its buckets with the most hits and misses
//	GET /api/stats/{namespace}/{bucket}
//
// As in quotaservice, namespaces called configs and stats appear only in GET /api. A request whose
// header Version differs from the current version gets 409. A request to change limits gets 405.
func Handler(n Node) http.Handler { return &handler{n} }

type handler struct{ node Node }

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, f := h.serve(r)
	code := http.StatusOK
	if f != nil {
		code, body = f.code, map[string]string{"error": http.StatusText(f.code), "description": f.text}
		if f.code == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "GET, HEAD")
		}
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // invariant: strings and numbers encode as JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(jsontext.Escape(data)) //nolint:errcheck // the caller has gone
}

// fault is an error answer.
type fault struct {
	code int
	text string
}

func faultf(code int, format string, args ...any) *fault {
	return &fault{code, fmt.Sprintf(format, args...)}
}

func (h *handler) serve(r *http.Request) (any, *fault) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, faultf(http.StatusMethodNotAllowed, "limits are not changed here, because this format cannot express every field of a limit; write a limit file and use: quorate limits apply FILE")
	}
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, Root), "/")
	first, rest, _ := strings.Cut(path, "/")
	switch first {
	case "configs":
		return h.history(r)
	case "stats":
		return h.stats(r, rest)
	}
	if f := h.checkVersion(r); f != nil {
		return nil, f
	}
	switch {
	case first == "" || first == globalNamespace && rest == "":
		return h.active(r)
	case rest == "":
		return h.namespace(first)
	}
	return h.bucket(first, rest)
}

// checkVersion compares the header Version, if present, with the current version.
func (h *handler) checkVersion(r *http.Request) *fault {
	header := r.Header.Get("Version")
	if header == "" {
		return nil
	}
	got, err := strconv.ParseUint(header, 10, 64)
	if err != nil {
		return faultf(http.StatusBadRequest, "header Version: %q; must be the number of a version", header)
	}
	if now := version(h.node.Limits()); got != now {
		return faultf(http.StatusConflict, "header Version: %d, but version %d is active; read it again", got, now)
	}
	return nil
}

func version(s *quota.Limits) uint64 {
	if s == nil {
		return 0
	}
	return s.Version
}

// active returns all limits.
func (h *handler) active(r *http.Request) (any, *fault) {
	limits := h.node.Limits()
	v := quota.Version{Number: version(limits)}
	history, err := h.node.LimitVersions(r.Context(), v.Number+1, 1)
	if err != nil {
		return nil, unavailable(err)
	}
	if len(history) > 0 && history[0].Number == v.Number {
		v = history[0]
	}
	return service(v, limits.All()), nil
}

func unavailable(err error) *fault { return &fault{http.StatusServiceUnavailable, err.Error()} }

func (h *handler) namespace(name string) (any, *fault) {
	if ns := h.namespaceNamed(name); ns != nil {
		return ns, nil
	}
	return nil, faultf(http.StatusNotFound, "unknown namespace %q", name)
}

// namespaceNamed returns nil if the namespace does not exist.
func (h *handler) namespaceNamed(name string) *namespaceConfig {
	var only []quota.Limit
	for _, l := range h.node.Limits().All() {
		if l.Namespace == name && l.LimitName != quota.Global {
			only = append(only, l)
		}
	}
	return service(quota.Version{}, only).Namespaces[name]
}

func (h *handler) bucket(namespace, name string) (any, *fault) {
	ns := h.namespaceNamed(namespace)
	if ns == nil {
		return nil, faultf(http.StatusNotFound, "unknown namespace %q", namespace)
	}
	b := ns.Buckets[name]
	if b == nil {
		return nil, faultf(http.StatusNotFound, "unknown bucket %q in namespace %q", name, namespace)
	}
	return b, nil
}
