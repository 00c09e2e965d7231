package account

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf returns the names of the tests in files of this package.
func testsOf(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(pattern)
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

// TestSentences checks that every sentence of the description has tests or a reason, that the tests
// exist, and that every test of a sentence is listed. (internal/doctest checks that tests of other
// packages exist.)
func TestSentences(t *testing.T) {
	data, err := os.ReadFile("../../docs/development/durable-quotas-sentences.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOf(t, "*_test.go")
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
			pkg, test, ok := strings.Cut(strings.Trim(name, "`"), ".")
			switch {
			case !ok || !strings.HasPrefix(test, "Test"):
				t.Errorf("neither tests nor a reason: %s", line)
			case pkg == "account":
				listed[test] = true
				if !tests[test] {
					t.Errorf("%s: there is no %s", cells[0], test)
				}
			}
		}
	}
	check(t, "sentences", rows, 125)
	for name := range testsOf(t, "sentences_*_test.go") {
		if !listed[name] {
			t.Errorf("%s is not in docs/development/durable-quotas-sentences.md", name)
		}
	}
}
