package config

import (
	"strings"
	"testing"
)

// TestTrapIgnoredFields: gubernator accepts MULTI_REGION and ignores it, and envoyproxy/ratelimit
// drops some values of its rules where fields meet. We refuse a limit with a field that we do not
// support, and name the field.
func TestTrapIgnoredFields(t *testing.T) {
	for _, f := range []string{
		"behavior: MULTI_REGION", "behavior: [GLOBAL, MULTI_REGION]", "multi_region: true", "regions: [eu, us]", "algorithm: LEAKY_BUCKET",
		"value_to_metric: true", "detailed_metric: true", "quota_mode: true", "share_threshold: true", "replaces: [{name: other}]",
	} {
		name, _, _ := strings.Cut(f, ":")
		file := "version: 1\nnamespaces:\n  n:\n    limits:\n      l: {rate: 1/s, " + f + "}\n"
		if _, err := ParseLimits("f", []byte(file)); err == nil || !strings.Contains(err.Error(), "."+name+": unknown field") {
			t.Errorf("%s: %v; want the field refused as unknown", f, err)
		}
	}
	for _, enforcement := range []string{"quota", "monitor"} {
		file := "version: 1\nnamespaces:\n  n:\n    limits:\n      l: {rate: 1/s, enforcement: " + enforcement + "}\n"
		if _, err := ParseLimits("f", []byte(file)); err == nil || !strings.Contains(err.Error(), "must be enforce, shadow or off") {
			t.Errorf("enforcement %s: %v; want the words that there are", enforcement, err)
		}
	}
}

// TestTrapSaysWhatIsLost checks that the conversion of an envoyproxy/ratelimit rule notes each
// field that a limit lacks, and that values with a "/" must be escaped so that no two of them give
// the same key.
func TestTrapSaysWhatIsLost(t *testing.T) {
	file := `
domain: d
descriptors:
  - key: a
    descriptors:
      - key: b
        value_to_metric: true
        detailed_metric: true
        quota_mode: true
        rate_limit: {unit: minute, requests_per_unit: 1}
`
	got, err := Convert("envoy-ratelimit", "f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, n := range got.Notes {
		notes = append(notes, n.String())
	}
	all := strings.Join(notes, "\n")
	for _, want := range []string{
		"value_to_metric: is not carried over", "detailed_metric: is not carried over", "quota_mode: refuses only when all",
		"call it with the key <a>/<b>, in which a value's % is written as %25 and its / as %2F",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no note %q in\n%s", want, all)
		}
	}
}
