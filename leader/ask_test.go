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

// TestAskForTheRest checks that a leader books only what the asking member does not spend itself, and judges the whole
// cost by the level.
func TestAskForTheRest(t *testing.T) {
	for _, c := range []struct {
		cost, held int64
		allowed    bool
		why        quota.Why
		level      int64 // after it
	}{
		{6, 4, true, quota.WhyLeader, 8},     // 2 of 4 in the pool; the member spends 4 of the 6 that are held
		{6, 0, false, quota.WhyNotHeld, 10},  // the level covers it
		{10, 4, false, quota.WhyNotHeld, 10}, // another member holds the missing 2
		{11, 6, false, quota.WhyOverLimit, 10},
		{6, 7, false, quota.WhyNoLimit, 10},
		{6, -1, false, quota.WhyNoLimit, 10},
	} {
		l := quota.Limit{LimitName: examKey.LimitName, Ceiling: quota.Hard}
		l.SetFirst(quota.Tier{Rate: quota.Rate{Per: time.Second}, Burst: 20})
		limits, err := quota.NewLimits(1, []quota.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		now := quota.Time(time.Hour)
		led := New(Config{}, 0, 1, "a", nil, limits, nil, now)
		led.Ask(now, []quota.Ask{{Key: examKey}})
		b := led.buckets.find(examKey)
		b.pool.Add(-quota.FromTokens(16))
		b.allocations = append(b.allocations, allocation{
			openState: openState{process: &process{processID: processID{node: "b"}}},
			heldState: heldState{out: quota.FromTokens(6), returnable: quota.FromTokens(6), capped: quota.FromTokens(6)},
		})
		ask := quota.Ask{From: "b", Incarnation: 1, ID: 1, Key: examKey, Cost: quota.FromTokens(c.cost), Held: quota.FromTokens(c.held)}
		an := led.Ask(now, []quota.Ask{ask})[0]
		if an.Unsaved {
			led.CheckpointWanted(now, 1)
			led.Saved(now, led.Written())
			an = led.Ask(now, []quota.Ask{ask})[0]
		}
		if an.Allowed != c.allowed || an.Why != c.why || b.level().Tokens() != c.level {
			t.Errorf("cost %d, of which %d are held: %+v, level %d; want %+v", c.cost, c.held, an, b.level().Tokens(), c)
		}
		led.cancel(now, b, &quota.Report{From: "b", Incarnation: 1}, []quota.Seq{1})
		if left := b.level().Tokens(); left != 10 {
			t.Errorf("cost %d, of which %d are held: a level of %d after it was cancelled; want 10", c.cost, c.held, left)
		}
	}
}
