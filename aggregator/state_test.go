package aggregator

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"testing"

	"github.com/quorate/quorate/internal/golden"
)

var rewrite = flag.Bool("rewrite", false, "write doc_state.go")

// TestMain fails if any test wrote to what all buckets without windows, or without rare fields, share.
func TestMain(m *testing.M) {
	code := m.Run()
	if noWindow != (windowState{}) || noRare != (rareState{}) {
		fmt.Println("FAIL: noWindow or noRare has been written")
		code = 1
	}
	os.Exit(code)
}

// TestStateTable compares the list of fields and bytes in the package documentation with the types.
func TestStateTable(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the bytes are those of 64-bit processors")
	}
	golden.Hold(t, "doc_state.go", `// Package aggregator stores a key as a bucket, a hot entry, which the request
// path reads, and the key's name. These are their fields, described in state.go, and bytes on a 64-bit
// processor, by group (written by TestStateTable):
//
`+golden.Groups(reflect.TypeFor[bucket](), reflect.TypeFor[state](), reflect.TypeFor[windowState](), reflect.TypeFor[rareState](), reflect.TypeFor[hotEntry]())+"package aggregator\n", *rewrite)
}
