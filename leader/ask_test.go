package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestAskWithoutRefill asks for a token of a limit without refill, while a member holds it, and
// after it is used up. Only a cost above the burst is refused as over the burst.
func TestAskWithoutRefill(t *testing.T) {
	l := quota.Limit{LimitName: examKey.LimitName, Ceiling: quota.Hard}
	l.SetFirst(quota.Tier{Rate: quota.Rate{Per: time.Second}, Burst: 4})
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(time.Hour)
	led := New(Config{}, 0, 1, "a", nil, limits, nil, now)
	ask := func(cost int64) quota.Answer {
		return led.Ask(now, []quota.Ask{{Key: examKey, Cost: quota.FromTokens(cost)}})[0]
	}
	if an := ask(5); an.Why != quota.WhyOverBurst {
		t.Errorf("cost 5 of 4: %v, want over_burst", an.Why)
	}
	led.buckets.find(examKey).pool.Add(-quota.FromTokens(4))
	if an := ask(1); an.Allowed || an.Why != quota.WhyOverLimit {
		t.Errorf("cost 1 of what is used up: %v, want over_limit", an.Why)
	}
	h := led.buckets.find(examKey)
	h.allocations = append(h.allocations, allocation{
		openState: openState{process: &process{processID: processID{node: "b"}}},
		heldState: heldState{out: quota.FromTokens(2), returnable: quota.FromTokens(2), capped: quota.FromTokens(2)},
	})
	if an := ask(1); an.Allowed || an.Why != quota.WhyNotHeld {
		t.Errorf("cost 1, which a member holds: %v, want not_held", an.Why)
	}
}
