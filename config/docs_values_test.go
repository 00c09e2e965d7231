package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDocsNameValuesThatAre checks that values which the manuals propose for limits are valid.
func TestDocsNameValuesThatAre(t *testing.T) {
	named := regexp.MustCompile("`((?:ceiling|decide|when_cut_off|durable): [a-z]+)`")
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllSubmatch(data, -1) {
			count++
			text := fmt.Sprintf("version: 1\nnamespaces: {web: {limits: {login: {rate: 1/s, burst: 1, %s}}}}\n", m[1])
			if _, err := ParseLimits(f, []byte(text)); err != nil {
				t.Errorf("%s: %s: %v", f, m[1], err)
			}
		}
	}
	if count < 10 {
		t.Errorf("%d values in %d manuals; the test does not see them", count, len(files))
	}
}
