package aggregator

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestClockOffset: the difference of two clocks is always within its bounds, whatever the delays of messages and the
// drift of the clocks are (nodes are steered by up to 5000 ppm each, see cluster/clock), and grants that answer no report
// leave the lower bound open.
func TestClockOffset(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var clock clockOffset
		apart := quota.Time(rng.Int64N(int64(time.Hour))) - quota.Time(30*time.Minute)
		drift := rng.Float64()*2e-2 - 1e-2
		leader := func(now quota.Time) quota.Time { return now - apart - quota.Time(drift*float64(now)) }
		now, known := quota.Time(0), false
		for range 300 {
			sent := now
			arrives := sent.Add(time.Duration(rng.ExpFloat64() * float64(20*time.Millisecond)))
			now = arrives.Add(time.Duration(rng.ExpFloat64() * float64(20*time.Millisecond)))
			if rng.IntN(3) == 0 {
				sent = 0
			}
			o := clock.observe(leader(arrives), sent, now)
			known = known || sent != 0
			is := int64(now - leader(now))
			if o.low > is+1 || o.high < is-1 { // a nanosecond of rounding
				t.Fatalf("seed %d: clocks differ by %d, bounds %d and %d", seed, is, o.low, o.high)
			}
			if wide := o.lag() > time.Minute; wide == known {
				t.Fatalf("seed %d: lag %v, a report was answered: %v", seed, o.lag(), known)
			}
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		}
	}
}

// TestClockOffsetOfSetClock: bounds from before a leader's clock was set do not count.
func TestClockOffsetOfSetClock(t *testing.T) {
	var clock clockOffset
	at := quota.Time(time.Hour)
	clock.observe(at, at-10, at+10)
	at += quota.Time(time.Second)
	for _, step := range []quota.Time{5000, -5000} {
		o := clock.observe(at+step, at-10, at+10)
		if want := (clockOffset{int64(-step - 10), int64(-step + 10), at + 10}); o != want {
			t.Errorf("set by %d: %+v, want %+v", step, o, want)
		}
	}
}
