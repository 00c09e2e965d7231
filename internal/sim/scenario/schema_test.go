package scenario

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/docs/schema"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for name, data := range map[string][]byte{"scenario": schema.Of("scenario"), "limits": schema.Of("limits")} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("https://quorate.test/"+name+".json", doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("https://quorate.test/scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkSchema returns what the schema says of all documents of a file.
func checkSchema(s *jsonschema.Schema, data []byte) error {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for {
		var doc any
		if err := loader.Load(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Validate(doc); err != nil {
			return err
		}
	}
}

// TestSchema: what the parser takes, the schema takes; so do the examples.
func TestSchema(t *testing.T) {
	s := compileSchema(t)
	files, err := filepath.Glob("../../../examples/sim/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	reach, err := filepath.Glob("../../../examples/sim/reach/*.yaml")
	if err != nil || len(reach) < 13 {
		t.Fatal(reach, err)
	}
	for _, file := range append(files, reach...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkSchema(s, data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	datadriven.RunTest(t, "testdata/parse/good", func(t *testing.T, d *datadriven.TestData) string {
		if err := checkSchema(s, []byte(d.Input)); err != nil {
			t.Errorf("%s: %v", d.Pos, err)
		}
		return d.Expected
	})
	if err := checkSchema(s, []byte("duration: 1s\nnodes: 1\nlimit: {rate: 1/s, brust: 1}\nload: [{rate: 1x}]\n")); err == nil {
		t.Error("the schema takes a limit that is none")
	}
}

// TestSchemaFields: the schema knows the fields that the parser knows.
func TestSchemaFields(t *testing.T) {
	s := compileSchema(t)
	load, fault := s.Properties["load"].Items.(*jsonschema.Schema), s.Properties["faults"].Items.(*jsonschema.Schema)
	for what, pair := range map[string]struct {
		schema *jsonschema.Schema
		fields []string
	}{
		"scenario": {s, scenarioFields},
		"sweep":    {s.Properties["sweep"], sweepFields},
		"network":  {s.Properties["network"], networkFields},
		"load":     {load.Ref, loadFields},
		"fault":    {fault.Ref, faultFields},
		"expect":   {s.Properties["expect"], measureNames("")},
		"target":   {s.Properties["target"], measureNames("")},
	} {
		for _, f := range pair.fields {
			name, must := strings.CutSuffix(f, "*")
			if pair.schema.Properties[name] == nil || slices.Contains(pair.schema.Required, name) != must {
				t.Errorf("%s: the schema and the parser differ in %s", what, name)
			}
		}
		if len(pair.schema.Properties) != len(pair.fields) {
			t.Errorf("%s: the schema has %d fields, the parser %d", what, len(pair.schema.Properties), len(pair.fields))
		}
	}
}
