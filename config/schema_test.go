package config

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	published "github.com/quorate/quorate/docs/schema"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
)

// loadLimitsSchema returns docs/schema/limits.json, whose structure and descriptions are written by
// hand.
func loadLimitsSchema(t *testing.T) jsonObject {
	t.Helper()
	var s jsonObject
	if err := json.Unmarshal(published.Of("limits"), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// at returns the value at a path of names in a schema.
func at(t *testing.T, s jsonObject, path ...string) jsonObject {
	t.Helper()
	for i, name := range path {
		below, ok := s[name].(jsonObject)
		if !ok {
			t.Fatalf("docs/schema/limits.json has no %v", path[:i+1])
		}
		s = below
	}
	return s
}

// TestLimitsSchema checks docs/schema/limits.json against the parser: its fields, the required
// ones, and their valid values. The descriptions of fields are written by hand.
func TestLimitsSchema(t *testing.T) {
	s := loadLimitsSchema(t)
	l := newLimitFile(&report{})
	d, n := &draft{}, new(int64)
	for _, one := range []struct {
		schema jsonObject
		fields []Field
	}{
		{s, l.fields()},
		{at(t, s, "definitions", "namespace"), l.namespaceFields("web")},
		{at(t, s, "definitions", "limit"), l.limitFields(d)},
		{at(t, s, "definitions", "template"), append(l.limitFields(d), l.templateFields(d)...)},
		{at(t, s, "definitions", "tier"), l.tierFields(&d.tier)},
		{at(t, s, "definitions", "limit", "properties", "floor"), l.floorFields(d)},
		{at(t, s, "definitions", "enforcement"), l.enforcementFields(d)},
		{at(t, s, "definitions", "cut_off"), l.cutOffFields(&d.CutOff)},
		{at(t, s, "definitions", "then"), l.thenFields(&d.CutOff)},
		{at(t, s, "definitions", "limit", "properties", "match"), l.matchFields(&quota.Match{}, "path")},
		{at(t, s, "definitions", "sla"), l.slaFields(&sla{})},
		{at(t, s, "definitions", "sla", "properties", "match"), l.matchFields(&quota.Match{}, "pathPattern")},
		{at(t, s, "definitions", "sla_tier"), l.slaTierFields(n, n)},
	} {
		one.schema["additionalProperties"] = false
		before := at(t, one.schema, "properties")
		properties, required := jsonObject{}, []string{}
		for _, f := range one.fields {
			if f.Must != "" {
				required = append(required, f.Name)
			}
			field, _ := before[f.Name].(jsonObject)
			if field["description"] == nil && field["$ref"] == nil {
				t.Errorf("docs/schema/limits.json does not describe %s of %v", f.Name, one.schema["description"])
				field = jsonObject{"description": ""}
			}
			describeField(t, s, field, f)
			properties[f.Name] = field
		}
		one.schema["properties"] = properties
		if delete(one.schema, "required"); len(required) > 0 {
			one.schema["required"] = required
		}
	}
	golden.Hold(t, "../docs/schema/limits.json", encodeSchema(t, s), *rewrite)
}

// describeField writes into a field's schema what its parser accepts, if that is a scalar or a
// list. It learns this from the parser's error for an empty list.
func describeField(t *testing.T, root, schema jsonObject, f Field) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = at(t, root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	r := &report{}
	f.Read(Value{in: r, path: f.Name, node: &yaml.Node{Kind: yaml.SequenceNode}})
	if len(r.faults) != 1 {
		t.Fatalf("%s: of an empty list are told %v", f.Name, r.faults)
	}
	message := r.faults[0].Message
	if most, ok := strings.CutPrefix(message, "has 0 items; must be 1 to "); ok {
		schema["minItems"], schema["maxItems"] = 1, json.Number(most)
		return
	}
	want := strings.TrimPrefix(message, "is a list; must be ")
	words, rest, orMap := strings.Cut(want, ", or a ") // and a map, or a rate in one
	switch {
	case orMap && strings.Contains(rest, " such as {"):
		maps.Copy(schema["oneOf"].([]any)[0].(jsonObject), wantSchema(t, f.Name, words, false))
	case !strings.HasPrefix(want, "a map, such as "):
		for _, fact := range []string{"type", "const", "enum", "pattern", "minimum", "maximum"} {
			delete(schema, fact)
		}
		maps.Copy(schema, wantSchema(t, f.Name, want, false))
	}
}

// seenByParserOnly lists the bad files whose faults no schema can express.
var seenByParserOnly = regexp.MustCompile(`duplicate-keys|second-document|anchors|tags|syntax|tabs|latin1|utf16|control|deep|empty|comment|null|directive|together`)

// TestSchemaAgrees checks the golden files and examples against the schema.
func TestSchemaAgrees(t *testing.T) {
	s := compileSchema(t, "limits")
	files, err := filepath.Glob("testdata/limits-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../examples/limits.yaml", "../examples/limits-all.yaml") {
		bad := strings.HasSuffix(file, ".bad.yaml")
		if bad && seenByParserOnly.MatchString(file) {
			continue
		}
		if err := validateFile(t, s, file); (err != nil) != bad {
			t.Errorf("%s: the schema says: %v", file, err)
		}
	}
}
