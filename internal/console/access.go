package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit/words"
	"github.com/quorate/quorate/internal/rbac"
)

func accessPage() Page {
	return Page{
		Path: "access", Title: "Access", Group: "Access", Template: "access", Need: rbac.AccessRead, Load: loadAccess,
		Actions: map[string]Action{
			"bind":   {Confirm: confirmBind, Do: doBind},
			"unbind": {Confirm: confirmUnbind, Do: doUnbind},
			"token":  {Confirm: confirmToken, Do: doToken},
			"revoke": {Confirm: confirmRevoke, Do: doRevoke},
		},
	}
}

// accessRows is the number of bindings, and of tokens, on a page.
const accessRows = 100

type accessView struct {
	Me                          *quoratev1.WhoAmIResponse
	Roles                       []*quoratev1.Role
	Permissions                 []permissionRow
	Bindings                    []*quoratev1.Binding
	Tokens                      []*quoratev1.BearerToken
	BindingsTotal, TokensTotal  int
	BindingsPager, TokensPager  Pager
	Who                         string
	NoRoles, NoBindings, NoList *Problem
	May                         bool
	Now                         int64
}

// permissionRow is a permission and the roles that contain it.
type permissionRow struct {
	Name string
	Has  []bool
}

func loadAccess(r *Request) (any, error) {
	v := &accessView{Who: r.Query("who"), May: r.May(rbac.AccessAdmin), Now: r.Now().Unix()}
	me, err := r.Security.WhoAmI(r.Context(), &quoratev1.WhoAmIRequest{})
	if err != nil {
		return nil, err
	}
	v.Me = me
	if res, err := r.Security.ListRoles(r.Context(), &quoratev1.ListRolesRequest{}); err != nil {
		v.NoRoles = problemOf(err)
	} else {
		v.Roles = res.Roles
		v.permissions()
	}
	if res, err := r.Security.ListBindings(r.Context(), &quoratev1.ListBindingsRequest{}); err != nil {
		v.NoBindings = problemOf(err)
	} else {
		list := slices.DeleteFunc(res.Bindings, func(b *quoratev1.Binding) bool { return !strings.Contains(b.Identity, v.Who) })
		v.BindingsTotal = len(list)
		v.Bindings, v.BindingsPager = paged(r, list, "bindings", v.Who)
	}
	if res, err := r.Security.ListTokens(r.Context(), &quoratev1.ListTokensRequest{}); err != nil {
		v.NoList = problemOf(err)
	} else {
		list := slices.DeleteFunc(res.Tokens, func(t *quoratev1.BearerToken) bool { return !strings.Contains("token:"+t.Name, v.Who) })
		v.TokensTotal = len(list)
		v.Tokens, v.TokensPager = paged(r, list, "tokens", v.Who)
	}
	return v, nil
}

// paged returns one page of a list. The page number, from 0, is in the parameter with the list's
// name.
func paged[T any](r *Request, list []T, name, who string) ([]T, Pager) {
	page, _ := strconv.Atoi(r.Query(name))
	page = min(max(page, 0), max(0, (len(list)-1)/accessRows))
	from := page * accessRows
	to := min(from+accessRows, len(list))
	p := Pager{Label: "Pages of " + name, What: fmt.Sprintf("%d to %d of %d", min(from+1, to), to, len(list))}
	if page > 0 {
		p.Prev, _ = link("access", name, page-1, "who", who)
	}
	if to < len(list) {
		p.Next, _ = link("access", name, page+1, "who", who)
	}
	return list[from:to], p
}

func (v *accessView) permissions() {
	for _, name := range rbac.PermissionNames() {
		row := permissionRow{Name: name}
		for _, role := range v.Roles {
			row.Has = append(row.Has, slices.Contains(role.Permissions, name))
		}
		v.Permissions = append(v.Permissions, row)
	}
}

// Expired reports whether a token has expired.
func (v *accessView) Expired(t *quoratev1.BearerToken) bool {
	return t.ExpiresAt != nil && t.ExpiresAt.Seconds <= v.Now
}

// caller returns the address of what an identity did, in the audit log; of a group, that of its roles,
// because only its members make calls. It is empty for everybody.
func caller(identity string) string {
	if identity == "" || identity == "*" {
		return ""
	}
	page := "audit"
	if strings.HasPrefix(identity, "group:") { // a group makes no calls
		page = "access"
	}
	to, _ := link(page, "who", identity)
	return to
}

