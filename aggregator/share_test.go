package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestShare: the share that a node takes when it is cut off is its average over seconds, not one outlying grant. A
// smaller share counts sooner.
func TestShare(t *testing.T) {
	type told struct {
		part float64
		n    int // number of grants, 100 ms apart
	}
	for name, c := range map[string]struct {
		told     []told
		from, to float64
	}{
		"the first grants do not know of the others":  {[]told{{1, 4}}, 0, 0.1},
		"all of it for long":                          {[]told{{1, 150}}, 0.95, 1},
		"a third, and the others silent for a moment": {[]told{{1. / 3, 100}, {1, 5}}, 0.33, 0.45},
		"all of it, and then a third":                 {[]told{{1, 100}, {1. / 3, 10}}, 0.33, 0.36},
		"a third, then nothing, and then all of it":   {[]told{{1. / 3, 100}, {0, 600}, {1, 1}}, 0, 0.1},
	} {
		l := &quota.Limit{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 30, Per: time.Second}, Burst: 30}
		var b bucket
		at := quota.Time(time.Hour)
		for _, w := range c.told {
			for range w.n {
				at = at.Add(100 * time.Millisecond)
				b.averageShare(l, &quota.GrantEntry{Rate: quota.Units(w.part * 30 * float64(quota.Token))}, b.sinceLevel(at))
				b.hasLevel, b.levelAt = true, at
			}
		}
		if got := float64(b.share) / quota.Million; got < c.from || got > c.to {
			t.Errorf("%s: %.3f; want %.2f to %.2f", name, got, c.from, c.to)
		}
	}
}
