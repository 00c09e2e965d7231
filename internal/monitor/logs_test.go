package monitor

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/golden"
)

// logLine is what the sources say of one message.
type logLine struct{ level, message, keys, where string }

// logLines reads all calls of a logger in the sources of the node.
func logLines(t *testing.T) (out []logLine) {
	t.Helper()
	levels := map[string]string{"Debug": "debug", "Info": "info", "Warn": "warn", "warn": "warn", "Error": "error"}
	for _, dir := range []string{"api", "cluster", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/sim/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if sel, ok := call.Fun.(*ast.SelectorExpr); ok && levels[sel.Sel.Name] != "" && len(call.Args) > 0 && isLogger(sel.X) {
						args := call.Args
						if sel.Sel.Name == "warn" && len(args) > 2 { // cluster/transport.logLimit: after the logger and the kind
							args = args[2:]
						}
						if l, ok := lineOf(levels[sel.Sel.Name], args); ok {
							l.where, _ = filepath.Rel(root, filepath.Dir(path))
							l.where = filepath.ToSlash(l.where)
							out = append(out, l)
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(out, func(a, b logLine) int {
		return strings.Compare(a.where+"\x00"+a.message+"\x00"+a.level+a.keys, b.where+"\x00"+b.message+"\x00"+b.level+b.keys)
	})
	return slices.Compact(out)
}

// isLogger says whether an expression is called as loggers are here.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.HasSuffix(strings.ToLower(x.Name), "log") || x.Name == "logger"
	case *ast.SelectorExpr:
		return strings.HasPrefix(strings.ToLower(x.Sel.Name), "log")
	}
	return false
}

func lineOf(level string, args []ast.Expr) (l logLine, ok bool) {
	text, ok := literal(args[0])
	if !ok {
		return l, false
	}
	var keys []string
	for i := 1; i < len(args); i += 2 {
		if k, ok := literal(args[i]); ok {
			keys = append(keys, k)
		}
	}
	return logLine{level: level, message: text, keys: strings.Join(keys, " ")}, true
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

const logsPreface = `# The log of a node

A node writes one line per event to standard error; ` + "`log.format`" + ` and ` + "`log.level`" + ` in [settings.md](settings.md) set the form and the lowest level. Messages and their keys are stable: programs may look
for them, and the [changelog](../../CHANGELOG.md) lists every change of one. ` + "`err`" + ` is the reason, as text. No line contains a caller's key, a token or a private key. The audit log, not this log, records who changed what.

A message that repeats is written at most 20 times at once, then once a second. The next line that is written has the number of those left out (` + "`dropped`" + `), and
` + "`quorate_log_lines_dropped_total`" + ` counts them.

<!-- Written by go test ./internal/monitor -run TestLogs -rewrite, of the sources. -->

| Message | Level | Keys | Of |
|---|---|---|---|
`

// TestLogs holds docs/reference/logs.md to the sources: messages and keys are stable, since programs look
// for them.
func TestLogs(t *testing.T) {
	lines := logLines(t)
	if len(lines) < 50 {
		t.Fatalf("%d lines are found", len(lines))
	}
	good := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	secret := regexp.MustCompile(`token|secret|password|private|authorization`)
	var b strings.Builder
	b.WriteString(logsPreface)
	for _, l := range lines {
		var keys []string
		for k := range strings.FieldsSeq(l.keys) {
			if !good.MatchString(k) {
				t.Errorf("%s: %q: the key %q is no snake_case", l.where, l.message, k)
			}
			if secret.MatchString(k) {
				t.Errorf("%s: %q: the key %q is of what must not be logged", l.where, l.message, k)
			}
			keys = append(keys, "`"+k+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", escape(l.message), l.level, strings.Join(keys, " "), l.where)
	}
	if !golden.Hold(t, filepath.Join(root, "docs", "reference", "logs.md"), b.String(), *rewrite) {
		t.Error("programs may look for what changed")
	}
}
