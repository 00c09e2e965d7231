package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// refused checks that one token of the hard limit is refused with this reason, remaining level and retry-after.
func (r *rig) refused(why quota.Why, remaining int64, after time.Duration) {
	r.t.Helper()
	d := r.check(hardName, "k", 1)
	if d.Allowed || d.Why != why || d.Remaining != remaining || d.RetryAfter != after {
		r.t.Errorf("allowed %v, %v, %d remain, come back in %v; want %v, %d, %v", d.Allowed, d.Why, d.Remaining, d.RetryAfter, why, remaining, after)
	}
}

// TestLeaderLost: without a leader of the range, a node that holds nothing of a hard limit refuses with failover, the
// known level, and a retry-after at the end of a typical election. If that takes longer, the retry-after is the time
// that it has taken. The first answer of a leader ends it.
func TestLeaderLost(t *testing.T) {
	r := newRig(t, Config{})
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Level: 15 * tokens, Free: 15 * tokens})
	r.refused(quota.WhyNotHeld, 15, spacing)
	r.answer(r.collect(), quota.GrantEntry{Level: 15 * tokens, Free: 15 * tokens})
	lost := r.now
	r.LeaderLost(lost, 0)
	for _, c := range []struct {
		gone      time.Duration
		remaining int64
		after     time.Duration
	}{
		{0, 15, time.Second},
		{300 * time.Millisecond, 18, 700 * time.Millisecond},
		{800 * time.Millisecond, 20, 800 * time.Millisecond},
		{2 * time.Second, 20, 2 * time.Second},
	} {
		r.now = lost.Add(c.gone)
		r.refused(quota.WhyFailover, c.remaining, c.after)
		if d := r.check(hardName, "k", 0); d.Allowed || d.Why != quota.WhyFailover || d.RetryAfter != c.after {
			t.Errorf("asked what a check would be told: %+v", d)
		}
	}
	r.SetLeader(0, "other", 9)
	rep := r.collect()
	g := r.grant(rep, quota.GrantEntry{Level: 15 * tokens, Free: 15 * tokens})
	g.From, g.Term = "other", 9
	r.Apply(r.now, g)
	r.refused(quota.WhyNotHeld, 15, spacing)
}

// TestLeaderSilent: a leader that has not answered for three intervals and four round trips counts as lost, also
// without LeaderLost. After a lease when_cut_off decides, and the retry-after is not milliseconds.
func TestLeaderSilent(t *testing.T) {
	r := newRig(t, Config{})
	hard := limit(hardName, 20, quota.Hard)
	hard.Decide = quota.Locally // a member that asks the leader learns it from the missing answer
	r.limits(hard)
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Level: 15 * tokens, Free: 15 * tokens})
	r.check(hardName, "k", 1)
	r.Collect(r.now.Add(spacing))
	asked := r.now.Add(spacing)
	r.now = asked.Add(200 * time.Millisecond)
	r.Collect(r.now)
	if d := r.check(hardName, "k", 1); d.Why != quota.WhyNotHeld {
		t.Errorf("%v after %v; an answer may be late", d.Why, r.now.Sub(asked))
	}
	r.now = asked.Add(500 * time.Millisecond)
	r.Collect(r.now)
	r.refused(quota.WhyFailover, 20, 500*time.Millisecond)
	r.now = asked.Add(4 * time.Second)
	r.Collect(r.now)
	r.refused(quota.WhyCutOff, 20, 3*time.Second)
}

// TestSetAside: tokens that a new leader sets aside for nodes that have not reported do not count as used: a check
// that they refuse is not over the limit, and Remaining includes them.
func TestSetAside(t *testing.T) {
	for level, left := range map[quota.Units]int64{-30 * tokens: 15, 0: 20, 15 * tokens: 15} {
		r := newRig(t, Config{})
		r.check(hardName, "k", 1)
		r.answer(r.collect(), quota.GrantEntry{Level: level, Aside: 45 * tokens})
		d := r.check(hardName, "k", 1)
		if d.Allowed || d.Why != quota.WhyFailover || d.Remaining != left || d.RetryAfter < r.cfg.Sync || d.RetryAfter > r.cfg.Lease {
			t.Errorf("level %v: allowed %v, %v, %d remain, come back in %v; want failover, %d, from an interval to a lease", level, d.Allowed, d.Why, d.Remaining, d.RetryAfter, left)
		}
		r.answer(r.collect(), quota.GrantEntry{Level: -tokens})
		r.refused(quota.WhyOverLimit, 0, 200*time.Millisecond)
	}
}
