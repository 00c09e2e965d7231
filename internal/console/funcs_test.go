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

// TestSmallNumbers checks that a number that rounds to 0 does not read as 0, and that large percentages have
// separators.
func TestSmallNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", .0004: "<0.001", -.0001: ">-0.001", -.25: "-0.250", .0005: "0.001", .25: "0.250", 4: "4.0", 1e4: "10,000"} {
		if got := dec(v); got != want {
			t.Errorf("%v: %q; want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0 %", .00001: "<0.01 %", -.00001: ">-0.01 %", .00005: "0.01 %", .0273: "2.73 %", .62: "62 %", 176.37: "17,637 %"} {
		if got := part(v); got != want {
			t.Errorf("part %v: %q; want %q", v, got, want)
		}
	}
}
