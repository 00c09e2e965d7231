package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// maxGrants bounds the list of grants.
const maxGrants = 1000

const grantExample = `{identity: "user:ann", realm: "project:infra", permissions: [quota.accounts.read]}`

// readGrants reads who may administer accounts from a file. An empty list is
// one: then nobody may.
func readGrants(to *[]access.Grant) func(decoder, place) bool {
	return readEach(to, maxGrants, grantExample, readGrant)
}

// readEach reads a list of at most so many, which may be empty, and sets it if there is
// no fault in it.
func readEach[T any](to *[]T, most int, example string, read func(decoder, place) T) func(decoder, place) bool {
	return func(d decoder, p place) bool {
		before := len(d.faults)
		list := []T{}
		if p.value.Kind != yaml.SequenceNode || len(p.value.Content) > 0 {
			d.list(p, most, "["+example+"]", func(item place) { list = append(list, read(d, item)) })
		}
		if len(d.faults) > before {
			return false
		}
		*to = list
		return true
	}
}

func readGrant(d decoder, item place) access.Grant {
	var g access.Grant
	var when map[string]place
	d.object(item, grantExample, []field{
		{"identity", `identity: "user:ann", or "*" for anybody`, func(p place) { d.scalar(p, bounded(&g.Identity, 1, quota.MaxNameLen)) }},
		{"realm", `realm: "project:infra"`, func(p place) { d.scalar(p, bounded(&g.Realm, 1, account.MaxAtom)) }},
		{"permissions", "permissions: [quota.accounts.read]", func(p place) { g.Permissions = readPermissions(d, p) }},
		{"when", "", func(p place) { g.When, when = readConditions(d, p) }},
	})
	for _, permission := range g.Permissions {
		for _, name := range sortedKeys(when) {
			if attributes := access.Attributes(permission); !slices.Contains(attributes, name) {
				at := when[name]
				d.node(at.where(), at.path, "%s is never asked for with it, so the grant would not count; must be of %s", permission, strings.Join(attributes, ", "))
			}
		}
	}
	return g
}

func sortedKeys(m map[string]place) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func readPermissions(d decoder, p place) (out []string) {
	all := access.Permissions()
	d.list(p, len(all), "["+access.AccountsRead+"]", func(item place) {
		var one string
		if !d.scalar(item, oneOf(&one, itself, all...)) {
			return
		}
		if slices.Contains(out, one) {
			d.node(item.value, item.path, "%s is there twice; remove one", one)
		}
		out = append(out, one)
	})
	return out
}

// readConditions reads what must be so for a grant to count, and where that is.
func readConditions(d decoder, p place) (map[string]string, map[string]place) {
	out, at := map[string]string{}, map[string]place{}
	var fields []field
	for _, name := range access.Attributes(access.AccountsRead) {
		fields = append(fields, field{name, "", func(p place) {
			var value string
			s := bounded(&value, 0, account.MaxAtom)
			if name == access.Self {
				s = oneOf(&value, itself, "0", "1")
			}
			if d.scalar(p, s) {
				out[name], at[name] = value, p
			}
		}})
	}
	d.object(p, `{self: "1"}`, fields)
	return out, at
}

// grants reads the list from a variable, where it is YAML.
func grants(to *[]access.Grant) scalar {
	want := "a list, such as [" + grantExample + "]"
	return scalar{want: want, set: func(text string) error {
		r := &report{data: []byte(text)}
		if root := r.root("[" + grantExample + "]"); root != nil {
			readGrants(to)(decoder{r}, place{path: "grants", value: root})
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
