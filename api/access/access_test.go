package access

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestPermissionInTheRealmOrInInternal checks the rule for every permission: in the subject's
// realm, in the app's internal realm, elsewhere, and for absolute resources.
func TestPermissionInTheRealmOrInInternal(t *testing.T) {
	const app, realm, who = "cv", "project:infra", "user:ann"
	for _, permission := range Permissions() {
		for _, c := range []struct {
			name       string
			grant      Grant
			plain, abs bool
		}{
			{name: "in the realm", grant: Grant{Identity: who, Realm: realm}, plain: true},
			{name: "in the internal realm", grant: Grant{Identity: who, Realm: "@internal:cv"}, plain: true, abs: true},
			{name: "to anybody", grant: Grant{Identity: "*", Realm: realm}, plain: true},
			{name: "to another", grant: Grant{Identity: "user:bob", Realm: realm}},
			{name: "in another realm", grant: Grant{Identity: who, Realm: "project:other"}},
			{name: "in another app's internal realm", grant: Grant{Identity: who, Realm: "@internal:rdb"}},
			{name: "for this app", grant: Grant{Identity: who, Realm: realm, When: map[string]string{App: app}}, plain: true},
			{name: "for another app", grant: Grant{Identity: who, Realm: realm, When: map[string]string{App: "rdb"}}},
			{name: "on what the call has not", grant: Grant{Identity: who, Realm: realm, When: map[string]string{"color": ""}}},
		} {
			t.Run(permission+" "+c.name, func(t *testing.T) {
				others := slices.DeleteFunc(Permissions(), func(p string) bool { return p == permission })
				right, wrong := c.grant, c.grant
				right.Permissions, wrong.Permissions = []string{permission}, others
				for _, absolute := range []bool{false, true} {
					s := Subject{App: app, Realm: realm, Absolute: absolute}
					want := c.plain && !absolute || c.abs && absolute
					if err := Check(t.Context(), List{right}, who, permission, s); (err == nil) != want {
						t.Errorf("absolute %v: %v", absolute, err)
					}
					if Check(t.Context(), List{wrong}, who, permission, s) == nil {
						t.Errorf("absolute %v: other permissions were enough", absolute)
					}
				}
			})
		}
	}
}

// TestConditions checks that all conditions must hold, and that a condition on an attribute that
// the call omits never holds, whatever its value.
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		when, binding map[string]string
		want          bool
	}{
		{nil, nil, true},
		{map[string]string{Self: "1"}, map[string]string{Self: "1"}, true},
		{map[string]string{Self: "1"}, map[string]string{Self: "0"}, false},
		{map[string]string{Namespace: ""}, map[string]string{Namespace: ""}, true},
		{map[string]string{Namespace: ""}, nil, false},
		{map[string]string{Namespace: "ci", Resource: "builds"}, map[string]string{Namespace: "ci", Resource: "builds", Self: "0"}, true},
		{map[string]string{Namespace: "ci", Resource: "builds"}, map[string]string{Namespace: "ci", Resource: "cpu"}, false},
	} {
		l := List{{Identity: Anybody, Realm: "r", Permissions: []string{AccountsList}, When: c.when}}
		if got := Check(t.Context(), l, "x", AccountsList, Subject{App: "a", Realm: "r", Binding: c.binding}) == nil; got != c.want {
			t.Errorf("when %v, with %v: %v", c.when, c.binding, got)
		}
	}
	// The binding of a call cannot claim another app.
	l := List{{Identity: Anybody, Realm: "r", Permissions: []string{PoliciesRead}, When: map[string]string{App: "a"}}}
	if Check(t.Context(), l, "x", PoliciesRead, Subject{App: "b", Realm: "r", Binding: map[string]string{App: "a"}}) == nil {
		t.Error("another app was allowed")
	}
}

// TestDeniedNamesPermissionRealmAndIdentity checks that the error tells an administrator everything
// that a grant needs.
func TestDeniedNamesPermissionRealmAndIdentity(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		err := Check(t.Context(), List{}, "user:ann", AccountsWrite, Subject{App: "cv", Realm: "project:infra", Absolute: absolute})
		denied, ok := errors.AsType[*DeniedError](err)
		if !ok || denied.Permission != AccountsWrite || denied.Realm != "project:infra" || denied.Identity != "user:ann" {
			t.Fatalf("%#v", err)
		}
		for _, word := range []string{`"user:ann"`, AccountsWrite, `"project:infra"`, `"@internal:cv"`} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not say %s", err, word)
			}
		}
		if strings.Contains(err.Error(), "absolute") != absolute {
			t.Errorf("absolute %v: %v", absolute, err)
		}
	}
}

// TestEverybody checks that nothing is refused without grants.
func TestEverybody(t *testing.T) {
	for _, p := range Permissions() {
		if err := Check(t.Context(), Everybody{}, "anonymous:anonymous", p, Subject{App: "a", Realm: "r", Absolute: true}); err != nil {
			t.Error(err)
		}
		if Attributes(p) == nil || Attributes(p)[0] != App {
			t.Errorf("%s has no attributes", p)
		}
	}
	if Attributes("quota.other") != nil {
		t.Error("attributes of no permission")
	}
}
