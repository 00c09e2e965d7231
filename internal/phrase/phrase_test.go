package phrase

import (
	"strings"
	"testing"
	"time"
)

func TestPlural(t *testing.T) {
	for _, tc := range []struct {
		n          int
		noun, want string
	}{
		{0, "node", "0 nodes"}, {1, "node", "1 node"}, {2, "node", "2 nodes"}, {1, "policy", "1 policy"}, {2, "policy", "2 policies"}, {3, "key", "3 keys"}, {2, "day", "2 days"}, {2, "entry", "2 entries"}, {2, "process", "2 processes"},
	} {
		if got := Plural(tc.n, tc.noun); got != tc.want {
			t.Errorf("Plural(%d, %q) is %q, want %q", tc.n, tc.noun, got, tc.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 2500 * time.Millisecond: "2.5s", 10 * time.Minute: "10m", 90 * time.Minute: "1h30m", 2 * time.Hour: "2h", time.Hour + time.Second: "1h0m1s",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%d) is %q, want %q", d, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 512: "512 B", 2048: "2.0 KiB", 150 << 20: "150 MiB", 3 << 40: "3.0 TiB", 1 << 62: "4194304 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestShow(t *testing.T) {
	for s, want := range map[string]string{
		"ann": "ann", "a\x1b[2J": `"a\x1b[2J"`, "\xff": `"\xff"`, strings.Repeat("ä", 65): strings.Repeat("ä", 61) + "...", strings.Repeat("ä", 64): strings.Repeat("ä", 64),
	} {
		if got := Show(s); got != want {
			t.Errorf("Show(%q) is %q, want %q", s, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	if got := Clip("abc", 3); got != "abc" {
		t.Errorf("a text of the length allowed became %q", got)
	}
	if got := Clip("aää", 4); got != "aä..." { // the cut falls into the second ä
		t.Errorf("it is %q", got)
	}
}
