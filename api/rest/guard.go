package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
)

// name returns a route's name in the table of permissions.
func (r *route) name() string {
	if r.rpc != "" {
		return "/quorate.v1." + strings.Replace(r.rpc, ".", "/", 1)
	}
	return r.method + " " + r.path
}

// guardedRoute wraps a handler with authentication, authorization and audit, as the interceptors do
// for gRPC, and sends its error.
func (r *router) guardedRoute(name string, next handler) guarded {
	if r.Unguarded(name) {
		return func(w http.ResponseWriter, req *http.Request) int {
			if err := fromHere(req, name, r.Guard != nil); err != nil && name != Console { // the console answers with a page
				return writeFault(w, err)
			}
			// Except for the sign-in form, the console reads bodies of signed-in callers only.
			anonymous := r.Guard != nil && (name != Console || req.URL.Path == signInPath)
			if r.bodies.counts(req, anonymous) {
				defer r.bodies.hold(w, req, api.OwnerOf(nil, api.Host(req.RemoteAddr)), anonymous)()
			}
			code, err := next(w, req)
			if code == 0 {
				code = writeFault(w, err)
			}
			return code
		}
	}
	return func(w http.ResponseWriter, req *http.Request) int {
		v := &api.Call{Gate: r.Gate, Method: name, Address: api.Host(req.RemoteAddr), RequestID: req.Header.Get("X-Request-Id")}
		v.Identify = func(ctx context.Context) (*auth.Caller, error) {
			return r.Guard.Identify(ctx, req.TLS, req.Header.Values("Authorization"))
		}
		ctx, err := r.arriveHTTP(req, v)
		if err == nil {
			ctx, err = r.Authorize(ctx, v)
		}
		if err == nil {
			err = fromHere(req, name, r.Guard != nil)
		}
		if err != nil {
			v.Failed = err
			r.Audit(v)
			return writeFault(w, err)
		}
		if anonymous := r.Guard != nil && v.Caller.Credential == auth.None; r.bodies.counts(req, anonymous) {
			defer r.bodies.hold(w, req, v.Owner(), anonymous)()
		}
		code, err := next(w, req.WithContext(ctx))
		if code == 0 {
			code = writeFault(w, err)
		}
		if v.Failed = err; err == nil && code >= http.StatusBadRequest {
			v.Failed = &apierr.Error{HTTP: code, Reason: http.StatusText(code)} // a refusal, or the answer of a mounted handler
		}
		if v.Rule.Audited || v.Failed != nil && api.FromStatus(v.Failed).Denied() {
			r.Audit(v)
		}
		return code
	}
}

func (r *router) arriveHTTP(req *http.Request, v *api.Call) (context.Context, error) {
	ctx := req.Context()
	if r.Guard == nil {
		who, err := r.Identity(authorContext(req))
		if err != nil {
			who = ""
		}
		v.Caller = auth.UnverifiedCaller(who)
		return ctx, nil
	}
	c, err := v.Identify(ctx)
	if err != nil {
		v.Caller = auth.UnverifiedCaller("")
		return ctx, api.FromAuth(err)
	}
	v.Caller = c
	return ctx, nil
}
