// Package golden holds what a test makes to a file that is kept: with the test's flag -rewrite the file
// is written, and without it a difference is shown as one, with the command that writes the file.
package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
)

// mostLines is how many lines of a difference are shown; more are read better with git diff, after the
// file was written.
const mostLines = 60

// Hold fails the test when got is not what the file at path says: it shows the lines that differ, three
// lines around them, and the command that writes the file. With rewrite, the test's flag, it writes it
// first. The file may end its lines as Windows does. It returns whether both are the same.
func Hold(t testing.TB, path, got string, rewrite bool) bool {
	t.Helper()
	if rewrite {
		if err := write(path, got); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(string(text), "\r\n", "\n")
	if err == nil && got == want {
		return true
	}
	t.Errorf("%s is not what the test makes now:\n%sWhere the new text is meant, this writes it; then read the diff:\n  %s",
		within(path), Diff(within(path), want, got), Command(t))
	return false
}

// Diff shows how a text differs from the one that is kept under a name: the lines that differ, and three
// around them, in the form of diff -u; of many lines the first. It is empty when nothing differs.
func Diff(name, want, got string) string {
	lines := strings.SplitAfter(string(diff.Diff(name, []byte(want), "now", []byte(got))), "\n")
	lines = lines[1:] // the first says "diff", and the names again
	if more := len(lines) - 1 - mostLines; more > 0 {
		lines = append(lines[:mostLines], fmt.Sprintf("... and %d lines more\n", more))
	}
	return strings.Join(lines, "")
}

// Command is the one with which the test alone writes its files, in the folder of the module. A subtest's
// files are written by the test that it is of: names of subtests may have what a shell reads.
func Command(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "go test ./" + within(".") + " -run '^" + name + "$' -rewrite"
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // files of the repository
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a file of the repository
}

// within returns a path relative to the directory of the module, or as it is outside a module.
func within(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for root := path; filepath.Dir(root) != root; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.ToSlash(strings.TrimPrefix(path[len(root):], string(filepath.Separator)))
		}
	}
	return path
}
