package config

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameValuesThatAre checks that values which the manuals propose for limits are valid, and
// so are their limit files.
func TestDocsNameValuesThatAre(t *testing.T) {
	named := regexp.MustCompile("`((?:ceiling|decide|when_cut_off|durable): [a-z]+)`")
	file := regexp.MustCompile("(?s)```yaml\n(version: 1\n(?:namespaces|global_default|slas|#).*?)```")
	count, files, pages := 0, 0, 0
	docs := os.DirFS("..")
	err := fs.WalkDir(docs, ".", func(f string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(f) != ".md" || path.Dir(f) != "." && !strings.HasPrefix(f, "docs/") {
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
		for _, m := range file.FindAllSubmatch(data, -1) {
			files++
			if _, err := ParseLimits(f, m[1]); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 10 || files < 5 {
		t.Errorf("%d values and %d limit files in %d manuals; the test does not see them", count, files, pages)
	}
}
