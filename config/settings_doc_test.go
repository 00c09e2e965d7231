package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestSettingsDoc checks docs/reference/settings.md against the settings: it has all of them in order, with
// their valid values and defaults, and its examples are valid.
func TestSettingsDoc(t *testing.T) {
	data, err := os.ReadFile("../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (.+) \\| (.+) \\| (.+) \\|$").FindAllStringSubmatch(string(data), -1)
	n := Default()
	settings := n.settings()
	if len(rows) != len(settings) {
		t.Fatalf("%d rows; want %d", len(rows), len(settings))
	}
	var node string
	brief := strings.NewReplacer(name(&node).want, "a name", "a duration with its unit, from ", "")
	without := 0
	for i, one := range settings {
		path, values, value := rows[i][1], rows[i][3], rows[i][4]
		if path != one.path {
			t.Fatalf("row %d is of %s; want %s", i, path, one.path)
		}
		if want := brief.Replace(one.want); one.read == nil && values != want {
			t.Errorf("%s: values %q; want %q", path, values, want)
		}
		if value == "none" {
			without++
		} else if err := one.set(strings.Trim(value, "`")); err != nil || !reflect.DeepEqual(n, Default()) {
			t.Fatalf("%s: default %s, %v", path, value, err)
		}
	}
	eachField(reflect.ValueOf(Default()), "Node", func(path string, v reflect.Value) {
		if v.IsZero() && v.Kind() != reflect.Bool && !v.CanInt() { // off, 0 and the level info are values
			without--
		}
	})
	if without != 0 {
		t.Errorf("%d settings too many without a default", without)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(data), -1)
	for _, b := range blocks {
		if _, err := ParseNode("docs/reference/settings.md", []byte(b[1])); err != nil {
			t.Error(err)
		}
	}
	if len(blocks) < 2 {
		t.Errorf("%d examples", len(blocks))
	}
}
