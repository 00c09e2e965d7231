package doctest

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write what is generated into docs; then read the diff")

// generated begins every page that is written by a test.
const generated = "<!-- Written by go test ./internal/doctest -rewrite. Do not edit. -->\n\n"

// hold compares the pages of a reference with the files in docs/reference; keys are their names there.
// The directory with the name of the reference has no other files.
func hold(t *testing.T, reference string, pages map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		golden.Hold(t, filepath.Join(root, "docs/reference", name), generated+pages[name], *rewrite)
	}
	entries, err := os.ReadDir(filepath.Join(root, "docs/reference", reference))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := reference + "/" + e.Name(); pages[name] == "" {
			t.Errorf("docs/reference/%s is not generated any more: delete it", name)
		}
	}
}

// TestGRPCReference checks that docs/reference/grpc.md and the pages below it match the protos.
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
	hold(t, "grpc", GRPC(files, calls))
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

// TestHTTPReference checks that docs/reference/http.md and the pages below it match docs/openapi.json, which
// api.TestOpenAPIPublished compares with what a node serves.
func TestHTTPReference(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var api openAPI
	if err := json.Unmarshal(data, &api); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, ops := range api.Paths {
		calls += len(ops)
	}
	pages, err := HTTP(data)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for name, page := range pages {
		if name != "http.md" {
			written += strings.Count(page, "\n### ")
		}
	}
	if want := calls + len(api.Components.Schemas); written != want {
		t.Errorf("%d calls and types are written, want %d", written, want)
	}
	hold(t, "http", pages)
}
