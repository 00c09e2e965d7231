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

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/api/access"
	published "github.com/quorate/quorate/docs/schema"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// A jsonObject is a part of a schema; its fields are written in the order of the alphabet.
type jsonObject = map[string]any

const (
	nameForm     = `^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`
	durationForm = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
	listenForm   = `^[^ /@]*:[0-9]{1,5}$`
	reachForm    = `^[^ /@]+:[0-9]{1,5}$`
)

// schemaOfLists are the schemas of settings that are more than a scalar in a file.
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
	wholeWant = regexp.MustCompile(`^a whole number from ([0-9]+) to ([0-9]+)$`)
	textWant  = regexp.MustCompile(`^a text of ([0-9]+) to ([0-9]+) bytes$`)
	wordsWant = regexp.MustCompile(`^[a-z0-9]+(, [a-z0-9]+)* or [a-z0-9]+$`)
)

// schemaOf is the schema of a setting, by what its errors say that it must be.
func schemaOf(t *testing.T, one setting) jsonObject {
	t.Helper()
	if s := schemaOfLists[one.path]; s != nil {
		return s
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want := one.want
	switch {
	case wholeWant.MatchString(want):
		m := wholeWant.FindStringSubmatch(want)
		return jsonObject{"type": "integer", "minimum": number(m[1]), "maximum": number(m[2])}
	case textWant.MatchString(want):
		m := textWant.FindStringSubmatch(want)
		return textOf(number(m[1]), number(m[2]))
	case wordsWant.MatchString(want):
		return jsonObject{"enum": words(want, one.number)}
	case strings.HasSuffix(want, ", or 0 for never"):
		return jsonObject{"oneOf": []jsonObject{{"type": "string", "pattern": durationForm}, {"const": 0}}}
	case strings.HasPrefix(want, "a duration "):
		return jsonObject{"type": "string", "pattern": durationForm}
	case want == name(new(string)).want:
		return jsonObject{"type": "string", "pattern": nameForm}
	case want == filePath(new(string)).want:
		return jsonObject{"type": "string", "minLength": 1}
	case want == host(new(string)).want:
		return textOf(1, 253)
	case want == hostNames(new([]string)).want:
		return textOf(1, 254*maxHosts)
	case want == listening(new(string)).want:
		return jsonObject{"type": "string", "pattern": listenForm}
	}
	t.Fatalf("%s: no schema for %q: say it in schemaOf", one.path, want)
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

// makeNodeSchema makes the schema of all settings, with the words of docs/settings.md.
func makeNodeSchema(t *testing.T) []byte {
	t.Helper()
	about := settingsRows(t)
	root := closed(jsonObject{}, []string{}...)
	delete(root, "required")
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Quorate node settings"
	root["description"] = "The settings of a node: what quorate serve --config reads, and node.yaml in its data directory. The reference is docs/settings.md."
	n := Default()
	for _, one := range n.settings() {
		row, ok := about[one.path]
		if !ok {
			t.Fatalf("%s: no row in docs/settings.md", one.path)
		}
		s := jsonObject{"description": row}
		maps.Copy(s, schemaOf(t, one))
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
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// settingsRows are the words of docs/settings.md for each setting, without marks and links.
func settingsRows(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\s*\(?\[[^\]]*\]\([^)]*\)\)?`)
	out := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (.+) \\| (.+) \\| (.+) \\|$").FindAllStringSubmatch(string(data), -1) {
		plain := strings.NewReplacer("`", "").Replace(fmt.Sprintf("%s. Values: %s. Default: %s.", link.ReplaceAllString(row[2], ""), link.ReplaceAllString(row[3], ""), row[4]))
		out[row[1]] = strings.ToUpper(plain[:1]) + plain[1:]
	}
	return out
}

// TestNodeSchema holds docs/schema/node.json to the settings.
func TestNodeSchema(t *testing.T) {
	golden.Hold(t, "../docs/schema/node.json", string(makeNodeSchema(t)), *rewrite)
}

func compileNodeSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(published.Of("node")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("https://quorate.test/node.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://quorate.test/node.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nodeFaultsBetween are the bad files whose faults no schema can express: what two settings
// say of each other, and what is of YAML itself. The text has the first fault of a file.
var nodeFaultsBetween = regexp.MustCompile(`empty|same-port|debug-port|stranger|times|tls-(both|ca-alone|ca-key-no-ca|cert-alone|key-alone|no-ca|off|off-file)\.|twice|which`)

// TestNodeSchemaAgrees checks the golden files and the examples against the schema.
func TestNodeSchemaAgrees(t *testing.T) {
	s := compileNodeSchema(t)
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
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := yaml.Load(data, &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := s.Validate(plainJSON(t, doc)); (err != nil) != bad {
			t.Errorf("%s: the schema says: %v", file, err)
		}
	}
}

// plainJSON is a document of YAML as its JSON would be read.
func plainJSON(t *testing.T, doc any) any {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
