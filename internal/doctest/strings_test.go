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

// TestStrings checks that text which the prose linter does not read has none of the phrases of
// tools/vale/Quorate/Tics.yml: messages in Go files, descriptions in JSON schemas, pages of the console.
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
	described := regexp.MustCompile(`"(?:description|title)": ".*"`)
	for _, pattern := range []string{
		"docs/schema/*.json", "deploy/helm/*/values.schema.json",
		"internal/console/templates/*.html", "internal/console/static/app.js", "internal/console/static/editor.js",
	} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(data), "\n") {
				if filepath.Ext(path) == ".json" {
					line = described.FindString(line)
				}
				if found := tic.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: write it in plain words, as tools/vale/Quorate/Tics.yml suggests", path, i+1, found)
				}
			}
		}
	}
}
