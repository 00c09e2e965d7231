// Package archtest holds the tests of the module's structure that a linter cannot express:
// the code of the pure packages, and the packages that programs link. The import rules are
// in .golangci.yml (depguard).
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/quorate/quorate/"
	root   = "../.."
)

// pure lists the packages whose results depend on arguments only, so that the simulator, the fuzzers
// and the failover proofs can replay them from a seed. depguard in .golangci.yml has the same list.
var pure = []string{
	"api/rlqs/share", "aggregator", "asi", "internal/account", "internal/bound", "internal/clientledger", "internal/descriptor",
	"internal/history", "internal/limiter", "internal/plan", "internal/quota",
	"internal/rbac", "internal/sim", "internal/sim/rules", "internal/suggest", "leader", "shard",
}

// clockNames lists the functions of package time that read the machine's clock or time zone, or wait.
var clockNames = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Local", "LoadLocation"}

// globalRandom lists the functions of math/rand/v2 that draw from the process's global generator.
var globalRandom = []string{
	"ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N", "IntN", "N", "NormFloat64",
	"Perm", "Shuffle", "Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN",
}

// TestPure checks that the pure packages read no clock, use no global random generator, start no
// goroutine and use no channel.
func TestPure(t *testing.T) {
	files := 0
	for _, pkg := range pure {
		names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			t.Errorf("%s has no Go files; take it out of the list", pkg)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range impurities(f) {
				t.Errorf("%s %s: %s is pure; take the time, or a *rand.Rand, as an argument, and let the caller in cluster wait", fset.Position(found.pos), found.what, pkg)
			}
		}
	}
	if files < 100 {
		t.Errorf("%d files were read; there are more", files)
	}
}

type impurity struct {
	pos  token.Pos
	what string
}

// impurities returns the uses of clocks, global random numbers, goroutines and channels in a file.
func impurities(f *ast.File) (out []impurity) {
	names := map[string]string{} // name of the package in this file -> import path
	for _, imp := range f.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		base := strings.TrimSuffix(path, "/v2")
		name := base[strings.LastIndex(base, "/")+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		if name == "." {
			out = append(out, impurity{imp.Pos(), "imports into the file's own scope"})
		}
		names[name] = path
	}
	add := func(n ast.Node, what string) { out = append(out, impurity{n.Pos(), what}) }
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			switch path := names[x.Name]; {
			case path == "time" && slices.Contains(clockNames, n.Sel.Name),
				strings.HasPrefix(path, "math/rand") && slices.Contains(globalRandom, n.Sel.Name):
				add(n, "uses "+path+"."+n.Sel.Name)
			}
		case *ast.GoStmt:
			add(n, "starts a goroutine")
		case *ast.ChanType:
			add(n, "has a channel type")
		case *ast.SendStmt:
			add(n, "sends on a channel")
		case *ast.SelectStmt:
			add(n, "selects")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				add(n, "receives from a channel")
			}
		}
		return true
	})
	return out
}

// TestImpurities checks that impurities finds each kind, also through a renamed import.
func TestImpurities(t *testing.T) {
	for src, want := range map[string]string{
		`import "time"; var _ = time.Second`:                                   "",
		`import "time"; var _ = time.Now()`:                                    "uses time.Now",
		`import clock "time"; func f() { clock.Sleep(1) }`:                     "uses time.Sleep",
		`import . "time"`:                                                      "imports into the file's own scope",
		`import "math/rand/v2"; var _ = rand.IntN(3)`:                          "uses math/rand/v2.IntN",
		`import "math/rand/v2"; func f(r *rand.Rand) int { return r.IntN(3) }`: "",
		`import "math/rand/v2"; var _ = rand.New(rand.NewPCG(1, 2))`:           "",
		`func f() { go f() }`:                                                  "starts a goroutine",
		`var c chan int`:                                                       "has a channel type",
		`func f(c interface{}) { c <- 1 }`:                                     "sends on a channel",
		`func f(c interface{}) { <-c }`:                                        "receives from a channel",
		`func f() { select {} }`:                                               "selects",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a; "+src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if found := impurities(f); len(found) > 0 {
			got = found[0].what
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", src, got, want)
		}
	}
}

// linked lists the packages that some programs must not link, directly or indirectly.
var linked = []struct {
	packages []string // patterns of go list
	may      []string // packages of this module that they may link
	never    []string // prefixes of import paths that they must not link
	why      string
}{
	{
		packages: []string{"./client/..."},
		may: []string{
			"aggregator", "api/gen", "client", "internal/backoff", "internal/elapsed", "internal/fairshare", "internal/grantwait", "internal/limiter", "internal/limitproto",
			"internal/peerproto", "internal/pki", "internal/quota", "internal/sockerr", "internal/suggest", "internal/syncdir", "internal/zone", "shard",
		},
		never: []string{"github.com/hashicorp/", "go.etcd.io/"},
		why:   "services link the client, so it has no server code and few dependencies",
	},
	{
		packages: []string{"./client", "./client/httplimit", "./client/grpclimit", "./client/extract", "./client/accounts", "./client/retry"},
		never:    []string{"github.com/prometheus/", "go.opentelemetry.io/"},
		why:      "a service chooses its metrics library: promclient and otelclient are packages of their own",
	},
	{
		packages: []string{"./internal/sim", "./internal/sim/rules", "./leader", "./aggregator", "./internal/clientledger", "./shard"},
		never:    []string{"github.com/hashicorp/", "go.etcd.io/", module + "cluster", module + "config", module + "cmd"},
		why:      "the simulator plays the core alone",
	},
}

// TestLinked checks the dependencies of each package in linked.
func TestLinked(t *testing.T) {
	for _, l := range linked {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, l.packages...)...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list %s: %v", l.packages, err)
		}
		deps := strings.Fields(string(out))
		if len(deps) < 50 {
			t.Errorf("%s link %d packages; there are more", l.packages, len(deps))
		}
		within := func(path string, prefixes []string) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
		}
		for _, dep := range deps {
			local, ours := strings.CutPrefix(dep, module)
			if ours && l.may != nil && !within(local, l.may) || slices.ContainsFunc(l.never, func(p string) bool { return strings.HasPrefix(dep, p) }) {
				t.Errorf("%s link %s: %s", l.packages, dep, l.why)
			}
		}
	}
}