func confirmBind(r *Request) (*Confirmation, error) {
	f := r.PostForm
	c := &Confirmation{
		Title: "Grant a role", Button: "Grant",
		Will: []string{"The identity gets the permissions of the role, on all nodes, as soon as the change is committed."},
	}
	role := Field{Name: "role", Label: "Role", Type: "select", Value: f.Get("role")}
	res, err := r.Security.ListRoles(r.Context(), &quoratev1.ListRolesRequest{})
	if err != nil {
		return nil, err
	}
	for _, one := range res.Roles {
		role.Options = append(role.Options, Option{one.Name, one.Name + ": " + one.Summary})
	}
	c.Fields = []Field{
		{Name: "identity", Label: "Identity", Type: "text", Required: true, Value: f.Get("identity"), Hint: "Such as token:ci, client:web, user:ann@example.com, group:ops, or * for every caller."},
		role,
		{Name: "scope", Label: "Where", Type: "text", Value: f.Get("scope"), Hint: "namespace:NAME, realm:NAME, or empty for everywhere."},
	}
	return c, nil
}

func bindingOf(r *Request) *quoratev1.Binding {
	f := r.PostForm
	return &quoratev1.Binding{Identity: strings.TrimSpace(f.Get("identity")), Role: f.Get("role"), Scope: strings.TrimSpace(f.Get("scope"))}
}

func doBind(r *Request) (*Result, error) {
	b := bindingOf(r)
	res, err := r.Security.SetBinding(r.Context(), &quoratev1.SetBindingRequest{Binding: b})
	if err != nil {
		return nil, err
	}
	out := &Result{Title: "Role granted", Lines: []string{b.Identity + " is " + b.Role + " " + words.Where(b.Scope) + "."}}
	if !res.Changed {
		out.Title = "No change needed"
	}
	return out, nil
}

func confirmUnbind(r *Request) (*Confirmation, error) {
	b := bindingOf(r)
	what := "the role " + b.Role
	if b.Role == "" {
		what = "the listed permissions"
	}
	return &Confirmation{
		Title: "Revoke a role of " + b.Identity + "?", Button: "Revoke", Danger: true, Fields: Hidden(r, "identity", "role", "scope"),
		Will: []string{b.Identity + " loses " + what + " " + words.Where(b.Scope) + ", from its next call.", "Roles from other bindings stay."},
	}, nil
}

func doUnbind(r *Request) (*Result, error) {
	b := bindingOf(r)
	if _, err := r.Security.DeleteBinding(r.Context(), &quoratev1.DeleteBindingRequest{Identity: b.Identity, Role: b.Role, Scope: b.Scope}); err != nil {
		return nil, err
	}
	return &Result{Title: "Role revoked", Lines: []string{b.Identity + " no longer has it " + words.Where(b.Scope) + "."}}, nil
}

func confirmToken(r *Request) (*Confirmation, error) {
	f := r.PostForm
	return &Confirmation{
		Title: "Create a token", Button: "Create the token",
		Will: []string{"Its bearer has the identity token:NAME, and the roles of that identity.", "The token is shown once and is not stored."},
		Fields: []Field{
			{Name: "name", Label: "Name", Type: "text", Required: true, Value: f.Get("name"), Hint: "Tokens can share a name, so that you can replace them one by one."},
			{Name: "ttl", Label: "Valid for", Type: "text", Value: f.Get("ttl"), Hint: "Such as 720h, at most 87600h. Empty: never expires."},
			{Name: "comment", Label: "Purpose", Type: "text", Value: f.Get("comment")},
		},
	}, nil
}

func doToken(r *Request) (*Result, error) {
	ttl, err := durationField(r, "ttl")
	if err != nil {
		return nil, err
	}
	res, err := r.Security.CreateToken(r.Context(), &quoratev1.CreateTokenRequest{Name: strings.TrimSpace(r.PostForm.Get("name")), Ttl: ttl, Comment: r.PostForm.Get("comment")})
	if err != nil {
		return nil, err
	}
	return &Result{Title: "Token created", Secret: res.Token, Label: "Token " + res.GetInfo().GetId() + " of token:" + res.GetInfo().GetName() + ".", Lines: []string{"Send it as: authorization: Bearer TOKEN"}}, nil
}

func confirmRevoke(r *Request) (*Confirmation, error) {
	id := r.PostForm.Get("id")
	res, err := r.Security.ListTokens(r.Context(), &quoratev1.ListTokensRequest{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(res.Tokens, func(t *quoratev1.BearerToken) bool { return t.Id == id })
	if i < 0 {
		return nil, &Problem{Status: http.StatusNotFound, Title: "Unknown token", Detail: "It may already be revoked."}
	}
	t := res.Tokens[i]
	return &Confirmation{
		Title: "Revoke the token " + t.Id + "?", Button: "Revoke", Danger: true, Fields: Hidden(r, "id"),
		Will: []string{"Callers that use it as token:" + t.Name + " are refused from their next call, and signed out of consoles.", "This cannot be undone. Other tokens of that name stay."},
	}, nil
}

func doRevoke(r *Request) (*Result, error) {
	id := r.PostForm.Get("id")
	if _, err := r.Security.RevokeToken(r.Context(), &quoratev1.RevokeTokenRequest{Id: id}); err != nil {
		return nil, err
	}
	return &Result{Title: "Token revoked", Lines: []string{"Token " + id + " is no longer valid."}}, nil
}
