package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestGuess: one of three nodes admits its part of a new soft key on the estimate. Beyond that a call waits,
// uncounted, and reports its cost as wanted; a call that cannot wait passes.
func TestGuess(t *testing.T) {
	r := newRig(t, Config{Nodes: 3})
	try := func() quota.Decision {
		var c Call
		c.Reset([]quota.Request{{Key: quota.Key{LimitName: softName, Key: "k"}, Cost: 1}}, make([]quota.Decision, 1))
		r.Decide(r.clock, &c)
		return c.Out[0]
	}
	for i := range 3 { // 20 / (2 x 3)
		if d := try(); !d.Allowed || d.Why != quota.WhyEstimate {
			t.Fatalf("try %d: %v, %v", i, d.Allowed, d.Why)
		}
	}
	for range 4 {
		if d := try(); d.Allowed || d.Why != quota.WhyNotHeld {
			t.Fatalf("beyond its part: %v, %v; want to wait", d.Allowed, d.Why)
		}
	}
	r.want(softName, 1, true, quota.WhyEstimate)
	rep := r.collect()
	e := rep.Entries[0]
	if e.Overdrawn != 4*tokens || e.Refused != 0 || e.Want != 5*tokens {
		t.Errorf("reported overdrawn %d, refused %d, want %d; want 4, 0 and 5 tokens", e.Overdrawn, e.Refused, e.Want)
	}
	// The leader has nothing free: waiting is useless, the estimate decides.
	r.answer(rep, quota.GrantEntry{Level: 10 * tokens, Free: 0})
	for range 5 {
		if d := try(); !d.Allowed || d.Why != quota.WhyEstimate {
			t.Fatalf("nothing free: %v, %v; want the estimate to pass it", d.Allowed, d.Why)
		}
	}
}

// TestOverBurstSaysWhatRemains: a cost that can never fit is refused without a charge, and the decision still has the
// remaining tokens.
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

// TestDoubt: demand of the others above the level does not prove that they got it. A check that is refused on that
// presumption alone, because no answer comes in time, has a short retry-after, not the time until the presumed use
// has refilled. If the leader had nothing left, the refusal stays over_limit.
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

// TestGuessOfLargestLimit: the overdraft that a client may guess does not overflow, for any limit and any age of its
// last grant.
func TestGuessOfLargestLimit(t *testing.T) {
	r := newRig(t, Config{})
	r.SetPeers(1)
	r.limits(quota.Limit{LimitName: softName, Rate: quota.Rate{Tokens: quota.MaxTokens, Per: time.Second}, Burst: quota.MaxTokens})
	r.want(softName, 1, true, quota.WhyEstimate)
	r.answer(r.collect(), quota.GrantEntry{Level: quota.Most, Free: quota.Most, Credit: quota.Most})
	for range 58 {
		r.now = r.now.Add(50 * time.Millisecond)
		if d := r.check(softName, "k", 1); !d.Allowed {
			t.Fatalf("%v after a grant: %v with %d tokens left", r.now, d.Why, d.Remaining)
		}
	}
}
