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

// HTTP writes the reference of the HTTP API from its OpenAPI description.
func HTTP(description []byte) (string, error) {
	var api openAPI
	if err := json.Unmarshal(description, &api); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# HTTP\n\nEvery node serves all of it; bodies are JSON. Durations are seconds, times are RFC 3339, and errors are [problems](#problem) in the form of " +
		"RFC 9457. Field names, in bodies and in queries, and enum values are accepted as protobuf libraries write them too, such as `expectedVersion` and `NODE_CHANGE_LEAVE`, except in queries of `/v1/forward-auth`. For programs: [openapi.json](../openapi.json), which a node serves at `GET /v1/openapi.json`. The same calls by gRPC: [grpc.md](grpc.md). " +
		"Who may call what: [authorization.md](authorization.md).\n\n## Calls\n\n| call | |\n|---|---|\n")
	var calls strings.Builder
	for _, p := range slices.Sorted(maps.Keys(api.Paths)) {
		seen := 0
		for _, m := range methods {
			op, ok := api.Paths[p][m]
			if !ok {
				continue
			}
			seen++
			name := strings.ToUpper(m) + " " + p
			sentence, _, _ := strings.Cut(op.Description, ". ")
			fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", name, Slug(name), cell(strings.TrimSuffix(sentence, ".")))
			op.write(&calls, name)
		}
		if seen != len(api.Paths[p]) {
			return "", fmt.Errorf("%s has a method that is none of %v", p, methods)
		}
	}
	b.WriteString(calls.String() + "\n## Types\n")
	for _, name := range slices.Sorted(maps.Keys(api.Components.Schemas)) {
		api.Components.Schemas[name].write(&b, name)
	}
	return b.String(), nil
}

func (op operation) write(b *strings.Builder, name string) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n", name, prose(op.Description))
	if len(op.Parameters) > 0 {
		b.WriteString("\n| parameter | in | type | |\n|---|---|---|---|\n")
		for _, p := range op.Parameters {
			fmt.Fprintf(b, "| `%s`%s | %s | %s | %s |\n", p.Name, required(p.Required), p.In, p.Schema.name(), cell(p.Description))
		}
	}
	if op.RequestBody != nil {
		fmt.Fprintf(b, "\nBody: %s\n", op.RequestBody.types())
	}
	b.WriteString("\n| status | answer |\n|---|---|\n")
	for _, code := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[code]
		words := cell(r.Description)
		if types := r.types(); types != "" {
			words = types + ": " + words
		}
		fmt.Fprintf(b, "| %s | %s |\n", code, words)
	}
}

func required(is bool) string {
	if is {
		return ", required"
	}
	return ""
}

// types are the types of what a body may be.
func (c body) types() string {
	var out []string
	for _, media := range slices.Sorted(maps.Keys(c.Content)) {
		s := c.Content[media].Schema
		switch name := s.name(); {
		case media == "application/json", s.Ref != "":
			out = append(out, name)
		default:
			out = append(out, "`"+media+"`")
		}
	}
	return strings.Join(out, " or ")
}

func (s schema) write(b *strings.Builder, name string) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n", name, prose(s.Description))
	if len(s.Enum) > 0 {
		fmt.Fprintf(b, "\n%s\n", s.name())
	}
	if len(s.Properties) == 0 {
		return
	}
	b.WriteString("\n| field | type | |\n|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		f := s.Properties[field]
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", field, required(slices.Contains(s.Required, field)), f.name(), cell(f.Description))
	}
}

// name is the schema's type, in words.
func (s schema) name() string {
	switch {
	case s.Ref != "":
		return fmt.Sprintf("[%s](#%s)", path.Base(s.Ref), Slug(path.Base(s.Ref)))
	case len(s.Enum) > 0:
		return alternatives(s.Enum)
	case s.Items != nil:
		return "list of " + s.Items.name()
	case len(s.AnyOf) > 0 || len(s.OneOf) > 0:
		var out []string
		for _, o := range slices.Concat(s.AnyOf, s.OneOf) {
			out = append(out, o.name())
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

func alternatives(words []any) string {
	var out []string
	for _, w := range words {
		out = append(out, fmt.Sprintf("`%v`", w))
	}
	return strings.Join(out, ", ")
}
