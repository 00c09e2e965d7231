package leader

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestShownRates: what people read of a key follows the attempts over seconds,
// not the bursts within them, and fades when they stop.
func TestShownRates(t *testing.T) {
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20,
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_000_000_000_000)
	l := New(Config{}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, now)
	e := quota.ReportEntry{Key: quota.Key{LimitName: limits.All()[0].LimitName, Key: "k"}, Epoch: 1}
	shown := func() quota.KeyRate {
		return l.Rates(now, 1, func(quota.LimitName) bool { return true })[0]
	}
	seq := quota.Seq(0)
	use := func(admitted, refused int64) {
		e.Overdrawn += quota.FromTokens(admitted)
		e.Refused += quota.FromTokens(refused)
		seq++
		if _, err := l.Report(now, quota.Report{Term: 1, From: "a", Seq: seq, Entries: []quota.ReportEntry{e}}); err != nil {
			t.Fatal(err)
		}
	}
	use(7, 0)
	now = now.Add(5 * time.Millisecond)
	use(0, 0)
	if k := shown(); k.Demand > 7 || k.Rate > 7 {
		t.Errorf("seven requests at once: demand %.1f/s, rate %.1f/s; want no more than 7", k.Demand, k.Rate)
	}
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		use(1, 9)
	}
	if k := shown(); math.Abs(k.Demand-100) > 10 || math.Abs(k.Rate-10) > 1 {
		t.Errorf("10 of 100/s admitted for 10 s: demand %.1f/s, rate %.1f/s", k.Demand, k.Rate)
	}
	now = now.Add(10 * time.Second)
	if k := shown(); k.Demand > 1 || k.Rate > 0.1 {
		t.Errorf("10 s of silence: demand %.1f/s, rate %.1f/s; want them gone", k.Demand, k.Rate)
	}
}
