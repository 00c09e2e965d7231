package config

import "github.com/quorate/quorate/internal/rbac"

// maxSettingsBindings bounds the list of bindings in settings.
const maxSettingsBindings = 1000

const bindingExample = `{identity: "client:ci", role: limit-writer, scope: "namespace:web"}`

func readBinding(v Value, _ []rbac.Binding) rbac.Binding {
	var scope string
	b := rbac.Binding{Scope: rbac.Everywhere, By: "settings"}
	before := v.Faults()
	v.Fields(bindingExample, []Field{
		{"identity", `identity: "client:ci", "user:*" for all of a kind, or "*" for anyone`, func(v Value) { v.scalar(bounded(&b.Identity, 1, rbac.MaxIdentity)) }},
		{"role", "", func(v Value) { v.scalar(oneOf(&b.Role, identity, rbac.RoleNames()...)) }},
		{"permissions", "", func(v Value) {
			v.Items(len(rbac.PermissionNames()), "[check]", func(one Value) {
				var name string
				if one.scalar(oneOf(&name, identity, rbac.PermissionNames()...)) {
					b.Permissions = append(b.Permissions, name)
				}
			})
		}},
		{"scope", "", func(v Value) {
			if v.scalar(bounded(&scope, 1, rbac.MaxScope)) {
				b.Scope = rbac.Scope(scope)
			}
		}},
	})
	if v.Faults() == before {
		if err := b.Validate(); err != nil {
			v.faultAtName("%s", err)
		}
	}
	return b
}
