package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
)

// name is a route's name in the table of permissions.
func (r *route) name() string {
	if r.rpc != "" {
		return "/quorate.v1." + strings.Replace(r.rpc, ".", "/", 1)
	}
	return r.method + " " + r.path
}

// guardedRoute is what interceptors are for gRPC.
func (r *router) guardedRoute(name string, next handler) handler {
	if r.passes(name) {
		return func(w http.ResponseWriter, req *http.Request) int {
			if f := fromHere(req, name, r.guard != nil); f != nil && name != Console { // the console answers with a page
				return writeFault(w, f)
			}
			// The console reads bodies of signed-in callers only, but for the sign-in form.
			stranger := r.guard != nil && (name != Console || req.URL.Path == signInPath)
			if r.bodies.counts(req, stranger) {
				defer r.bodies.hold(w, req, ownerOf(host(req.RemoteAddr)), stranger)()
			}
			return next(w, req)
		}
	}
	return func(w http.ResponseWriter, req *http.Request) int {
		v := &visit{Gate: r.Gate, method: name, address: host(req.RemoteAddr), requestID: req.Header.Get("X-Request-Id")}
		v.identify = func(ctx context.Context) (*auth.Caller, error) {
			return r.guard.Identify(ctx, req.TLS, req.Header.Values("Authorization"))
		}
		ctx, f := r.arriveHTTP(req, v)
		if f == nil {
			ctx, f = r.enter(ctx, v)
		}
		if f == nil {
			f = fromHere(req, name, r.guard != nil)
		}
		if f != nil {
			v.failed = f
			r.note(v)
			return writeFault(w, f)
		}
		if stranger := r.guard != nil && v.caller.Credential == auth.None; r.bodies.counts(req, stranger) {
			defer r.bodies.hold(w, req, v.owner(), stranger)()
		}
		code := next(w, req.WithContext(ctx))
		if code >= http.StatusBadRequest && v.failed == nil {
			v.failed = &apierr.Error{HTTP: code, Reason: http.StatusText(code)} // the call was not made: those that are say how they ended
		}
		if v.rule.Audited || v.failed != nil && fromStatus(v.failed).Denied() {
			r.note(v)
		}
		return code
	}
}

func (r *router) arriveHTTP(req *http.Request, v *visit) (context.Context, error) {
	ctx := req.Context()
	if r.guard == nil {
		who, f := r.caller(authorContext(req))
		if f != nil {
			who = ""
		}
		v.caller = auth.Spoken(who)
		return ctx, nil
	}
	c, err := v.identify(ctx)
	if err != nil {
		v.caller = auth.Spoken("")
		return ctx, fromAuth(err)
	}
	v.caller = c
	return ctx, nil
}
