package rest

import (
	"cmp"
	"net/http"
	"path"
	"strings"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/suggest"
)

// mountedAt returns the handler mounted at the longest prefix of a path, and that prefix; nil if
// none fits.
func (r *router) mountedAt(p string) (h http.Handler, at string) {
	for prefix, handler := range r.options.Mount {
		below, ok := strings.CutPrefix(p, prefix)
		if ok && (below == "" || below[0] == '/') && len(prefix) > len(at) {
			h, at = handler, prefix
		}
	}
	return h, at
}

// strictTransport makes browsers return over TLS only.
var strictTransport = []string{"max-age=31536000"}

// serveOther serves a request that matches no route of this package. It returns the route's name in
// metrics and the status that it sent.
func (r *router) serveOther(w http.ResponseWriter, req *http.Request) (route string, code int) {
	if req.TLS != nil { // routes for browsers are served here
		w.Header()["Strict-Transport-Security"] = strictTransport
	}
	h, at := r.mountedAt(req.URL.Path)
	if h == nil && r.toConsole(w, req) {
		return api.OtherMethod, http.StatusSeeOther
	}
	if h == nil {
		return api.OtherMethod, writeFault(w, r.nothingAt(req.URL.Path))
	}
	if p := req.URL.Path; r.Guard != nil && path.Clean(p) != strings.TrimSuffix(p, "/") {
		// Programs disagree on where such a path leads.
		return api.OtherMethod, writeFault(w, &apierr.Error{HTTP: http.StatusNotFound, Detail: "unknown path " + apierr.Clip(p) + "; use a path without // and dots"})
	}
	return at, r.guardedRoute(mountRule(at, req.URL.Path), func(w http.ResponseWriter, req *http.Request) (int, error) {
		rec := &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		h.ServeHTTP(rec, req)
		return rec.code, nil
	})(w, req)
}

// nothingAt returns the error of a path that does not exist. It names the most similar path, and
// the list of all paths.
func (r *router) nothingAt(p string) *apierr.Error {
	detail := "unknown path " + apierr.Clip(p) + ";"
	if near := cmp.Or(suggest.Word(p, r.paths), suggest.Word("/v1"+p, r.paths)); near != "" {
		detail += " did you mean " + near + "?"
	}
	return &apierr.Error{HTTP: http.StatusNotFound, Detail: detail + " /v1/openapi.json lists all paths of the API"}
}

// Paths of the console and its sign-in form for unknown callers.
const (
	Console    = "/console"
	signInPath = Console + "/sign-in"
)

// toConsole redirects a browser that opens the root to the console, if it is mounted.
func (r *router) toConsole(w http.ResponseWriter, req *http.Request) bool {
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	if !read || req.URL.Path != "/" || r.options.Mount[Console] == nil || !strings.Contains(req.Header.Get("Accept"), "text/html") {
		return false
	}
	http.Redirect(w, req, Console+"/", http.StatusSeeOther)
	return true
}

// mountRule returns the name of the rule for a path below a mount: the longest prefix that has a
// rule.
func mountRule(at, p string) string {
	for p = strings.TrimSuffix(p, "/"); len(p) > len(at); p = p[:strings.LastIndexByte(p, '/')] {
		if _, ok := auth.RuleOf(p); ok {
			return p
		}
	}
	return at
}

type statusRecorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusRecorder) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap gives http.ResponseController access to the connection's own writer.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
