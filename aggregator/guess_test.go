package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestGuess: a node admits a new soft key on the estimate, at once and as long as the level covers it;
// where the limit allows a hop, it asks the leader for what is beyond its part.
func TestGuess(t *testing.T) {
	for _, decide := range []quota.Decide{quota.DecideDefault, quota.Locally, quota.Auto} {
		r := newRig(t, Config{Nodes: 3})
		r.limits(ruleOf("l", perHour(20), func(l *quota.Limit) { l.Decide = decide }))
		for i := range 20 {
			var c Call
			c.Reset([]quota.Request{ask(key("l", "").LimitName, "k", 1)}, make([]quota.Decision, 1))
			r.Decide(r.clock, &c)
			if decide == quota.Auto && i >= 3 { // 20 / (2 x 3)
				if c.Need != Leader {
					t.Fatalf("try %d: needs %d, want the leader", i, c.Need)
				}
			} else if d := c.Out[0]; c.Need != Nothing || !d.Allowed || d.Why != quota.WhyEstimate {
				t.Fatalf("%v, try %d: needs %d, %v, %v", decide, i, c.Need, d.Allowed, d.Why)
			}
		}
		if e := r.collect().Entries[0]; decide != quota.Auto && (e.Overdrawn != 20*tokens || e.Refused != 0) {
			t.Errorf("%v: reported overdrawn %d, refused %d; want 20 tokens and 0", decide, e.Overdrawn, e.Refused)
		}
	}
}

// TestOverBurstSaysWhatRemains: a cost that can never fit is refused without a
// charge, and the answer still tells what is left.
func TestOverBurstSaysWhatRemains(t *testing.T) {
	r := newRig(t, Config{})
	for _, left := range []int64{20, 17} {
		d := r.check(softName, "k", 21)
		if d.Allowed || d.Why != quota.WhyOverBurst || d.Remaining != left {
			t.Errorf("allowed %v, %v, remaining %d; want over_burst and %d", d.Allowed, d.Why, d.Remaining, left)
		}
		r.want(softName, 3, true, quota.WhyEstimate)
	}
}

// TestDoubt: that the others want more than there is does not say that they got it. Who is
// refused on that guess alone, because nobody answers in time, is told to come back soon,
// and not when what was guessed has refilled. What the leader has said stays said.
func TestDoubt(t *testing.T) {
	for _, free := range []quota.Units{20 * tokens, 0} {
		r := newRig(t, Config{Nodes: 3})
		r.want(hardName, 5, false, quota.WhyNotHeld)
		r.answer(r.collect(), quota.GrantEntry{Level: free, Free: free, Others: 100 * tokens})
		r.now = r.now.Add(250 * time.Millisecond)
		d := r.check(hardName, "k", 5)
		switch {
		case d.Allowed:
			t.Fatal("allowed what is not held")
		case free > 0 && (d.Why != quota.WhyNotHeld || d.RetryAfter > r.cfg.Sync || d.Remaining < 5):
			t.Errorf("%v, %d remain, come back in %v; want not_held and soon", d.Why, d.Remaining, d.RetryAfter)
		case free == 0 && (d.Why != quota.WhyOverLimit || d.RetryAfter < 100*time.Millisecond):
			t.Errorf("used up: %v, come back in %v", d.Why, d.RetryAfter)
		}
	}
}
