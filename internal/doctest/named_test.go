package doctest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// namedTest matches a test name in a document: the end of the package path, a dot and the
	// function, optionally a slash and a subtest.
	namedTest = regexp.MustCompile("`([a-z][a-z0-9_/]*)\\.((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)(?:/[^`]*)?`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)\(`)
)

// TestNamedTests checks that the tests named in the pages exist: a claim of a page holds only while
// a test backs it.
func TestNamedTests(t *testing.T) {
	fsys := os.DirFS(root)
	tests := map[string][]string{} // by package path
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			tests[path.Dir(name)] = append(tests[path.Dir(name)], m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range pages(t, fsys) {
		text, err := fs.ReadFile(fsys, p.Name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
				found++
				there := false
				for dir, names := range tests {
					there = there || (dir == m[1] || strings.HasSuffix(dir, "/"+m[1])) && slices.Contains(names, m[2])
				}
				if !there {
					t.Errorf("%s:%d: no package %s has a test %s", p.Name, i+1, m[1], m[2])
				}
			}
		}
	}
	if found < 300 {
		t.Errorf("%d tests are named; there are more", found)
	}
}
