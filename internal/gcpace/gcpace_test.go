package gcpace

import (
	"context"
	"runtime/debug"
	"testing"
	"time"
)

const mb = 1 << 20

// TestNext: a busy process may have Spare bytes of garbage, a large one no more than Go
// gives it, and one that has become idle none beyond that.
func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		perSecond, live []uint64 // by seconds, in MB
		want            int
	}{
		"the first second says nothing": {[]uint64{900}, []uint64{20}, usual},
		"idle":                          {[]uint64{900, 1, 2, 3}, []uint64{20, 20, 20, 20}, usual},
		"busy and small":                {[]uint64{0, 100}, []uint64{20, 32}, 400},
		"busy and tiny":                 {[]uint64{0, 100}, []uint64{1, 1}, most},
		"busy and large":                {[]uint64{0, 5000}, []uint64{500, 500}, usual},
		"it grows":                      {[]uint64{0, 100, 100, 100}, []uint64{32, 32, 64, 400}, usual},
		"a little is let be":            {[]uint64{0, 100, 100}, []uint64{32, 32, 33}, 400},
		"a pause is no end":             {[]uint64{0, 100, 0, 0}, []uint64{32, 32, 32, 32}, 400},
		"idle again":                    {[]uint64{0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []uint64{32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32}, usual},
	} {
		var p pacer
		var all uint64
		got := 0
		for i, n := range c.perSecond {
			all += n * mb
			got = p.next(all, c.live[i]*mb)
		}
		if got != c.want {
			t.Errorf("%s: %d %%, want %d", name, got, c.want)
		}
	}
}

// TestLeavesItAsItWas checks that Run leaves GOGC alone if the user set it, and restores it otherwise.
func TestLeavesItAsItWas(t *testing.T) {
	before := debug.SetGCPercent(usual)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	Run(ctx)
	if got := debug.SetGCPercent(usual); got != usual {
		t.Errorf("left at %d %%", got)
	}
	t.Setenv("GOGC", "50")
	Run(t.Context()) // returns at once
}
