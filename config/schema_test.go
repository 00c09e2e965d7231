package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	published "github.com/quorate/quorate/docs/schema"
	"github.com/quorate/quorate/internal/quota"
)

// schema is the part of JSON schema that the limit file's uses.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 string             `json:"type"`
	Const                any                `json:"const"`
	Enum                 []any              `json:"enum"`
	Pattern              string             `json:"pattern"`
	Minimum, Maximum     *float64           `json:",omitempty"`
	Required             []string           `json:"required"`
	Properties           map[string]*schema `json:"properties"`
	PropertyNames        *schema            `json:"propertyNames"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Definitions          map[string]*schema `json:"definitions"`
	MinProperties        int                `json:"minProperties"`
	Items                *schema            `json:"items"`
	MinItems             int                `json:"minItems"`
	MaxItems             int                `json:"maxItems"`
	OneOf                []*schema          `json:"oneOf"`
}

func loadSchema(t *testing.T) *schema {
	t.Helper()
	var s schema
	if err := json.Unmarshal(published.Of("limits"), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestSchemaFields holds the schema and the parser to the same fields.
func TestSchemaFields(t *testing.T) {
	s := loadSchema(t)
	l := &limitFile{report: &report{}}
	d, n := &draft{}, new(int64)
	limit, sla1 := s.Definitions["limit"], s.Definitions["sla"]
	for what, pair := range map[string]struct {
		schema *schema
		fields []Field
	}{
		"file":        {s, l.fields()},
		"namespace":   {s.Definitions["namespace"], l.namespaceFields("web")},
		"limit":       {limit, l.limitFields(d)},
		"template":    {s.Definitions["template"], append(l.limitFields(d), l.templateFields(d)...)},
		"tier":        {s.Definitions["tier"], l.tierFields(&d.tier)},
		"floor":       {limit.Properties["floor"], l.floorFields(d)},
		"enforcement": {s.Definitions["enforcement"], l.enforcementFields(d)},
		"cut_off":     {s.Definitions["cut_off"], l.cutOffFields(&d.CutOff)},
		"then":        {s.Definitions["then"], l.thenFields(&d.CutOff)},
		"match":       {limit.Properties["match"], l.matchFields(&quota.Match{}, "path")},
		"sla":         {sla1, l.slaFields(&sla{})},
		"sla match":   {sla1.Properties["match"], l.matchFields(&quota.Match{}, "pathPattern")},
		"sla tier":    {s.Definitions["sla_tier"], l.slaTierFields(n, n)},
	} {
		var names, must []string
		for _, f := range pair.fields {
			names = append(names, f.Name)
			if f.Must != "" {
				must = append(must, f.Name)
			}
		}
		slices.Sort(names)
		if got := slices.Sorted(maps.Keys(pair.schema.Properties)); !slices.Equal(got, names) {
			t.Errorf("%s: the schema has %v, the parser %v", what, got, names)
		}
		if !slices.Equal(pair.schema.Required, must) {
			t.Errorf("%s: the schema requires %v, the parser %v", what, pair.schema.Required, must)
		}
		if string(pair.schema.AdditionalProperties) != "false" {
			t.Errorf("%s: the schema allows unknown fields", what)
		}
	}
	if got := *limit.Properties["burst"].Maximum; got != float64(quota.MaxTokens) {
		t.Errorf("the schema's largest burst is %v, the parser's %d", got, quota.MaxTokens)
	}
	if got := limit.Properties["tiers"].MaxItems; got != quota.MaxTiers {
		t.Errorf("the schema allows %d tiers, the parser %d", got, quota.MaxTiers)
	}
}

// seenByParserOnly are the bad files whose faults no schema can express.
var seenByParserOnly = regexp.MustCompile(`duplicate-keys|second-document|anchors|tags|syntax|tabs|latin1|utf16|control|deep|empty|comment|null|directive|together`)

// TestSchemaWindows: the schema and the parser have the same words for windows.
func TestSchemaWindows(t *testing.T) {
	s := loadSchema(t)
	for _, where := range []string{"limit", "tier"} {
		var want []any
		for _, k := range quota.WindowKinds() {
			want = append(want, k.String())
		}
		if got := s.Definitions[where].Properties["window"].Enum; !slices.Equal(got, want) {
			t.Errorf("%s: window: the schema has %v, the parser %v", where, got, want)
		}
	}
}

// TestSchemaAgrees checks the golden files and examples against the schema.
func TestSchemaAgrees(t *testing.T) {
	root := loadSchema(t)
	files, err := filepath.Glob("testdata/limits-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../examples/limits.yaml", "../examples/limits-all.yaml") {
		bad := strings.HasSuffix(file, ".bad.yaml")
		if bad && seenByParserOnly.MatchString(file) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc yaml.Node
		if err := yaml.Load(data, &doc); err != nil {
			t.Fatal(err)
		}
		if err := root.check(root, doc.Content[0]); (err != nil) != bad {
			t.Errorf("%s: the schema says: %v", file, err)
		}
	}
}

// find returns the schema that a reference names.
func (s *schema) find(ref string) *schema {
	words := strings.Split(ref, "/") // # definitions limit properties rate
	at := s.Definitions[words[2]]
	if len(words) == 5 {
		at = at.Properties[words[4]]
	}
	return at
}

// tags are the YAML names of JSON's types.
var tags = map[string]string{
	"object": "!!map", "array": "!!seq", "string": "!!str", "integer": "!!int", "boolean": "!!bool",
}

// check is a validator of the few words of JSON schema that are in use.
func (s *schema) check(root *schema, n *yaml.Node) error {
	if s.Ref != "" {
		return root.find(s.Ref).check(root, n)
	}
	if want := tags[s.Type]; want != "" && n.Tag != want {
		return fmt.Errorf("line %d: %s; want %s", n.Line, n.Tag, want)
	}
	if err := s.checkScalar(n); err != nil {
		return err
	}
	if n.Kind == yaml.MappingNode {
		if err := s.checkObject(root, n); err != nil {
			return err
		}
	}
	if s.Items != nil {
		if k := len(n.Content); k < s.MinItems || k > s.MaxItems {
			return fmt.Errorf("line %d: %d items; want %d to %d", n.Line, k, s.MinItems, s.MaxItems)
		}
		for _, item := range n.Content {
			if err := s.Items.check(root, item); err != nil {
				return err
			}
		}
	}
	return s.checkOneOf(root, n)
}

func (s *schema) checkScalar(n *yaml.Node) error {
	var value any = n.Value
	var number float64
	switch s.Type {
	case "integer":
		if _, err := fmt.Sscan(n.Value, &number); err != nil {
			return err
		}
		value = number
	case "boolean":
		value = n.Value == "true"
	}
	switch {
	case s.Const != nil && s.Const != value,
		s.Enum != nil && !slices.Contains(s.Enum, value),
		s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(n.Value),
		s.Minimum != nil && number < *s.Minimum,
		s.Maximum != nil && number > *s.Maximum:
		return fmt.Errorf("line %d: %q is not what the schema wants", n.Line, n.Value)
	}
	return nil
}

func (s *schema) checkOneOf(root *schema, n *yaml.Node) error {
	fit := 0
	var errs []error
	for _, one := range s.OneOf {
		err := one.check(root, n)
		if err == nil {
			fit++
		}
		errs = append(errs, err)
	}
	if len(s.OneOf) > 0 && fit != 1 {
		return fmt.Errorf("line %d: fits %d of %d: %v", n.Line, fit, len(s.OneOf), errs)
	}
	return nil
}

func (s *schema) checkObject(root *schema, n *yaml.Node) error {
	var names []string
	for i := 0; i < len(n.Content); i += 2 {
		name := *n.Content[i]
		name.Tag = "!!str" // as JSON has it
		names = append(names, name.Value)
		if s.PropertyNames != nil {
			if err := s.PropertyNames.check(root, &name); err != nil {
				return err
			}
		}
		value := s.Properties[name.Value]
		if value == nil && string(s.AdditionalProperties) == "false" {
			return fmt.Errorf("line %d: unknown field %q", name.Line, name.Value)
		}
		if value == nil {
			value = new(schema)
			if s.AdditionalProperties != nil {
				if err := json.Unmarshal(s.AdditionalProperties, value); err != nil {
					return err
				}
			}
		}
		if err := value.check(root, n.Content[i+1]); err != nil {
			return err
		}
	}
	if len(names) < s.MinProperties {
		return fmt.Errorf("line %d: %d fields; want %d", n.Line, len(names), s.MinProperties)
	}
	for _, r := range s.Required {
		if !slices.Contains(names, r) {
			return fmt.Errorf("line %d: %s is missing", n.Line, r)
		}
	}
	return nil
}
