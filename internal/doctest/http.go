package doctest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// openAPI is what is read of an OpenAPI description.
type openAPI struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Description string
	Parameters  []parameter
	RequestBody *body
	Responses   map[string]body
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                schema
}

type body struct {
	Description string
	Content     map[string]struct{ Schema schema }
}

// schema is as much of a JSON schema as the description of the API has.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any    // a name, or several
	Description, Format  string
	Properties           map[string]schema
	Required             []string
	Items                *schema
	Enum                 []any
	AdditionalProperties any
	AnyOf, OneOf         []schema
}

// methods are in the order in which a path's are shown.
var methods = []string{"get", "post", "put", "delete"}

// httpFamilies are the pages of the HTTP reference, in order. A call is on the page that has the longest
// prefix of its path.
var httpFamilies = []struct {
	name, title string
	prefixes    []string
}{
	{"checks", "checks, reservations and concurrency", []string{"/v1/allow", "/v1/report", "/v1/refund", "/v1/reserve", "/v1/settle", "/v1/acquire", "/v1/renew", "/v1/release"}},
	{"limits", "limits, overrides and keys", []string{"/v1/limits", "/v1/overrides", "/v1/keys"}},
	{"accounts", "accounts and policies", []string{"/v1/accounts", "/v1/policies", "/v1/admin/"}},
	{"rates", "rates, events, history and planning", []string{"/v1/rates", "/v1/events", "/v1/history", "/v1/plan/"}},
	{"cluster", "cluster and backup", []string{"/v1/cluster/", "/v1/status", "/v1/backup"}},
	{"security", "roles, bindings and tokens", []string{"/v1/roles", "/v1/bindings", "/v1/tokens", "/v1/audit", "/v1/whoami"}},
	{"probes", "probes, metrics and schemas", []string{"/healthcheck", "/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/v1/schema/"}},
}

// httpFamily returns the index in httpFamilies of a path, or -1.
func httpFamily(p string) int {
	best, longest := -1, 0
	for i, f := range httpFamilies {
		for _, prefix := range f.prefixes {
			if strings.HasPrefix(p, prefix) && len(prefix) > longest {
				best, longest = i, len(prefix)
			}
		}
	}
	return best
}

// HTTP writes the reference of the HTTP API from its OpenAPI description: an index, http.md, a page for
// each family, http/NAME.md, with its calls and the types that it alone uses, and http/types.md with
// the types that several families use.
func HTTP(description []byte) (map[string]string, error) {
	var api openAPI
	if err := json.Unmarshal(description, &api); err != nil {
		return nil, err
	}
	for p, ops := range api.Paths {
		if httpFamily(p) < 0 {
			return nil, fmt.Errorf("%s is in no family: add its prefix to httpFamilies", p)
		}
		for m := range ops {
			if !slices.Contains(methods, m) {
				return nil, fmt.Errorf("%s: unknown method %q: add it to methods", p, m)
			}
		}
	}
	homes := api.homes()
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# HTTP\n\nEvery node serves all of it; bodies are JSON. Durations are seconds, times are RFC 3339, and errors are [problems](http/types.md#problem) as RFC 9457 " +
		"defines them. Field names, in bodies and in queries, and enum values are also accepted in the spelling of protobuf's JSON mapping, such as `expectedVersion` and `NODE_CHANGE_LEAVE`, except in queries of `/v1/forward-auth`. " +
		"For programs: [openapi.json](../openapi.json), which a node serves at `GET /v1/openapi.json`. The same calls over gRPC: [gRPC](grpc.md). " +
		"The permission that each call needs: [authorization](authorization.md).\n")
	for i, f := range httpFamilies {
		fmt.Fprintf(&index, "\n## %s\n\n| call | |\n|---|---|\n", strings.ToUpper(f.title[:1])+f.title[1:])
		w := httpPage{homes: homes, name: f.name}
		fmt.Fprintf(&w, "# HTTP: %s\n\nAll calls: [HTTP](../http.md).\n\n## Calls\n", f.title)
		for _, p := range slices.Sorted(maps.Keys(api.Paths)) {
			if httpFamily(p) != i {
				continue
			}
			for _, m := range methods {
				op, ok := api.Paths[p][m]
				if !ok {
					continue
				}
				name := strings.ToUpper(m) + " " + p
				fmt.Fprintf(&index, "| [%s](http/%s.md#%s) | %s |\n", name, f.name, Slug(name), cell(strings.TrimSuffix(sentence(op.Description), ".")))
				w.operation(op, name)
			}
		}
		w.types(api)
		pages["http/"+f.name+".md"] = w.String()
	}
	index.WriteString("\nTypes that several of these pages use: [common types](http/types.md).\n")
	pages["http.md"] = index.String()
	w := httpPage{homes: homes, name: commonTypes}
	w.WriteString("# HTTP: common types\n\nTypes that calls of several pages use. All calls: [HTTP](../http.md).\n")
	w.types(api)
	pages["http/"+commonTypes+".md"] = w.String()
	return pages, nil
}

// commonTypes is the page of types that several families use.
const commonTypes = "types"

