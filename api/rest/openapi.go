package rest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/internal/planner"
)

// describe returns the OpenAPI document of the HTTP API, built from the routes, the protos'
// descriptors and the comments in the protos.
func describe(routes []route) []byte {
	d := document{words: comments(), schemas: object{}}
	paths := object{}
	for _, r := range routes {
		at, _ := paths[r.path].(object)
		if at == nil {
			at = object{}
			paths[r.path] = at
		}
		at[strings.ToLower(r.method)] = d.operation(&r)
	}
	d.schemas["Problem"] = problemSchema
	out, err := json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Quorate", "version": "v1",
			"description": "Rate limits and quotas of a cluster. Durations are seconds; errors are problems in the form of RFC 9457.",
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []object{{"url": "/"}},
		"paths":      paths,
		"components": object{"schemas": d.schemas, "securitySchemes": waysIn},
		"security":   anyWayIn,
	})
	if err != nil {
		panic(err) // invariant: maps of strings encode as JSON
	}
	return out
}

func (r *router) getOpenAPI(w http.ResponseWriter, req *http.Request) (int, error) {
	if _, err := query(req); err != nil {
		return 0, err
	}
	return writeJSON(w, http.StatusOK, slices.Clip(r.openAPI())), nil
}

type object = map[string]any

// waysIn are the security schemes. anyWayIn requires one of them, or none, because a cluster may
// run without authentication.
var (
	waysIn = object{
		"token":       object{"type": "http", "scheme": "bearer", "description": "A bearer token of the cluster, or a JWT of an issuer that it trusts."},
		"certificate": object{"type": "mutualTLS", "description": "A client certificate that the cluster's authority signed."},
	}
	anyWayIn = []object{{"token": []string{}}, {"certificate": []string{}}, {}}
)

var problemSchema = object{
	"type": "object", "description": "An error, in the form of RFC 9457.", "required": []string{"type", "title", "status", "detail"},
	"properties": object{
		"type": object{"type": "string"}, "title": object{"type": "string"}, "status": object{"type": "integer"},
		"detail": object{"type": "string", "description": "What is wrong, and what would be right."},
		"reason": object{"type": "string", "description": "For machines, such as INVALID_FIELD."},
		"field":  object{"type": "string", "description": "The field at fault."},
		"help":   object{"type": "string", "description": "How to give a credential to a call without a valid one, or a role to a caller that lacks a permission."},
	},
}

// document collects the schemas that operations use.
type document struct {
	words   map[string]string // comments by full name in the package
	schemas object
}

func (d *document) operation(r *route) object {
	words := r.summary
	if r.rpc != "" {
		words = d.words[r.rpc]
	}
	summary, _, _ := strings.Cut(words, ". ")
	op := object{"summary": strings.TrimSuffix(summary, "."), "description": words, "operationId": operationID(r)}
	if params := d.parameters(r); len(params) > 0 {
		op["parameters"] = params
	}
	switch r.in {
	case fromJSON:
		op["requestBody"] = content("application/json", d.ref(r.req.ProtoReflect().Descriptor()), true)
	case fromFile:
		op["requestBody"] = content("application/yaml", object{"type": "string", "description": "A limit file."}, true)
	}
	op["responses"] = d.responses(r)
	return op
}

func operationID(r *route) string {
	clean := strings.NewReplacer("/v1/", "", "/", "_", ":", "_", ".", "_", "{", "", "}", "")
	return strings.ToLower(r.method) + "_" + strings.Trim(clean.Replace(r.path), "_")
}

func content(media string, schema object, required bool) object {
	out := object{"content": object{media: object{"schema": schema}}}
	if required {
		out["required"] = true
	}
	return out
}

func (d *document) responses(r *route) object {
	problem := content("application/problem+json", object{"$ref": "#/components/schemas/Problem"}, false)
	problem["description"] = "What is wrong with the call, or why it cannot be served."
	ok := object{"description": "Text.", "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	if r.res != nil {
		ok = content("application/json", d.ref(r.res.ProtoReflect().Descriptor()), false)
		ok["description"] = d.words[string(r.res.ProtoReflect().Descriptor().Name())]
	}
	media, _ := ok["content"].(object)
	switch r.path {
	case "/v1/openapi.json", "/v1/schema/limits.json", "/v1/schema/node.json", "/v1/schema/scenario.json":
		ok["content"] = object{"application/json": object{"schema": object{"type": "object"}}}
	case "/v1/events", "/v1/rates/watch":
		ok["content"] = object{"application/x-ndjson": media["application/json"], "text/event-stream": object{"schema": object{"type": "string"}}}
	case exportPath:
		for _, form := range planner.ExportForms {
			name, _, _ := strings.Cut(form.Media, ";")
			media[name] = object{"schema": object{"type": "string"}}
		}
		media[planner.ParquetMedia] = object{"schema": object{"type": "string", "format": "binary"}}
	case "/v1/plan/report":
		media["text/html"] = object{"schema": object{"type": "string"}}
		media["text/plain"] = object{"schema": object{"type": "string"}}
	case "/v1/backup":
		ok["description"], ok["content"] = "The backup, a file.", object{"application/octet-stream": object{"schema": object{"type": "string", "format": "binary"}}}
	case "/v1/limits":
		if r.method == http.MethodGet {
			media["application/yaml"] = object{"schema": object{"type": "string"}}
		}
	}
	out := object{"200": ok, "default": problem}
	if r.res != nil && r.res.ProtoReflect().Descriptor().Fields().ByName("allowed") != nil {
		out["429"] = object{"description": "Refused: the same body, with allowed false.", "content": ok["content"]}
	}
	if r.res != nil && r.res.ProtoReflect().Descriptor().Fields().ByName("applied") != nil {
		out["409"] = object{"description": "An operation failed and nothing was applied: the same body, with applied false.", "content": ok["content"]}
	}
	return out
}

