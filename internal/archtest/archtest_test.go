package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quorate/quorate/internal/quota"
)

// root is the module's directory, seen from this package.
const root = "../.."

// TestHouse checks this module.
func TestHouse(t *testing.T) {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(gomod), "module "+Module+"\n") {
		t.Fatalf("go.mod does not begin with %q: the constant Module is out of date", "module "+Module)
	}
	report(t, Check, os.DirFS(root))
}

// TestExceptionsNeeded checks that this module needs each exception.
func TestExceptionsNeeded(t *testing.T) {
	report(t, StaleExceptions, os.DirFS(root))
}

func report(t *testing.T, check func(fs.FS) ([]Violation, error), fsys fs.FS) {
	t.Helper()
	violations, err := check(fsys)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Errorf("%v", v)
	}
}

// TestVocabulary checks docs/vocabulary.md against the code.
func TestVocabulary(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root, "docs", "vocabulary.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range CheckVocabulary(string(doc), whyWords()) {
		t.Errorf("%v", v)
	}
}

// whyWords are all values of quota.Why, the unknown one too: an answer may
// carry it when a newer node decided.
func whyWords() []string {
	words := []string{quota.WhyUnknown.String()}
	for _, w := range quota.Whys() {
		words = append(words, w.String())
	}
	return words
}

// TestSeeded runs the checks on trees with known violations. A file of
// testdata/seeded is: comment lines (#), one line "want: place | words" for
// each finding in order, then the files, each after a line "-- path --".
func TestSeeded(t *testing.T) {
	names, err := filepath.Glob("testdata/seeded/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 15 {
		t.Fatalf("%d seeded trees; want at least 15", len(names))
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			tree, want := readSeeded(t, name)
			got := findings(t, tree)
			for i := range max(len(got), len(want)) {
				switch {
				case i >= len(got):
					t.Errorf("not found: %s", want[i])
				case i >= len(want):
					t.Errorf("not expected: %v", got[i])
				default:
					compare(t, got[i], want[i])
				}
			}
		})
	}
}

// findings runs the check that the tree is for.
func findings(t *testing.T, tree fstest.MapFS) []Violation {
	t.Helper()
	if doc, ok := tree["docs/vocabulary.md"]; ok {
		return CheckVocabulary(string(doc.Data), whyWords())
	}
	out, err := Check(tree)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tree["stale"]; ok {
		more, err := StaleExceptions(tree)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, more...)
	}
	return out
}

func compare(t *testing.T, got Violation, want string) {
	t.Helper()
	place, words, ok := strings.Cut(want, " | ")
	if !ok {
		t.Fatalf("want line %q: write it as place | words", want)
	}
	if got.Pos != place || !strings.Contains(got.String(), words) {
		t.Errorf("got:\n%v\nwant %s with %q", got, place, words)
	}
	for part, text := range map[string]string{"found": got.Found, "rule": got.Rule, "why": got.Why, "instead": got.Instead} {
		if text == "" {
			t.Errorf("%v\nhas no %s", got, part)
		}
	}
}

func readSeeded(t *testing.T, name string) (tree fstest.MapFS, want []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tree = fstest.MapFS{}
	var current *fstest.MapFile
	for line := range strings.Lines(string(data)) {
		trimmed := strings.TrimSpace(line)
		if path, ok := strings.CutPrefix(trimmed, "-- "); ok && strings.HasSuffix(path, " --") {
			current = &fstest.MapFile{}
			tree[strings.TrimSuffix(path, " --")] = current
			continue
		}
		if current != nil {
			current.Data = append(current.Data, line...)
			continue
		}
		if w, ok := strings.CutPrefix(trimmed, "want: "); ok {
			want = append(want, w)
		} else if trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			t.Fatalf("%s: %q is neither a comment nor a want line", name, trimmed)
		}
	}
	return tree, want
}

// TestRulesAreSound checks the tables against themselves.
func TestRulesAreSound(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules {
		if seen[r.Package] {
			t.Errorf("two rules for %s", r.Package)
		}
		seen[r.Package] = true
		if got, ok := ruleFor(strings.TrimSuffix(r.Package, "/...")); !ok || got.Package != r.Package {
			t.Errorf("rule for %s is hidden behind the one for %s", r.Package, got.Package)
		}
		if r.Job == "" {
			t.Errorf("rule for %s: no job", r.Package)
		}
		for _, m := range r.May {
			if _, ok := ruleFor(strings.TrimSuffix(m, "/...")); !ok && m != anything {
				t.Errorf("rule for %s: may import %s, which has no rule", r.Package, m)
			}
		}
		if r.Kind == Pure && len(r.ThirdParty) > 0 {
			t.Errorf("rule for %s: a pure package has no third-party imports; excuse single files in Exceptions", r.Package)
		}
	}
	for _, e := range Exceptions {
		if len(e.Why) < 20 || len(e.Imports) == 0 {
			t.Errorf("exception for %s: say why, and list the imports", e.File)
		}
	}
}
