package config

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/internal/rbac"
)

// maxSettingsBindings bounds the list of bindings in settings.
const maxSettingsBindings = 1000

const bindingExample = `{identity: "client:ci", role: limit-writer, scope: "namespace:web"}`

// readBindings reads who may do what from a file.
func readBindings(to *[]rbac.Binding) func(decoder, place) bool {
	return readEach(to, maxSettingsBindings, bindingExample, readBinding)
}

func readBinding(d decoder, item place) rbac.Binding {
	var scope string
	b := rbac.Binding{Scope: rbac.Everywhere, By: "settings"}
	before := len(d.faults)
	d.object(item, bindingExample, []field{
		{"identity", `identity: "client:ci", "user:*" for all of a kind, or "*" for anybody`, func(p place) { d.scalar(p, bounded(&b.Identity, 1, rbac.MaxIdentity)) }},
		{"role", "", func(p place) { d.scalar(p, oneOf(&b.Role, itself, rbac.RoleNames()...)) }},
		{"permissions", "", func(p place) {
			d.list(p, len(rbac.PermissionNames()), "[check]", func(one place) {
				var name string
				if d.scalar(one, oneOf(&name, itself, rbac.PermissionNames()...)) {
					b.Permissions = append(b.Permissions, name)
				}
			})
		}},
		{"scope", "", func(p place) {
			if d.scalar(p, bounded(&scope, 1, rbac.MaxScope)) {
				b.Scope = rbac.Scope(scope)
			}
		}},
	})
	if len(d.faults) == before {
		if err := b.Validate(); err != nil {
			d.node(item.where(), item.path, "%s", err)
		}
	}
	return b
}

// bindings reads the list from a variable, where it is YAML.
func bindings(to *[]rbac.Binding) scalar {
	want := "a list, such as [" + bindingExample + "]"
	return scalar{want: want, set: func(text string) error {
		r := &report{data: []byte(text)}
		if root := r.root("[" + bindingExample + "]"); root != nil {
			readBindings(to)(decoder{r}, place{path: "bindings", value: root})
		}
		var all []string
		for _, f := range r.faults {
			all = append(all, strings.TrimPrefix(f.Path+": "+f.Message, ": "))
		}
		if len(all) > 0 {
			return fmt.Errorf("%s", strings.Join(all, "; "))
		}
		return nil
	}}
}