// parameters returns the parameters in the path, and the fields that the query carries.
func (d *document) parameters(r *route) []object {
	var out []object
	for rest := r.path; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		name, more, _ := strings.Cut(after, "}")
		out = append(out, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		rest = more
	}
	if r.req == nil || r.in == fromJSON {
		return out
	}
	if r.path == exportPath {
		out = append(out, object{"name": "format", "in": "query", "required": true, "schema": object{"type": "string", "enum": planner.ExportFormats}, "description": "The form of the file."})
	}
	fields := r.req.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if r.in == fromFile && fd.Name() == "yaml" || string(fd.Name()) == r.without {
			continue
		}
		p := object{"name": string(fd.Name()), "in": "query", "schema": d.plain(fd), "description": d.comment(fd)}
		if fd.IsList() {
			p["schema"] = object{"type": "array", "items": d.plain(fd)}
			p["explode"] = false
		}
		out = append(out, p)
	}
	return out
}

func (d *document) comment(fd protoreflect.FieldDescriptor) string {
	return d.words[string(fd.Parent().Name())+"."+string(fd.Name())]
}

// ref returns a reference to a message's schema, and creates the schema on first use.
func (d *document) ref(m protoreflect.MessageDescriptor) object {
	name := string(m.Name())
	if _, there := d.schemas[name]; !there {
		properties := object{}
		schema := object{"type": "object", "description": d.words[name], "properties": properties}
		d.schemas[name] = schema // before its fields: they may refer to it
		if strings.HasSuffix(name, "Request") || name == "Override" || name == "LimitSet" || strings.HasSuffix(name, "Ref") {
			schema["additionalProperties"] = false
		}
		for i := range m.Fields().Len() {
			fd := m.Fields().Get(i)
			properties[string(fd.Name())] = d.field(fd)
		}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// field returns the schema of a field within a message.
func (d *document) field(fd protoreflect.FieldDescriptor) object {
	var s object
	if !fd.IsMap() {
		s = d.plain(fd)
	}
	switch {
	case fd.IsMap():
		s = object{"type": "object", "additionalProperties": d.plain(fd.MapValue())}
	case fd.IsList():
		s = object{"type": "array", "items": s}
	case fd.HasPresence() && s["$ref"] != nil:
		s = object{"oneOf": []object{s, {"type": "null"}}}
	case fd.HasPresence():
		s["type"] = []any{s["type"], "null"}
	}
	s["description"] = d.comment(fd)
	return s
}

// plain returns the schema of one value.
func (d *document) plain(fd protoreflect.FieldDescriptor) object {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		switch fd.Message().FullName() {
		case "google.protobuf.Duration":
			return object{"type": "number", "format": "double", "minimum": 0}
		case "google.protobuf.Timestamp":
			return object{"type": "string", "format": "date-time"}
		}
		return d.ref(fd.Message())
	case protoreflect.EnumKind:
		var words []string
		for i := range fd.Enum().Values().Len() {
			words = append(words, apijson.Word(fd.Enum(), fd.Enum().Values().Get(i).Number()))
		}
		return object{"type": "string", "enum": words}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.DoubleKind:
		return object{"type": "number", "format": "double"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return object{"type": "integer", "format": "int64", "minimum": 0}
	case protoreflect.Int32Kind:
		return object{"type": "integer", "format": "int32"}
	}
	return object{"type": "integer", "format": "int64"} // without it, generated clients use 32 bits
}

// comments returns the comments of all messages, fields, services and calls by name: "Limit",
// "Limit.rate", "QuotaService.Allow". It relies on the format of the protos and on a comment above
// every element, which other checks enforce.
func comments() map[string]string {
	out := map[string]string{}
	files, err := api.Protos.ReadDir("proto/quorate/v1")
	if err != nil {
		panic(err) // invariant: they are embedded
	}
	for _, file := range files {
		text, err := api.Protos.ReadFile("proto/quorate/v1/" + file.Name())
		if err != nil {
			panic(err) // invariant: as above
		}
		readComments(string(text), out)
	}
	return out
}

func readComments(text string, out map[string]string) {
	var above []string
	parent := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if c, ok := strings.CutPrefix(line, "//"); ok {
			above = append(above, strings.TrimSpace(c))
			continue
		}
		word := strings.Fields(line)
		switch {
		case len(word) == 0 || line == "}":
		case word[0] == "message" || word[0] == "service" || word[0] == "enum":
			parent = word[1]
			out[parent] = strings.Join(above, " ")
		case word[0] == "rpc":
			name, _, _ := strings.Cut(word[1], "(")
			out[parent+"."+name] = strings.Join(above, " ")
		default:
			if name, _, ok := strings.Cut(line, " = "); ok && parent != "" {
				word = strings.Fields(name)
				out[parent+"."+word[len(word)-1]] = strings.Join(above, " ")
			}
		}
		above = nil
	}
}
