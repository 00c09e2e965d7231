package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Violation is one finding.
type Violation struct {
	Pos     string // file:line, or the file
	Found   string
	Rule    string
	Why     string
	Instead string
}

// String returns the finding with its rule, the reason, and the way out.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s\n\trule:    %s\n\twhy:     %s\n\tinstead: %s", v.Pos, v.Found, v.Rule, v.Why, v.Instead)
}

// file is one parsed source file.
type file struct {
	name      string // path in the module
	test      bool
	generated bool
	fset      *token.FileSet
	ast       *ast.File
	imports   []imported
}

// imported is one import declaration.
type imported struct {
	path  string // as written
	name  string // the alias, or "" for the package's own name
	line  int
	local string // path in the module, when it is a package of it
	inMod bool
}

func (f *file) pos(p token.Pos) string {
	return f.at(f.fset.Position(p).Line)
}

func (f *file) at(line int) string { return f.name + ":" + strconv.Itoa(line) }

// pkg is one directory with Go files.
type pkg struct {
	dir   string
	files []*file
}

// house is the whole module.
type house struct {
	pkgs map[string]*pkg
}

// dirs returns the packages' paths, sorted.
func (h *house) dirs() []string {
	dirs := make([]string, 0, len(h.pkgs))
	for d := range h.pkgs {
		dirs = append(dirs, d)
	}
	slices.Sort(dirs)
	return dirs
}

// scan parses every Go file of the tree: all build tags, tests too, but not
// testdata or hidden directories.
func scan(fsys fs.FS) (*house, error) {
	h := &house{pkgs: map[string]*pkg{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if hidden(name) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		f, err := parse(fsys, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if h.pkgs[dir] == nil {
			h.pkgs[dir] = &pkg{dir: dir}
		}
		h.pkgs[dir].files = append(h.pkgs[dir].files, f)
		return nil
	})
	return h, err
}

func hidden(dir string) bool {
	base := path.Base(dir)
	return dir != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor")
}

func parse(fsys fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	f := &file{
		name: name, fset: fset, ast: tree,
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(tree),
	}
	for _, spec := range tree.Imports {
		imp := imported{line: fset.Position(spec.Pos()).Line}
		if imp.path, err = strconv.Unquote(spec.Path.Value); err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		if spec.Name != nil {
			imp.name = spec.Name.Name
		}
		imp.local, imp.inMod = strings.CutPrefix(imp.path, Module+"/")
		if imp.path == Module {
			imp.local, imp.inMod = ".", true
		}
		f.imports = append(f.imports, imp)
	}
	return f, nil
}

// covers reports whether the pattern, a path that may end in /..., names the
// path.
func covers(pattern, name string) bool {
	if pattern == anything {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	return pattern == name
}

func coversAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, name) })
}

// within reports whether an import path belongs to a module.
func within(module, importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// thirdParty reports whether an import path is outside the standard library;
// those have a host, with a dot, in front.
func thirdParty(importPath string) bool {
	host, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(host, ".")
}

// byPlace orders findings as a reader goes through the tree.
func byPlace(a, b Violation) int {
	fa, la := splitPos(a.Pos)
	fb, lb := splitPos(b.Pos)
	return cmp.Or(strings.Compare(fa, fb), cmp.Compare(la, lb), strings.Compare(a.Found, b.Found))
}

func splitPos(pos string) (string, int) {
	name, line, _ := strings.Cut(pos, ":")
	n, err := strconv.Atoi(line)
	if err != nil {
		n = 0
	}
	return name, n
}
