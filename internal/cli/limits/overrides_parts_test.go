package limits

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
)

// oneReader skips slow single-goroutine tests with -short, which runs that look only for races use.
func oneReader(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine reads large files; left out by -short")
	}
}

// bigFile writes n overrides into a file of more than 4 MiB; edit changes their lines.
func bigFile(t *testing.T, n int, edit func(i int, line string) string) *os.File {
	t.Helper()
	var b strings.Builder
	b.WriteString("# many\nversion: 1\n\noverrides:\n")
	for i := range n {
		line := fmt.Sprintf("  # tenant %d\n  - namespace: api\n    limit: user\n    key: tenant-%d\n    scale: 2x # %s\n", i, i, strings.Repeat("x", 200))
		if edit != nil {
			line = edit(i, line)
		}
		b.WriteString(line)
	}
	path := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if b.Len() <= config.MaxFileBytes {
		t.Fatalf("only %d bytes: it would be read at once", b.Len())
	}
	return f
}

// TestOverrideParts checks that a file too large to be read at once is read in parts, with each
// override once and in order.
func TestOverrideParts(t *testing.T) {
	oneReader(t)
	const n = 20_345
	f := bigFile(t, n, nil)
	for range 2 { // to check, and to send
		a := overrideApply{source: "big.yaml", now: 1}
		seen := 0
		err := a.read(f, func(list []quota.Override) error {
			if len(list) > 1000 {
				t.Errorf("a part of %d", len(list))
			}
			keys := map[string]bool{}
			for _, o := range list { // sorted by key within a part
				keys[o.Key.Key] = o.Scale == 2*quota.Million
			}
			for range list {
				if key := fmt.Sprintf("tenant-%d", seen); !keys[key] {
					t.Fatalf("%s is not in its part", key)
				}
				seen++
			}
			return nil
		})
		if err != nil || seen != n {
			t.Fatalf("%d overrides, want %d; %v", seen, n, err)
		}
	}
}

// TestOverridePartsFaults checks that faults have their places in the whole file.
func TestOverridePartsFaults(t *testing.T) {
	oneReader(t)
	for name, c := range map[string]struct {
		edit func(i int, line string) string
		want string
	}{
		"value": {func(i int, line string) string {
			if i == 15_000 {
				return strings.Replace(line, "2x", "x", 1)
			}
			return line
		}, fmt.Sprintf("big.yaml:%d:12: overrides[15000].scale: is \"x\"", 4+15_000*5+5)},
		"after": {func(i int, line string) string {
			if i == 20_344 {
				return line + "version: 1\n"
			}
			return line
		}, fmt.Sprintf("big.yaml:%d: unexpected text after the list", 4+20_345*5+1)},
		"long line": {func(i int, line string) string {
			if i == 3 {
				return strings.Replace(line, "#", "#"+strings.Repeat("y", config.MaxFileBytes/4), 1)
			}
			return line
		}, "big.yaml:20: is longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			a := overrideApply{source: "big.yaml", now: 1}
			err := a.read(bigFile(t, 20_345, c.edit), func([]quota.Override) error { return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}
