package console

import "testing"

// TestSpan checks that a range of one value reads as that value.
func TestSpan(t *testing.T) {
	for _, c := range []struct{ low, high, want string }{{"0", "0", "0"}, {"1.5", "1.5", "1.5"}, {"0", "2.1", "0 to 2.1"}} {
		if got := span(c.low, c.high); got != c.want {
			t.Errorf("%s and %s: %q; want %q", c.low, c.high, got, c.want)
		}
	}
}
