package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test whose failures are read.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper()                     {}
func (r *recorder) Name() string                { return "TestPage/a 'part'" }
func (r *recorder) Errorf(f string, all ...any) { r.said += fmt.Sprintf(f, all...) }

func held(t *testing.T, path, got string, rewrite bool) string {
	t.Helper()
	r := &recorder{TB: t}
	if same := Hold(r, path, got, rewrite); same != (r.said == "") {
		t.Errorf("it returns %v and says %q", same, r.said)
	}
	return r.said
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// TestDifference: what differs is shown with three lines around it and nothing else, and the command is
// whole.
func TestDifference(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("go.mod", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("room/testdata", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir("room")
	file := filepath.Join("testdata", "page")
	if err := os.WriteFile(file, []byte(numbered(1, 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `room/testdata/page is not what the test makes now:
--- room/testdata/page
+++ now
@@ -247,7 +247,7 @@
 line 247
 line 248
 line 249
-line 250
+another
 line 251
 line 252
 line 253
Where the new text is meant, this writes it; then read the diff:
  go test ./room -run '^TestPage$' -rewrite`
	if said := held(t, file, strings.Replace(numbered(1, 500), "line 250\n", "another\n", 1), false); said != want {
		t.Errorf("it says\n%s\nwant\n%s", said, want)
	}
}

// TestMuch: of many lines that differ, the first are shown, and how many more there are.
func TestMuch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page")
	said := held(t, file, numbered(1, 500), false)
	if lines := strings.Count(said, "\n"); lines > mostLines+4 {
		t.Errorf("it says %d lines", lines)
	}
	for _, want := range []string{"+line 1\n", "... and 443 lines more", " -rewrite"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

// TestSame: a file that says the same, with either end of lines, is nothing to tell; -rewrite makes it so,
// and makes the folder.
func TestSame(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "page")
	if said := held(t, file, numbered(1, 9), true); said != "" {
		t.Error(said)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(numbered(1, 9), "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := held(t, file, numbered(1, 9), false); said != "" {
		t.Error(said)
	}
	if said := held(t, file, numbered(1, 8), false); !strings.Contains(said, "-line 9") {
		t.Errorf("a line less: %q", said)
	}
}
