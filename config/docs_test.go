package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestDocs parses the examples of docs/reference/limits.md, and requires all rules to be there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml( overrides)?\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Errorf("%d examples; want 5 or more", len(blocks))
	}
	for _, b := range blocks {
		if b[1] != "" {
			_, err = ParseOverrides("docs/reference/limits.md", []byte(b[2]), goldenNow)
		} else {
			_, err = ParseLimits("docs/reference/limits.md", []byte(b[2]))
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, rule := range allLintRules() {
		if !strings.Contains(string(text), "| `"+rule+"` |") {
			t.Errorf("docs/reference/limits.md does not have the rule %s", rule)
		}
	}
	for _, from := range ConvertFrom() {
		if !strings.Contains(string(text), "`"+from+"`") {
			t.Errorf("docs/reference/limits.md does not say that %s is converted", from)
		}
	}
	for _, k := range quota.WindowKinds() {
		if !strings.Contains(string(text), "\n| `"+k.String()+"`") {
			t.Errorf("docs/reference/limits.md does not say when a window of the kind %s begins", k)
		}
	}
	l := &limitFile{}
	for _, f := range append(l.limitFields(&draft{}), l.templateFields(&draft{})...) {
		if !strings.Contains(string(text), "`"+f.Name) {
			t.Errorf("docs/reference/limits.md does not explain the field %s", f.Name)
		}
	}
}
