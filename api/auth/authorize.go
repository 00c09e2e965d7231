package auth

import (
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/internal/rbac"
)

// AuthorizeCall returns an error if a caller may not make a call whatever its request says: it has
// the permission nowhere. It needs no request, so nothing of a refused one is read. For other calls,
// AuthorizeRequest then checks the request.
func (g *Guard) AuthorizeCall(c *Caller, method string) error {
	r, ok := RuleOf(method)
	switch {
	case !ok:
		return &DeniedError{Caller: c, Permission: unlisted, Method: method}
	case r.Need == Open:
		return nil
	case r.Need == Inside:
		if !g.Somewhere(c, r.Permission) && !g.granted(c) {
			return g.denied(c, r, method, "")
		}
		return nil
	case r.Need == Known:
		if c.Credential == None {
			return &DeniedError{Caller: c, Method: method}
		}
		return nil
	case r.Scopes == nil && !r.AnyScope:
		if g.Has(c, r.Permission, rbac.Everywhere) {
			return nil
		}
		return g.denied(c, r, method, rbac.Everywhere)
	case g.Somewhere(c, r.Permission):
		return nil
	}
	return g.denied(c, r, method, "")
}

// granted reports whether the grants in the settings may apply to the caller.
func (g *Guard) granted(c *Caller) bool {
	if list, ok := g.cfg.Grants.(access.List); ok {
		return list.Knows(c.Identity)
	}
	return g.cfg.Grants != nil
}

func (g *Guard) denied(c *Caller, r Rule, method string, in rbac.Scope) error {
	return &DeniedError{Caller: c, Permission: r.Permission.String(), Scope: in, Method: method}
}

// AuthorizeRequest returns an error if a caller that AuthorizeCall accepted may not make a call with
// its request.
func (g *Guard) AuthorizeRequest(c *Caller, method string, req proto.Message) error {
	r, ok := RuleOf(method)
	if !ok {
		return &DeniedError{Caller: c, Permission: unlisted, Method: method}
	}
	if r.Need != Permit || r.Scopes == nil {
		return nil
	}
	if g.Has(c, r.Permission, rbac.Everywhere) {
		return nil
	}
	for _, in := range r.Scopes(req) {
		if !g.Has(c, r.Permission, in) {
			return g.deniedIn(c, r, method, in)
		}
	}
	return nil
}

// deniedIn returns a DeniedError. If the permission is needed everywhere, the error also says where
// the caller has it, so that the call can name such a scope.
func (g *Guard) deniedIn(c *Caller, r Rule, method string, in rbac.Scope) error {
	e := &DeniedError{Caller: c, Permission: r.Permission.String(), Scope: in, Method: method}
	if in == rbac.Everywhere {
		for _, t := range []*rbac.Table{g.cfg.Table(), g.settings, g.builtIn} {
			e.Has = append(e.Has, t.Where(c.names, r.Permission)...)
		}
	}
	return e
}

// Check returns a *DeniedError if a caller lacks a permission in a scope, else nil.
func (g *Guard) Check(c *Caller, p rbac.Permission, in rbac.Scope, method string) error {
	if g.Has(c, p, in) {
		return nil
	}
	return &DeniedError{Caller: c, Permission: p.String(), Scope: in, Method: method}
}
