package aggregator

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// ruleOf makes a limit n/l of one tier.
func ruleOf(name string, tier quota.Tier, set ...func(*quota.Limit)) quota.Limit {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: name}}
	l.SetFirst(tier)
	for _, f := range set {
		f(&l)
	}
	return l
}

// perHour is a bucket that gains next to nothing during a test.
func perHour(burst int64) quota.Tier {
	return quota.Tier{Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: burst}
}

func hard(l *quota.Limit)     { l.Ceiling = quota.Hard }
func atLeader(l *quota.Limit) { l.Decide = quota.AtLeader }

func key(name, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: name}, Key: k}
}

func ask(l quota.LimitName, key string, cost int64) quota.Request {
	return quota.Request{Key: quota.Key{LimitName: l, Key: key}, Cost: cost, MaxWait: quota.LimitsWait}
}

// TestUndoIsVoid: a charge of a window or an epoch that has ended is not given back to the next.
func TestUndoIsVoid(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed"} {
		r := newRig(t, Config{})
		tier := perHour(20)
		if kind == "fixed" {
			tier = quota.Window(quota.FixedWindow, 20, time.Minute)
		}
		r.limits(ruleOf("l", tier))
		n := key("l", "k").LimitName
		var c Call
		c.Reset([]quota.Request{ask(n, "k", 5)}, make([]quota.Decision, 1))
		c.Final = true
		if !r.Decide(r.clock, &c) {
			t.Fatal("refused")
		}
		r.idle(15 * tokens)
		r.now = r.now.Add(2 * time.Minute)
		r.check(n, "k", 7) // a new epoch, a new window
		c.undo(0)
		e := r.collect().Entries[0]
		if got := e.Used + e.Overdrawn - e.Before; got < 7*tokens && e.Used+e.Overdrawn < 7*tokens {
			t.Errorf("%s: %d used after the undo of an older charge, want 7 tokens", kind, e.Used+e.Overdrawn)
		}
	}
}

// TestUndoAfterAGrant: a grant of the same window between a charge and its undo does not make the charge permanent.
func TestUndoAfterAGrant(t *testing.T) {
	r := newRig(t, Config{})
	r.limits(ruleOf("l", quota.Window(quota.FixedWindow, 20, time.Hour)))
	n := key("l", "k").LimitName
	window := quota.GrantEntry{Level: 20 * tokens, Free: 20 * tokens, WindowStart: 0, WindowEnd: quota.Time(time.Hour)}
	r.check(n, "k", 1)
	r.answer(r.collect(), window)
	r.check(n, "k", 1)
	rep := r.collect()
	var c Call
	c.Reset([]quota.Request{ask(n, "k", 5)}, make([]quota.Decision, 1))
	c.Final = true
	if !r.Decide(r.clock, &c) {
		t.Fatal("refused")
	}
	g := r.grant(rep, window)
	g.At = g.At.Add(time.Millisecond) // this one took less time, so the offset of the clocks is more exact
	r.Apply(r.now, g)
	c.undo(0)
	r.check(n, "k", 1)
	if e := r.collect().Entries[0]; e.Used+e.Overdrawn != 3*tokens {
		t.Errorf("%d used, want 3 tokens: the 5 were undone", e.Used+e.Overdrawn)
	}
}

// TestUnknownToTheLeader: a leader that has no room for a key, or does not know the limit yet, cannot decide. The
// node decides, as if it could not reach the leader.
func TestUnknownToTheLeader(t *testing.T) {
	r := newRig(t, Config{})
	r.limits(ruleOf("l", perHour(20), atLeader), ruleOf("h", perHour(20), atLeader, hard))
	for name, want := range map[string]quota.Why{"l": quota.WhyLocal, "h": quota.WhyCutOff} {
		var c Call
		c.Reset([]quota.Request{ask(key(name, "").LimitName, "k", 1)}, make([]quota.Decision, 1))
		r.Decide(r.clock, &c)
		c.Answer(quota.Answer{Term: 1, Why: quota.WhyNoLimit})
		r.Decide(r.clock, &c)
		if c.Need != Nothing || c.Out[0].Why != want || c.Out[0].Allowed != (want == quota.WhyLocal) {
			t.Errorf("%s: needs %d, allowed %v, %v; want %v", name, c.Need, c.Out[0].Allowed, c.Out[0].Why, want)
		}
	}
}

// TestGrantOfAnOldWindow: tokens and levels of a window that has ended do not count in the current one.
func TestGrantOfAnOldWindow(t *testing.T) {
	r := newRig(t, Config{})
	l := ruleOf("l", quota.Window(quota.FixedWindow, 10, time.Minute), hard)
	r.limits(l)
	first := quota.Time(time.Minute) * (start / quota.Time(time.Minute))
	grant := func(window quota.Time) quota.GrantEntry {
		return quota.GrantEntry{Tokens: 4 * tokens, Cap: 4 * tokens, Level: 4 * tokens, WindowStart: window, WindowEnd: window.Add(time.Minute)}
	}
	r.check(l.LimitName, "k", 1)
	r.answer(r.collect(), grant(first))
	if held := r.Held(key("l", "k")); held != 4*tokens {
		t.Fatalf("holds %d after a grant of this window, want 4 tokens", held)
	}
	r.check(l.LimitName, "k", 2)
	rep := r.collect()
	late := r.grant(rep, grant(first))
	r.now = first.Add(time.Minute)
	r.check(l.LimitName, "k", 0)
	if held := r.Held(key("l", "k")); held != 0 {
		t.Errorf("holds %d in the next window", held)
	}
	r.Apply(r.now, late)
	if held := r.Held(key("l", "k")); held != 0 {
		t.Errorf("holds %d of an old window's grant", held)
	}
	if d := r.check(l.LimitName, "k", 0); d.Remaining != 10 {
		t.Errorf("%d remain of the new window after an old grant, want 10", d.Remaining)
	}
	r.check(l.LimitName, "k", 1)
	r.answer(r.collect(), grant(first.Add(time.Minute)))
	r.want(l.LimitName, 4, true, quota.WhyHeld)
}

