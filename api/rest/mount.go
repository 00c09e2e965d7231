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

// mountedAt returns the handler of another protocol for a path, nil if there is
// none, and where it is mounted: the longest path that fits.
func (r *router) mountedAt(p string) (h http.Handler, at string) {
	for prefix, handler := range r.Opts.Mount {
		below, ok := strings.CutPrefix(p, prefix)
		if ok && (below == "" || below[0] == '/') && len(prefix) > len(at) {
			h, at = handler, prefix
		}
	}
	return h, at
}

// strictTransport makes browsers return over TLS only.
var strictTransport = []string{"max-age=31536000"}

// serveOther serves what is no route of ours. It returns what metrics call it,
// and the status it sent.
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
		// What it leads to would depend on who reads it.
		return api.OtherMethod, writeFault(w, &apierr.Error{HTTP: http.StatusNotFound, Detail: "there is nothing at " + apierr.Clip(p) + "; use a path without // and dots"})
	}
	return at, r.guardedRoute(mountRule(at, req.URL.Path), func(w http.ResponseWriter, req *http.Request) int {
		rec := &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		h.ServeHTTP(rec, req)
		return rec.code
	})(w, req)
}

// nothingAt is the fault of a path that leads nowhere: it names the one that was most likely
// meant, and where all are listed.
func (r *router) nothingAt(p string) *apierr.Error {
	detail := "there is nothing at " + apierr.Clip(p)
	if near := cmp.Or(suggest.Word(p, r.paths), suggest.Word("/v1"+p, r.paths)); near != "" {
		detail += "; did you mean " + near + "?"
	}
	return &apierr.Error{HTTP: http.StatusNotFound, Detail: detail + "; /v1/openapi.json lists all paths of the API"}
}

// Where the console is mounted, and its form for callers who are not known yet.
const (
	Console    = "/console"
	signInPath = Console + "/sign-in"
)

// toConsole sends whoever opens the root in a browser to the console, where there is one.
func (r *router) toConsole(w http.ResponseWriter, req *http.Request) bool {
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	if !read || req.URL.Path != "/" || r.Opts.Mount[Console] == nil || !strings.Contains(req.Header.Get("Accept"), "text/html") {
		return false
	}
	http.Redirect(w, req, Console+"/", http.StatusSeeOther)
	return true
}

// mountRule is the name of the rule for a path below a mount: the longest that fits.
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

// Unwrap gives http.ResponseController the connection's own writer.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
