package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTablesStay checks that a run of some groups replaces their tables, and leaves the others
// unchanged and in order.
func TestTablesStay(t *testing.T) {
	dir := t.TempDir()
	write := func(at int64, names ...string) {
		t.Helper()
		r := NewResults(nil, false)
		for _, n := range names {
			r.Tables = append(r.Tables, Table{Name: n, Title: n, Measures: []Measure{{Name: "CPU"}}, Time: time.Unix(at, 0).UTC()})
		}
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	write(0, "a", "b", "c")
	write(86400, "b", "d")
	md, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(md)) {
		if name, is := strings.CutPrefix(line, "### "); is {
			got = append(got, strings.TrimSpace(name))
		}
	}
	if all := strings.Join(got, ""); all != "Targetsabcd" {
		t.Errorf("tables %s", all)
	}
	if n := strings.Count(string(md), "Measured 1970-01-02"); n != 2 {
		t.Errorf("%d tables of the second run:\n%s", n, md)
	}
}