// TestResolveAgrees: the table resolves names as quota.Limits does, for any set of limits.
func TestResolveAgrees(t *testing.T) {
	all := []quota.LimitName{
		{Namespace: "n", Limit: "l"}, {Namespace: "n", Limit: quota.Template}, {Namespace: "n", Limit: quota.Default}, quota.Global,
	}
	keys := map[string]string{quota.Template: "l/k"}
	for there := range 1 << len(all) {
		var list []quota.Limit
		want := quota.LimitName{}
		for i, n := range slices.Backward(all) { // the first of them wins
			if there&(1<<i) != 0 {
				want = n
				list = append(list, limit(n, 1, quota.Soft))
			}
		}
		r := newRig(t, Config{})
		r.limits(list...)
		set, err := quota.NewLimits(1, list)
		if err != nil {
			t.Fatal(err)
		}
		wantKey := "k"
		if k, ok := keys[want.Limit]; ok {
			wantKey = k
		}
		s, key := r.table.resolve(all[0], "k")
		l, byLimits := set.Resolve(all[0], "k")
		if want == (quota.LimitName{}) {
			if s != nil || l != nil {
				t.Errorf("found %v and %v of nothing", s, l)
			}
			continue
		}
		if s == nil || s.name != want || key != wantKey || l == nil || l.LimitName != want || byLimits != wantKey {
			t.Errorf("of %d: want %v by %q; the table %q, the limits %q", there, want, wantKey, key, byLimits)
		}
	}
}

// TestLevelOfOtherLimits: the leader may have another version of the limits than the member for a moment. Its level
// in a window then stands for the use of the window, and a change that reaches the member earlier or later gives
// nothing twice.
func TestLevelOfOtherLimits(t *testing.T) {
	const small, large, used = 10, 20, 10
	at := func(count int64) quota.Limit {
		return ruleOf("l", quota.Window(quota.SlidingWindow, count, time.Hour))
	}
	for _, tc := range []struct{ member, leader, then, left int64 }{
		{small, large, large, 10},
		{small, large, small, 0},
		{large, small, large, 10},
		{large, small, small, 0},
		{large, large, small, 0},
		{small, small, large, 10},
	} {
		r := newRig(t, Config{})
		r.limits(at(tc.member))
		n := key("l", "k").LimitName
		r.check(n, "k", 1)
		level := quota.Units(tc.leader-used) * tokens
		r.answer(r.collect(), quota.GrantEntry{Level: level, Burst: quota.Units(tc.leader) * tokens, WindowEnd: r.now.Add(time.Hour)})
		r.limits(at(tc.then))
		if d := r.check(n, "k", 0); d.Remaining != tc.left {
			t.Errorf("%+v: %d left", tc, d.Remaining)
		}
	}
}

// oneSlot is a journal for one key.
type oneSlot struct{ is quota.Counts }

func (s *oneSlot) Slot(quota.Key, quota.Seq) JournalSlot           { return s }
func (s *oneSlot) Settled(quota.Key, quota.Incarnation, quota.Seq) {}
func (s *oneSlot) Set(c quota.Counts)                              { s.is = c }
func (s *oneSlot) Free()                                           {}

// TestPeekTakesNothing: a cost of 0 takes nothing of a fraction that is held, also where the node decides alone, for
// a limit that became one of decide: leader after its grant. The journal counts nothing either.
func TestPeekTakesNothing(t *testing.T) {
	var journal oneSlot
	r := newRig(t, Config{Journal: &journal})
	l := ruleOf("l", perHour(20), func(l *quota.Limit) { l.Durable = true })
	r.limits(l)
	r.check(l.LimitName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: tokens / 2, Cap: 20 * tokens, Level: 19 * tokens})
	atLeader(&l)
	r.limits(l)
	before := journal.is
	var c Call
	c.Reset([]quota.Request{ask(l.LimitName, "k", 0)}, make([]quota.Decision, 1))
	c.Alone = true
	if !r.Decide(r.clock, &c) || c.Out[0].Why != quota.WhyLocal || c.Out[0].Remaining != 19 {
		t.Fatalf("%+v; want 19 remaining, as the node knows", c.Out[0])
	}
	if got := r.Held(key("l", "k")); got != tokens/2 {
		t.Errorf("%d units held after the question, want half a token: %d", got, tokens/2)
	}
	if journal.is != before {
		t.Errorf("the journal says %+v after the question, and %+v before", journal.is, before)
	}
}