// homes returns the page of each type: that of the only family that uses it, else commonTypes. It also
// returns commonTypes for types that no call uses.
func (api openAPI) homes() map[string]string {
	out := map[string]string{}
	for p, ops := range api.Paths {
		page := httpFamilies[httpFamily(p)].name
		seen := map[string]bool{}
		for _, op := range ops {
			op.each(func(s schema) { api.reach(s, seen) })
		}
		for name := range seen {
			if home := out[name]; home != "" && home != page {
				out[name] = commonTypes
			} else {
				out[name] = page
			}
		}
	}
	for name := range api.Components.Schemas {
		if out[name] == "" {
			out[name] = commonTypes
		}
	}
	return out
}

// each calls f for the schemas of an operation.
func (op operation) each(f func(schema)) {
	for _, p := range op.Parameters {
		f(p.Schema)
	}
	bodies := slices.Collect(maps.Values(op.Responses))
	if op.RequestBody != nil {
		bodies = append(bodies, *op.RequestBody)
	}
	for _, b := range bodies {
		for _, c := range b.Content {
			f(c.Schema)
		}
	}
}

// reach adds the names of the types that a schema leads to.
func (api openAPI) reach(s schema, seen map[string]bool) {
	if s.Ref != "" {
		name := path.Base(s.Ref)
		if seen[name] {
			return
		}
		seen[name] = true
		api.reach(api.Components.Schemas[name], seen)
	}
	for _, p := range s.Properties {
		api.reach(p, seen)
	}
	if s.Items != nil {
		api.reach(*s.Items, seen)
	}
	for _, o := range slices.Concat(s.AnyOf, s.OneOf) {
		api.reach(o, seen)
	}
}

// httpPage is a page of the HTTP reference while it is written.
type httpPage struct {
	strings.Builder
	name  string
	homes map[string]string // the page of each type
}

// types writes the types whose page this is.
func (w *httpPage) types(api openAPI) {
	w.WriteString("\n## Types\n")
	for _, name := range slices.Sorted(maps.Keys(api.Components.Schemas)) {
		if w.homes[name] == w.name {
			w.schema(api.Components.Schemas[name], name)
		}
	}
}

func (w *httpPage) operation(op operation, name string) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n", name, prose(op.Description))
	if len(op.Parameters) > 0 {
		w.WriteString("\n| parameter | in | type | |\n|---|---|---|---|\n")
		for _, p := range op.Parameters {
			fmt.Fprintf(w, "| `%s`%s | %s | %s | %s |\n", p.Name, required(p.Required), p.In, w.typeOf(p.Schema), cell(p.Description))
		}
	}
	if op.RequestBody != nil {
		fmt.Fprintf(w, "\nBody: %s\n", w.alternatives(*op.RequestBody))
	}
	w.WriteString("\n| status | answer |\n|---|---|\n")
	for _, code := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[code]
		words := cell(r.Description)
		if types := w.alternatives(r); types != "" {
			words = types + ": " + words
		}
		fmt.Fprintf(w, "| %s | %s |\n", code, words)
	}
}

func required(is bool) string {
	if is {
		return ", required"
	}
	return ""
}

// alternatives returns the types that a body may have.
func (w *httpPage) alternatives(c body) string {
	var out []string
	for _, media := range slices.Sorted(maps.Keys(c.Content)) {
		s := c.Content[media].Schema
		switch name := w.typeOf(s); {
		case media == "application/json", s.Ref != "":
			out = append(out, name)
		default:
			out = append(out, "`"+media+"`")
		}
	}
	return strings.Join(out, " or ")
}

func (w *httpPage) schema(s schema, name string) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n", name, prose(s.Description))
	if len(s.Enum) > 0 {
		fmt.Fprintf(w, "\n%s\n", w.typeOf(s))
	}
	if len(s.Properties) == 0 {
		return
	}
	w.WriteString("\n| field | type | |\n|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		f := s.Properties[field]
		fmt.Fprintf(w, "| `%s`%s | %s | %s |\n", field, required(slices.Contains(s.Required, field)), w.typeOf(f), cell(f.Description))
	}
}

// typeOf returns a schema's type, in words.
func (w *httpPage) typeOf(s schema) string {
	switch {
	case s.Ref != "":
		name, page := path.Base(s.Ref), ""
		if home := w.homes[name]; home != w.name {
			page = home + ".md"
		}
		return fmt.Sprintf("[%s](%s#%s)", name, page, Slug(name))
	case len(s.Enum) > 0:
		return quoted(s.Enum)
	case s.Items != nil:
		return "list of " + w.typeOf(*s.Items)
	case len(s.AnyOf) > 0 || len(s.OneOf) > 0:
		var out []string
		for _, o := range slices.Concat(s.AnyOf, s.OneOf) {
			out = append(out, w.typeOf(o))
		}
		return strings.Join(out, " or ")
	}
	switch t := s.Type.(type) {
	case string:
		if t != "string" {
			return t // how wide a number is matters to generated clients alone
		}
		return strings.TrimSuffix(t+", "+s.Format, ", ")
	case []any:
		words := make([]string, len(t))
		for i, w := range t {
			words[i] = fmt.Sprint(w)
		}
		return strings.Join(words, " or ")
	}
	return "any"
}

func quoted(words []any) string {
	var out []string
	for _, w := range words {
		out = append(out, fmt.Sprintf("`%v`", w))
	}
	return strings.Join(out, ", ")
}
