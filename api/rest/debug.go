package rest

import (
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
)

const (
	maxProfile        = 60 // seconds
	debugWriteTimeout = 90 * time.Second
)

// NewDebug returns a server of profiles, for a private address. With a guard, it serves only
// callers with debug.read everywhere. Without one, the caller of NewDebug must keep unauthenticated callers from
// reaching it. A profile may contain data from memory, so this server serves nothing else, and no
// other server serves profiles.
func NewDebug(s *api.Service) *http.Server {
	r := &router{Service: s, bodies: newBodies()}
	r.hosts.names = s.Opts.Hosts
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	h := r.guardedRoute("/debug", func(w http.ResponseWriter, req *http.Request) (int, error) {
		if err := r.hostFault(req); err != nil {
			return 0, err
		}
		if text := req.FormValue("seconds"); text != "" {
			if n, err := strconv.ParseFloat(text, 64); err != nil || n <= 0 || n > maxProfile {
				return 0, apierr.Invalid("seconds", "is %q; must be more than 0 and at most %d", apierr.Clip(text), maxProfile)
			}
		}
		rec := &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		ctx, stop := r.WhileAuthorized(req.Context()) // a profile takes up to a minute
		mux.ServeHTTP(rec, req.WithContext(ctx))
		return rec.code, stop()
	})
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { h(w, req) }),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      debugWriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHTTPHeader,
	}
}
