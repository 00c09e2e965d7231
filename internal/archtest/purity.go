package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

const whyPure = "the simulator, the fuzzers and the failover proofs replay it from a seed; what it reads besides its arguments cannot be replayed"

// body checks the code of one production file.
type body struct {
	*file
	rule  Rule
	names map[string]string // what a package is called in this file -> import path
	dots  []string          // import paths of dot imports
	out   []Violation
}

func checkBody(f *file, rule Rule) []Violation {
	b := &body{file: f, rule: rule, names: map[string]string{}}
	for _, imp := range f.imports {
		switch imp.name {
		case ".":
			b.dots = append(b.dots, imp.path)
		case "":
			b.names[baseName(imp.path)] = imp.path
		default:
			b.names[imp.name] = imp.path
		}
	}
	b.checkDots()
	qualified := map[*ast.Ident]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			qualified[n.Sel] = true
			if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil && b.names[x.Name] != "" {
				b.checkUse(n.Pos(), b.names[x.Name], n.Sel.Name)
			}
		case *ast.Ident:
			if n.Obj == nil && !qualified[n] {
				for _, p := range b.dots {
					b.checkUse(n.Pos(), p, n.Name)
				}
			}
		case *ast.CallExpr:
			b.checkBuiltin(n)
		}
		b.checkConcurrency(n)
		return true
	})
	return b.out
}

// baseName returns the name that an import has without an alias: the last
// element of its path that is not a version.
func baseName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

func (b *body) add(pos token.Pos, found, rule, why, instead string) {
	b.out = append(b.out, Violation{b.pos(pos), found, rule, why, instead})
}

// room is how failures call the package.
func (b *body) room() string { return path.Dir(b.name) }

func (b *body) checkDots() {
	for _, imp := range b.imports {
		if imp.name == "." {
			b.out = append(b.out, Violation{
				b.at(imp.line), "dot import of " + imp.path,
				"production code has no dot imports",
				"a name without its package hides from the reader, and from this test, where it comes from",
				"import the package under its own name",
			})
		}
	}
}

// checkUse looks at one use of a name of an imported package.
func (b *body) checkUse(pos token.Pos, pkg, name string) {
	use := pkg + "." + name
	replayed := b.rule.Kind == Pure || b.rule.Kind == Seeded
	library := replayed || b.rule.Kind == Library
	switch {
	case replayed && pkg == "time" && slices.Contains(clockNames, name):
		b.add(pos, "uses "+use, b.room()+" is replayed: no clock, no timer, no time zone of the machine", whyPure,
			"take the moment as an argument (quota.Time or time.Time); say when you want to be called again in what you return")
	case b.rule.Kind == Seeded && (pkg == "math/rand" || pkg == "math/rand/v2") && !slices.Contains(seededRandom, name):
		b.add(pos, "uses "+use, b.room()+" draws random numbers from a seeded generator only", whyPure,
			"call the method on the *rand.Rand made from the run's seed")
	case library && pkg == "fmt" && strings.HasPrefix(name, "Print"):
		b.add(pos, "uses "+use, "libraries do not print",
			"standard output belongs to the program: its user may be reading JSON from it",
			"return the value, or take an io.Writer")
	case library && pkg == "log" && !slices.Contains(ownLogger, name):
		b.add(pos, "uses "+use, "libraries do not use the process's logger of package log",
			"it has no levels and no fields, belongs to the program, and can end it",
			"return the error, or take a *slog.Logger")
	case library && pkg == "os" && name == "Exit":
		b.add(pos, "uses "+use, "libraries do not exit",
			"only main knows what else the process is doing; deferred work would be lost",
			"return an error")
	}
}

// checkBuiltin looks at calls of panic, print and println.
func (b *body) checkBuiltin(call *ast.CallExpr) {
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Obj != nil || b.rule.Kind == Command || b.rule.Kind == Support {
		return
	}
	switch id.Name {
	case "panic":
		if !b.invariantNear(call.Pos()) {
			b.add(call.Pos(), "panics without an invariant", "a library panics only where an invariant of its own is broken, and says which",
				"a limiter must never take the service down; what input can cause is an error",
				"return an error; if no input can get here, say why on this line or the one above: // invariant: ...")
		}
	case "print", "println":
		b.add(call.Pos(), "uses "+id.Name, "libraries do not print",
			"standard error belongs to the program", "return the value, or take an io.Writer")
	}
}

// invariantNear reports whether a comment that starts with "invariant:" is on
// the line of pos, or ends on the line before it.
func (b *body) invariantNear(pos token.Pos) bool {
	line := b.fset.Position(pos).Line
	for _, group := range b.ast.Comments {
		for _, c := range group.List {
			if !strings.HasPrefix(c.Text, "// invariant:") {
				continue
			}
			on := b.fset.Position(c.Pos()).Line
			if on == line || on <= line-1 && b.fset.Position(group.End()).Line == line-1 {
				return true
			}
		}
	}
	return false
}

// checkConcurrency looks for goroutines, channels and select.
func (b *body) checkConcurrency(n ast.Node) {
	if b.rule.Kind != Pure && b.rule.Kind != Seeded {
		return
	}
	var found string
	switch n := n.(type) {
	case *ast.GoStmt:
		found = "starts a goroutine"
	case *ast.ChanType:
		found = "has a channel type"
	case *ast.SendStmt:
		found = "sends on a channel"
	case *ast.SelectStmt:
		found = "selects"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			found = "receives from a channel"
		}
	}
	if found == "" {
		return
	}
	b.add(n.Pos(), found, b.room()+" is replayed: no goroutine, no channel, no select", whyPure,
		"return what is to be done (messages, the next wake-up) and let the goroutine in cluster that owns the value do it")
}
