package archtest

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestNamedTests checks the tables of docs/*.md against the code.
func TestNamedTests(t *testing.T) {
	violations, found, err := CheckNamedTests(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Errorf("%v", v)
	}
	if found < 30 {
		t.Errorf("%d tests are named in docs/*.md; docs/traps.md alone names more than 30", found)
	}
}

func TestNamedTestsFinds(t *testing.T) {
	tree := fstest.MapFS{
		"docs/a.md": {Data: []byte("`x.TestNowhere` in prose is nobody's business\n\n" +
			"| what | test |\n|---|---|\n" +
			"| good | `x.TestA`, `in/x.TestA/sub` |\n" +
			"| gone | `x.TestB` |\n" +
			"| method | `x.TestC` |\n" +
			"| not in a test file | `x.TestD` |\n" +
			"| no package | `z.TestA` |\n" +
			"| two | `y.TestA` |\n" +
			"| none | soon |\n\n" +
			"| other | table |\n|---|---|\n| no test | needed |\n| but | `x.FuzzGone` |\n")},
		"docs/rfcs/b.md": {Data: []byte("| test |\n|---|\n| none |\n")},
		"in/x/x_test.go": {Data: []byte("package x\n\nfunc TestA() {}\n\ntype t struct{}\n\nfunc (t) TestC() {}\n")},
		"in/x/x.go":      {Data: []byte("package x\n\nfunc TestD() {}\n")},
		"a/y/y_test.go":  {Data: []byte("package y\n\nfunc TestA() {}\n")},
		"b/y/y_test.go":  {Data: []byte("package y\n\nfunc TestA() {}\n")},
	}
	got, found, err := CheckNamedTests(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"docs/a.md:6: no test TestB in in/x", "docs/a.md:7: no test TestC in in/x", "docs/a.md:8: no test TestD in in/x",
		"docs/a.md:9: no package z with tests", "docs/a.md:10: y may be any of a/y, b/y", "docs/a.md:11: a row without a test: none",
		"docs/a.md:16: no test FuzzGone in in/x",
	}
	if found != 8 || len(got) != len(want) {
		t.Errorf("%d names, %d findings: %v; want 8 and %d", found, len(got), got, len(want))
	}
	for i := range min(len(got), len(want)) {
		if !strings.HasPrefix(got[i].String(), want[i]+"\n") {
			t.Errorf("got:\n%v\nwant %s", got[i], want[i])
		}
	}
}
