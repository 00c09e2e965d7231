package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/api/access"
	published "github.com/quorate/quorate/docs/schema"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// A jsonObject is a part of a schema. Its fields are written in alphabetical order.
type jsonObject = map[string]any

const (
	nameForm     = `^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`
	durationForm = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
	listenForm   = `^[^ /@]*:[0-9]{1,5}$`
	reachForm    = `^[^ /@]+:[0-9]{1,5}$`
)

// schemaOfLists holds the schemas of settings that are not scalars in a file.
var schemaOfLists = map[string]jsonObject{
	"nodes": listSchema(maxNodes, 1, closed(jsonObject{
		"id":   jsonObject{"type": "string", "pattern": nameForm},
		"peer": jsonObject{"type": "string", "pattern": reachForm},
	}, "id", "peer")),
	"join": listSchema(maxJoins, 1, jsonObject{"type": "string", "pattern": reachForm}),
	"access.bindings": listSchema(maxSettingsBindings, 0, closed(jsonObject{
		"identity":    textOf(1, rbac.MaxIdentity),
		"role":        jsonObject{"enum": rbac.RoleNames()},
		"permissions": listSchema(len(rbac.PermissionNames()), 1, jsonObject{"enum": rbac.PermissionNames()}),
		"scope":       textOf(1, rbac.MaxScope),
	}, "identity")),
	"access.grants": listSchema(maxGrants, 0, closed(jsonObject{
		"identity":    textOf(1, quota.MaxNameLen),
		"realm":       textOf(1, account.MaxAtom),
		"permissions": listSchema(len(access.Permissions()), 1, jsonObject{"enum": access.Permissions()}),
		"when":        jsonObject{"type": "object"},
	}, "identity", "permissions", "realm")),
}

func listSchema(most, least int, items jsonObject) jsonObject {
	return jsonObject{"type": "array", "minItems": least, "maxItems": most, "items": items}
}

func textOf(low, high int) jsonObject {
	return jsonObject{"type": "string", "minLength": low, "maxLength": high}
}

func closed(fields jsonObject, required ...string) jsonObject {
	return jsonObject{"type": "object", "additionalProperties": false, "required": required, "properties": fields}
}

var (
	wholeWant = regexp.MustCompile(`^a whole number from ([0-9]+) to ([0-9]+)(, in seconds)?$`)
	textWant  = regexp.MustCompile(`^a text of ([0-9]+) to ([0-9]+) bytes$`)
	wordsWant = regexp.MustCompile(`^[a-z0-9]+(, [a-z0-9]+)* or [a-z0-9]+$`)
)

const (
	rateForm  = `^\s*[0-9]+(\.[0-9]*)?\s*/\s*(s|m|h|d|[0-9]+d|([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h))+)\s*$`
	pauseForm = `^([0-9]+[dw]|0|([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h))+)$`
	perForm   = `^(minute|hour|day|week|month|year|[0-9]+[dw]|1mo|1y|([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h))+)$`
)

// patterns holds the patterns of scalars, by their want texts.
var patterns = map[string]string{
	name(new(string)).want:             nameForm,
	listening(new(string)).want:        listenForm,
	rate(new(quota.Rate)).want:         rateForm,
	perWant:                            perForm,
	timeZone(new(*time.Location)).want: `^[A-Za-z0-9_+/-]+$`,
	limitName(new(string)).want:        `^[a-zA-Z0-9._-]{1,128}$`,
	near(new(int64)).want:              `^(100|[1-9][0-9]?)%$`,
	pathPattern(new(string)).want:      `^/[^ ?#]*$`,
	percent(new(int64)).want:           `^[0-9]+(\.[0-9]{1,4})?%$`,
}

// wantSchema returns the schema of a scalar, derived from its want text.
func wantSchema(t *testing.T, name, want string, numbers bool) jsonObject {
	t.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch {
	case patterns[want] != "":
		return jsonObject{"type": "string", "pattern": patterns[want]}
	case wholeWant.MatchString(want):
		m := wholeWant.FindStringSubmatch(want)
		return jsonObject{"type": "integer", "minimum": number(m[1]), "maximum": number(m[2])}
	case textWant.MatchString(want):
		m := textWant.FindStringSubmatch(want)
		return textOf(number(m[1]), number(m[2]))
	case want == boolean(new(bool)).want:
		return jsonObject{"type": "boolean"}
	case want == onlyTrue().want:
		return jsonObject{"type": "boolean", "const": true}
	case want == version().want:
		return jsonObject{"type": "integer", "const": FormatVersion}
	case wordsWant.MatchString(want):
		if numbers {
			return jsonObject{"enum": words(want, true)}
		}
		return jsonObject{"type": "string", "enum": words(want, false)}
	case strings.HasSuffix(want, ", or 0 for never"):
		return jsonObject{"oneOf": []jsonObject{{"type": "string", "pattern": durationForm}, {"const": 0}}}
	case strings.HasPrefix(want, "a duration such as "):
		return jsonObject{"type": "string", "pattern": pauseForm}
	case strings.HasPrefix(want, "a duration "):
		return jsonObject{"type": "string", "pattern": durationForm}
	case want == filePath(new(string)).want:
		return jsonObject{"type": "string", "minLength": 1}
	case want == host(new(string)).want:
		return textOf(1, 253)
	case want == hostNames(new([]string)).want:
		return textOf(1, 254*maxHosts)
	}
	t.Fatalf("%s: no schema for %q: add it to wantSchema", name, want)
	return nil
}

