package doctest

import (
	"os"
	"testing"
)

// TestTree: docs/tree.md has a line for every folder.
func TestTree(t *testing.T) {
	page, unsaid, gone, err := Folders(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range unsaid {
		t.Errorf("nobody says what is in %s: give its package a sentence in doc.go, or the folder a line in tree.go", name)
	}
	for _, name := range gone {
		t.Errorf("tree.go says what is in %s, which is not there", name)
	}
	hold(t, "docs/tree.md", page)
}
