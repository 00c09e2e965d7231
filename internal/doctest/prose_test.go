package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plainPages are written in plain technical English; TestProse keeps them so.
var plainPages = []string{
	"README.md", "docs/README.md", "docs/tutorial.md", "docs/ARCHITECTURE.md",
	"docs/explanation/accuracy.md", "docs/explanation/compared.md", "docs/explanation/concepts.md", "docs/explanation/durable-quotas.md", "docs/explanation/faq.md", "docs/explanation/security.md",
	"docs/howto/README.md", "docs/howto/clients.md", "docs/howto/console.md", "docs/howto/containers.md", "docs/howto/contexts.md", "docs/howto/envoy.md",
	"docs/howto/from-envoy-ratelimit.md", "docs/howto/from-gubernator.md", "docs/howto/from-quotaservice.md", "docs/howto/from-redis.md",
	"docs/howto/http.md", "docs/howto/kubernetes.md", "docs/howto/middleware.md", "docs/howto/migrating.md", "docs/howto/nginx.md",
	"docs/howto/operating.md", "docs/howto/planning.md", "docs/howto/production.md", "docs/howto/sizing.md", "docs/howto/systemd.md",
	"docs/reference/alerts.md", "docs/reference/cli.md", "docs/reference/formats.md", "docs/reference/glossary.md", "docs/reference/limits.md", "docs/reference/metrics.md", "docs/reference/settings.md", "docs/reference/simulator.md",
	"docs/reference/compat/envoy-descriptors.md", "docs/reference/compat/envoy-rlqs.md", "docs/reference/compat/envoy-rls.md", "docs/reference/compat/gubernator.md", "docs/reference/compat/proxies.md", "docs/reference/compat/quotaservice.md", "docs/reference/compat/redis.md", "docs/reference/stability.md", "docs/reference/tracing.md",
}

// tics are phrases that hide who does what, with better words. Only phrases that are never the best
// choice belong here.
var tics = []struct{ phrase, better string }{
	{`(is|are|was|were|be|been) told`, "receives, is notified; or say what is returned"},
	{`tells|tell (how|what|who|when|which)`, "returns, reports, shows"},
	{`in force`, "active, current"},
	{`whoever|who may`, "anyone who; callers with permission"},
	{`there (is|are|was|were) none`, "not found, unknown; or name what is missing"},
	{`is none( of)?`, "is not"},
	{`anew`, "again"},
	{`for ever`, "permanently, never"},
	{`meanwhile`, "during this, at the same time"},
	{`as good as new`, "reset"},
	{`so many at a time`, "a concurrency limit"},
	{`(goes|go|going) on`, "continues"},
	{`what there is|what is not`, "the noun"},
	{`says? of (itself|themselves)`, "reports"},
	{`(is|are) to be`, "should be, has to be, becomes"},
	{`how (it|they|things) stands?`, "the state of"},
	{`(is|are) no more`, "is no longer"},
	{`exit code \d says`, "exit code N means"},
}

// TestProse finds phrases in the pages for users that plain words replace.
func TestProse(t *testing.T) {
	for _, name := range plainPages {
		code := false
		for n, line := range strings.Split(read(t, name), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if !code {
				checkProse(t, name, n+1, line)
			}
		}
	}
}

// TestProseOfHelp does the same in the help of all commands, which the reference of the command line
// shows as it is.
func TestProseOfHelp(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/reference/cli/*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(read(t, name), "\n") {
			checkProse(t, name, n+1, line)
		}
	}
}

// TestProseOfCode does the same in the documentation of the Go client and in the comments of the
// protos.
func TestProseOfCode(t *testing.T) {
	files := 0
	for _, dir := range []string{"client", "api/proto"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			switch {
			case err != nil:
				return err
			case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
				files++
				return proseOfGo(t, name)
			case strings.HasSuffix(name, ".proto"):
				files++
				for n, line := range strings.Split(read(t, name), "\n") {
					if _, comment, ok := strings.Cut(line, "//"); ok {
						checkProse(t, name, n+1, comment)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 20 {
		t.Errorf("%d files; where are the others?", files)
	}
}

// proseOfGo checks the documentation of a Go file: of the package, and of what it exports.
func proseOfGo(t *testing.T, name string) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments)
	if err != nil {
		return err
	}
	docs := []*ast.CommentGroup{f.Doc}
	if ast.FileExports(f) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				docs = append(docs, n.Doc)
			case *ast.GenDecl:
				docs = append(docs, n.Doc)
			case *ast.TypeSpec:
				docs = append(docs, n.Doc)
			case *ast.ValueSpec:
				docs = append(docs, n.Doc, n.Comment)
			case *ast.Field:
				docs = append(docs, n.Doc, n.Comment)
			}
			return true
		})
	}
	for _, d := range docs {
		if d == nil {
			continue
		}
		for _, c := range d.List {
			checkProse(t, name, fset.Position(c.Pos()).Line, c.Text)
		}
	}
	return nil
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkProse reports the tics of one line, outside inline code.
func checkProse(t *testing.T, name string, n int, line string) {
	t.Helper()
	for i, re := range ticExprs {
		if found := re.FindString(inlineCode.ReplaceAllString(line, "")); found != "" {
			t.Errorf("%s:%d: %q: write %s", name, n, found, tics[i].better)
		}
	}
}

var ticExprs = func() []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(tics))
	for i, tic := range tics {
		all[i] = regexp.MustCompile(`(?i)\b(` + tic.phrase + `)\b`)
	}
	return all
}()

var inlineCode = regexp.MustCompile("`[^`]*`")
