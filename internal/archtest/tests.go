package archtest

import (
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// named is a test as documents name it: its package, by its path in the module
// or the end of that, a dot, and its function; perhaps a subtest behind a slash.
var named = regexp.MustCompile("`([a-z][a-z0-9_/]*)\\.((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)(?:/[^`]*)?`")

// testColumn is the heading of a table's column that holds tests, in every row.
const testColumn = "test"

// CheckNamedTests returns what is wrong with the tests that the tables of
// docs/*.md and examples/README.md name: those that do not exist, and rows of a
// column "test" without one. It reports how many it has found.
func CheckNamedTests(fsys fs.FS) (out []Violation, found int, err error) {
	h, err := scan(fsys)
	if err != nil {
		return nil, 0, err
	}
	docs, err := fs.Glob(fsys, "docs/*.md")
	if err != nil {
		return nil, 0, err
	}
	if examples, err := fs.Glob(fsys, "examples/README.md"); err == nil {
		docs = append(docs, examples...)
	}
	for _, doc := range docs {
		text, err := fs.ReadFile(fsys, doc)
		if err != nil {
			return nil, 0, err
		}
		more, n := checkTables(doc, string(text), h.tests())
		out, found = append(out, more...), found+n
	}
	return out, found, nil
}

// tests returns the test functions of every package, by its path.
func (h *house) tests() map[string][]string {
	out := map[string][]string{}
	for dir, p := range h.pkgs {
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
					out[dir] = append(out[dir], fn.Name.Name)
				}
			}
		}
	}
	return out
}

func checkTables(doc, text string, tests map[string][]string) (out []Violation, found int) {
	column := -1
	line := 0
	for row := range strings.Lines(text) {
		line++
		cells := cellsOf(row)
		if cells == nil {
			column = -1
			continue
		}
		add := func(what, instead string) {
			out = append(out, Violation{
				Pos: doc + ":" + strconv.Itoa(line), Found: what,
				Rule:    "a table's column \"" + testColumn + "\" names tests that exist, as `package.TestName`",
				Why:     "what a document says of the program holds only as long as a test fails without it",
				Instead: instead,
			})
		}
		for _, m := range named.FindAllStringSubmatch(row, -1) {
			found++
			if what := missing(m[1], m[2], tests); what != "" {
				add(what, "write the test, or name the one that shows it")
			}
		}
		if i := slices.Index(cells, testColumn); i >= 0 {
			column = i
			continue
		}
		if column >= 0 && column < len(cells) && strings.Trim(cells[column], "-: ") != "" && !named.MatchString(cells[column]) {
			add("a row without a test: "+cells[0], "name the test that shows it")
		}
	}
	return out, found
}

// cellsOf returns the cells of a table's row, nil for other lines.
func cellsOf(row string) []string {
	row = strings.TrimSpace(row)
	if len(row) < 2 || row[0] != '|' || row[len(row)-1] != '|' {
		return nil
	}
	cells := strings.Split(row[1:len(row)-1], "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// missing says what is wrong with a name, "" if nothing is.
func missing(pkg, test string, tests map[string][]string) string {
	var dirs []string
	for dir := range tests {
		if dir == pkg || path.Base(dir) == pkg || strings.HasSuffix(dir, "/"+pkg) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	switch {
	case slices.Contains(dirs, pkg):
		dirs = []string{pkg}
	case len(dirs) == 0:
		return "no package " + pkg + " with tests"
	case len(dirs) > 1:
		return pkg + " may be any of " + strings.Join(dirs, ", ")
	}
	if !slices.Contains(tests[dirs[0]], test) {
		return "no test " + test + " in " + dirs[0]
	}
	return ""
}
