package doctest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write what is generated into docs; then read the diff")

// generated begins every page that is written by a test.
const generated = "<!-- Written by go test ./internal/doctest -rewrite. Do not edit. -->\n\n"

// hold holds a page to what it is made from.
func hold(t *testing.T, name, text string) {
	t.Helper()
	golden.Hold(t, filepath.Join(root, name), generated+text, *rewrite)
}

// TestGRPCReference: docs/reference/grpc.md says what the protos say.
func TestGRPCReference(t *testing.T) {
	files := apiFiles(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/authorization.md"))
	if err != nil {
		t.Fatal(err)
	}
	calls := Calls(string(page))
	for _, f := range files {
		for s := range all(f.Services()) {
			for m := range all(s.Methods()) {
				if name := string(s.Name()) + "." + string(m.Name()); calls[name].Permission == "" {
					t.Errorf("docs/reference/authorization.md says nothing of %s", name)
				}
			}
		}
	}
	hold(t, "docs/reference/grpc.md", GRPC(files, calls))
}

func apiFiles(t *testing.T) []protoreflect.FileDescriptor {
	t.Helper()
	files, err := Protos(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 13 {
		t.Fatalf("%d protos; there are more", len(files))
	}
	return files
}

// TestHTTPReference: docs/reference/http.md says what docs/openapi.json says, which
// api.TestOpenAPIPublished holds to what a node serves.
func TestHTTPReference(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := HTTP(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page, "\n### "); n < 200 {
		t.Errorf("%d calls and types; there are more", n)
	}
	hold(t, "docs/reference/http.md", page)
}
