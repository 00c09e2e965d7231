package leader

import (
	"flag"
	"reflect"
	"runtime"
	"testing"

	"github.com/quorate/quorate/internal/golden"
)

// TestStateTable compares the list of fields and bytes in the package documentation with the types.
func TestStateTable(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the bytes are those of 64-bit processors")
	}
	rewrite := flag.Lookup("rewrite").Value.String() == "true" // registered by package datadriven
	golden.Hold(t, "doc_state.go", `// Package leader stores a key as a bucket, whose state has an allocation for each member. Where
// counts endure, an allocation has a logged. Buckets that are not in use have their state packed
// (pack.go). The list has their fields, described in bucket.go and allocation.go, and their size in
// bytes on a 64-bit processor, by group (written by TestStateTable):
//
`+golden.Groups(reflect.TypeFor[bucket](), reflect.TypeFor[state](), reflect.TypeFor[allocation](), reflect.TypeFor[logged]())+"package leader\n", rewrite)
}