func words(want string, numbers bool) (out []any) {
	for w := range strings.SplitSeq(strings.ReplaceAll(want, " or ", ", "), ", ") {
		if n, err := strconv.Atoi(w); err == nil && numbers {
			out = append(out, n)
			continue
		}
		out = append(out, w)
	}
	return out
}

// makeNodeSchema makes the schema of all settings, with the descriptions of docs/reference/settings.md.
func makeNodeSchema(t *testing.T) string {
	t.Helper()
	about := settingsRows(t)
	root := closed(jsonObject{}, []string{}...)
	delete(root, "required")
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Quorate node settings"
	root["description"] = "Settings of a node: the file of quorate serve --config, or node.yaml in the data directory. docs/reference/settings.md is the reference."
	n := Default()
	for _, one := range n.settings() {
		row, ok := about[one.path]
		if !ok {
			t.Fatalf("%s: no row in docs/reference/settings.md", one.path)
		}
		s := jsonObject{"description": row}
		if list := schemaOfLists[one.path]; list != nil {
			maps.Copy(s, list)
		} else {
			maps.Copy(s, wantSchema(t, one.path, one.want, one.number))
		}
		group, rest := root, one.path
		for {
			name, after, nested := strings.Cut(rest, ".")
			fields := group["properties"].(jsonObject)
			if !nested {
				fields[name] = s
				break
			}
			if fields[name] == nil {
				fields[name] = jsonObject{"type": "object", "additionalProperties": false, "minProperties": 1, "properties": jsonObject{}}
			}
			group, rest = fields[name].(jsonObject), after
		}
	}
	return encodeSchema(t, root)
}

func encodeSchema(t *testing.T, schema jsonObject) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// settingsRows returns the description of each setting in docs/reference/settings.md, without markup.
// Links become their names, or disappear if they are in parentheses.
func settingsRows(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\s*\(\[[^\]]*\]\([^)]*\)\)`) // in parentheses: left out
	named := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	out := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (.+) \\| (.+) \\| (.+) \\|$").FindAllStringSubmatch(string(data), -1) {
		plain := strings.NewReplacer("`", "").Replace(fmt.Sprintf("%s. Values: %s. Default: %s.", link.ReplaceAllString(row[2], ""), named.ReplaceAllString(row[3], "$1"), row[4]))
		if !strings.HasPrefix(plain, "gRPC") {
			plain = strings.ToUpper(plain[:1]) + plain[1:]
		}
		out[row[1]] = plain
	}
	return out
}

// TestNodeSchema checks docs/schema/node.json against the settings.
func TestNodeSchema(t *testing.T) {
	golden.Hold(t, "../docs/schema/node.json", makeNodeSchema(t), *rewrite)
}

func compileSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(published.Of(name)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("https://quorate.test/schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://quorate.test/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validateFile validates a YAML file against the schema.
func validateFile(t *testing.T, s *jsonschema.Schema, file string) error {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s.Validate(plainJSON(t, doc.Content[0]))
}

// plainJSON converts a YAML value to JSON: names become texts, whatever they look like.
func plainJSON(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.MappingNode:
		out := jsonObject{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[n.Content[i].Value] = plainJSON(t, n.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			out = append(out, plainJSON(t, item))
		}
		return out
	}
	var v any
	if err := n.Load(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// nodeFaultsBetween lists the bad files whose faults no schema can express: faults between two
// settings, and of the YAML itself. The text is the first fault of a file.
var nodeFaultsBetween = regexp.MustCompile(`empty|same-port|debug-port|stranger|times|tls-(both|ca-alone|long-ids|ca-key-no-ca|cert-alone|key-alone|no-ca|off|off-file)\.|twice|which`)

// TestNodeSchemaAgrees checks the golden files and the examples against the schema.
func TestNodeSchemaAgrees(t *testing.T) {
	s := compileSchema(t, "node")
	files, err := filepath.Glob("testdata/node-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../examples/cluster/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatal("no examples", err)
	}
	for _, file := range append(files, examples...) {
		bad := strings.HasSuffix(file, ".bad.yaml")
		if bad && nodeFaultsBetween.MatchString(file) {
			continue
		}
		if err := validateFile(t, s, file); (err != nil) != bad {
			t.Errorf("%s: the schema says: %v", file, err)
		}
	}
}
