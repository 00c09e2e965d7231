package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestSlowRates: the estimate refills exactly on time, also at a rate of less than a unit per second.
func TestSlowRates(t *testing.T) {
	const day = 24 * time.Hour
	for _, r := range []quota.Rate{{Tokens: 1, Per: 365 * day}, {Tokens: 1, Per: 30 * day}, {Tokens: 7, Per: 365 * day}, {Tokens: 1, Per: day}} {
		l := quota.Limit{LimitName: softName, Rate: r, Burst: 1}
		limits, err := quota.NewLimits(1, []quota.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		now := quota.Time(1_700_000_000_000_000_000)
		clock := func() quota.Time { return now }
		a := New(Config{Self: "a", Ranges: 1}, now)
		a.SetLimits(now, limits)
		now = now.Add(time.Second)
		if d := a.checkNow(clock, softName, "k", 1); !d.Allowed {
			t.Fatalf("%v: the first is refused: %v", r, d.Why)
		}
		begun, refill := now, r.TimeFor(quota.Token)
		for now.Sub(begun) < refill-time.Hour {
			now = now.Add(refill / 97)
			if now.Sub(begun) < refill-time.Hour && a.checkNow(clock, softName, "k", 1).Allowed {
				t.Fatalf("%v: allowed after %v of %v", r, now.Sub(begun), refill)
			}
		}
		if now = begun.Add(refill + time.Millisecond); !a.checkNow(clock, softName, "k", 1).Allowed {
			t.Errorf("%v: refused after %v", r, refill)
		}
	}
}
