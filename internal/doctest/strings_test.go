package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestStrings checks that messages in Go files, which the prose linter does not read, have none of
// the phrases of tools/vale/Quorate/Tics.yml.
func TestStrings(t *testing.T) {
	const root = "../.."
	rules, err := os.ReadFile(root + "/tools/vale/Quorate/Tics.yml")
	if err != nil {
		t.Fatal(err)
	}
	var tics []string
	lookahead := regexp.MustCompile(`\(\?![^)]*\)`) // Go's expressions have none
	for _, m := range regexp.MustCompile(`(?m)^  '(.+)': '`).FindAllStringSubmatch(string(rules), -1) {
		tics = append(tics, lookahead.ReplaceAllString(m[1], ""))
	}
	if len(tics) < 15 {
		t.Fatalf("%d phrases: Tics.yml has another form", len(tics))
	}
	tic := regexp.MustCompile(`(?i)\b(?:` + strings.Join(tics, "|") + `)\b`)
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "gen" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(lit.Value); err == nil {
				if found := tic.FindString(text); found != "" {
					t.Errorf("%s: %q: write it in plain words, as tools/vale/Quorate/Tics.yml suggests", set.Position(lit.Pos()), found)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 300 {
		t.Errorf("%d files, %v", files, err)
	}
}
