package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// maxGrants bounds the length of the list of grants.
const maxGrants = 1000

const grantExample = `{identity: "user:ann", realm: "project:infra", permissions: [quota.accounts.read]}`

func readGrant(v Value, _ []access.Grant) access.Grant {
	var g access.Grant
	var when map[string]Value
	v.Fields(grantExample, []Field{
		{"identity", `identity: "user:ann", or "*" for anyone`, func(v Value) { v.scalar(bounded(&g.Identity, 1, quota.MaxNameLen)) }},
		{"realm", `realm: "project:infra"`, func(v Value) { v.scalar(bounded(&g.Realm, 1, account.MaxAtom)) }},
		{"permissions", "permissions: [quota.accounts.read]", func(v Value) { g.Permissions = readPermissions(v) }},
		{"when", "", func(v Value) { g.When, when = readConditions(v) }},
	})
	for _, permission := range g.Permissions {
		for _, name := range slices.Sorted(maps.Keys(when)) {
			if attributes := access.Attributes(permission); !slices.Contains(attributes, name) {
				when[name].faultAtName("%s does not apply to it, so the grant would have no effect; must be of %s", permission, strings.Join(attributes, ", "))
			}
		}
	}
	return g
}

func readPermissions(v Value) (out []string) {
	all := access.Permissions()
	v.Items(len(all), "["+access.AccountsRead+"]", func(item Value) {
		var one string
		if !item.scalar(oneOf(&one, identity, all...)) {
			return
		}
		if slices.Contains(out, one) {
			item.Fault("%s is a duplicate; remove one", one)
		}
		out = append(out, one)
	})
	return out
}

// readConditions reads the attributes that a grant requires, and returns their values and the place
// of each.
func readConditions(v Value) (map[string]string, map[string]Value) {
	out, at := map[string]string{}, map[string]Value{}
	var fields []Field
	for _, name := range access.Attributes(access.AccountsRead) {
		fields = append(fields, Field{name, "", func(v Value) {
			var value string
			s := bounded(&value, 0, account.MaxAtom)
			if name == access.Self {
				s = oneOf(&value, identity, "0", "1")
			}
			if v.scalar(s) {
				out[name], at[name] = value, v
			}
		}})
	}
	v.Fields(`{self: "1"}`, fields)
	return out, at
}
