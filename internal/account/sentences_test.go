package account

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf returns the tests in files of the module.
func testsOf(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", pattern))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(data), -1) {
			names[m[1]] = true
		}
	}
	return names
}

// TestSentences: every sentence of the description has a test or a reason, every test that
// is named exists, and every sentence's test is named.
func TestSentences(t *testing.T) {
	data, err := os.ReadFile("../../docs/durable-quotas-sentences.md")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]map[string]bool{}
	listed := map[string]bool{}
	rows := 0
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 2 || strings.Contains(line, "| sentence |") {
			continue
		}
		rows++
		last := strings.TrimSuffix(cells[1], " |")
		if why, ok := strings.CutPrefix(last, "none: "); ok {
			if len(why) < 10 {
				t.Errorf("no reason: %s", line)
			}
			continue
		}
		for name := range strings.SplitSeq(last, ", ") {
			name = strings.Trim(name, "`")
			pkg, test, ok := strings.Cut(name, ".")
			if !ok {
				pkg, test = "internal/account", name
				listed[name] = true
			}
			if packages[pkg] == nil {
				packages[pkg] = testsOf(t, pkg+"/*_test.go")
			}
			if !packages[pkg][test] {
				t.Errorf("%s: there is no test %s in %s", cells[0], test, pkg)
			}
		}
	}
	check(t, "sentences", rows, 107)
	for name := range testsOf(t, "internal/account/sentences_*_test.go") {
		if !listed[name] {
			t.Errorf("%s is not in docs/durable-quotas-sentences.md", name)
		}
	}
}
