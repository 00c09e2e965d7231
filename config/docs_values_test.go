package config

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"testing"
)

// TestDocsNameValuesThatAre checks that values which the manuals propose for limits are valid.
func TestDocsNameValuesThatAre(t *testing.T) {
	named := regexp.MustCompile("`((?:ceiling|decide|when_cut_off|durable): [a-z]+)`")
	count, pages := 0, 0
	docs := os.DirFS("../docs")
	err := fs.WalkDir(docs, ".", func(f string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(f) != ".md" {
			return err
		}
		pages++
		data, err := fs.ReadFile(docs, f)
		if err != nil {
			return err
		}
		for _, m := range named.FindAllSubmatch(data, -1) {
			count++
			text := fmt.Sprintf("version: 1\nnamespaces: {web: {limits: {login: {rate: 1/s, burst: 1, %s}}}}\n", m[1])
			if _, err := ParseLimits(f, []byte(text)); err != nil {
				t.Errorf("%s: %s: %v", f, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 10 {
		t.Errorf("%d values in %d manuals; the test does not see them", count, pages)
	}
}
