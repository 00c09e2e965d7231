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

func locally(l *quota.Limit) { l.Decide = quota.Locally }

func key(name, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: name}, Key: k}
}

func ask(l quota.LimitName, key string, cost int64) quota.Request {
	return quota.Request{Key: quota.Key{LimitName: l, Key: key}, Cost: cost, MaxWait: quota.LimitsWait}
}

// interrupted decides a call of a limit and of another, hard one, which admits it or not, and runs f between the two
// charges.
func (r *rig) interrupted(n quota.LimitName, cost int64, admits bool, f func()) {
	r.t.Helper()
	second := ask(hardName, "second", 1)
	if admits {
		second.Key.LimitName = softName
	}
	var c Call
	c.Reset([]quota.Request{ask(n, "k", cost), second}, make([]quota.Decision, 2))
	c.Final = true
	charged := false
	ok := r.Decide(func() quota.Time {
		if b := r.bucketOf(n, "k"); !charged && b != nil && b.undecided > 0 {
			charged = true
			f()
		}
		return r.now
	}, &c)
	if !charged || ok != admits {
		r.t.Fatalf("charged %v; %+v", charged, c.Out)
	}
}

// withSecond returns a rig with these limits and those of the second charge of interrupted.
func withSecond(t *testing.T, limits ...quota.Limit) *rig {
	t.Helper()
	r := newRig(t, Config{})
	r.limits(append(limits, limit(softName, 20, quota.Soft), limit(hardName, 20, quota.Hard))...)
	return r
}

// entryOf returns the next entry about a limit.
func (r *rig) entryOf(n quota.LimitName) quota.ReportEntry {
	r.t.Helper()
	for range 20 {
		rep := r.collect()
		for i := range rep.Entries {
			if rep.Entries[i].Key.LimitName == n {
				return rep.Entries[i]
			}
		}
	}
	r.t.Fatalf("no report about %v", n)
	return quota.ReportEntry{}
}

// TestUndoInTheNextWindow: a charge of a window that has ended is not given back to the next. It counts in neither.
func TestUndoInTheNextWindow(t *testing.T) {
	for kind, tier := range map[string]quota.Tier{
		"bucket": perHour(20), "fixed": quota.Window(quota.FixedWindow, 20, time.Minute), "sliding": quota.Window(quota.SlidingWindow, 20, time.Minute),
	} {
		for _, granted := range []quota.Units{0, 5 * tokens} {
			l := ruleOf("l", tier)
			r := withSecond(t, l)
			if granted > 0 {
				r.check(l.LimitName, "k", 0)
				r.answer(r.collect(), quota.GrantEntry{Level: 20 * tokens, Free: 20 * tokens, Tokens: granted, Cap: granted})
			}
			r.interrupted(l.LimitName, 5, false, func() {
				r.now = r.now.Add(2 * time.Minute)
				r.check(l.LimitName, "k", 7)
			})
			if e := r.entryOf(l.LimitName); e.Used+e.Overdrawn != 7*tokens || e.Before != 0 {
				t.Errorf("%s, %d granted: %d used, %d of it before, want 7 tokens: the 5 were undone", kind, granted, e.Used+e.Overdrawn, e.Before)
			}
			r.now = r.now.Add(200 * time.Millisecond)
			if d := r.check(l.LimitName, "k", 0); d.Remaining > 13 || d.Remaining < 13 && kind != "sliding" {
				t.Errorf("%s, %d granted: %d remain after 7 of 20", kind, granted, d.Remaining)
			}
		}
	}
}

// TestUndoAfterAGrant: a grant of the same window between a charge and its undo does not make the charge permanent.
func TestUndoAfterAGrant(t *testing.T) {
	l := ruleOf("l", quota.Window(quota.FixedWindow, 20, time.Hour))
	r := withSecond(t, l)
	window := quota.GrantEntry{Level: 20 * tokens, Free: 20 * tokens, WindowStart: 0, WindowEnd: quota.Time(time.Hour)}
	r.check(l.LimitName, "k", 1)
	r.answer(r.collect(), window)
	r.check(l.LimitName, "k", 1)
	rep := r.collect()
	r.interrupted(l.LimitName, 5, false, func() {
		g := r.grant(rep, window)
		g.At = g.At.Add(time.Millisecond) // this one took less time, so the offset of the clocks is more exact
		r.Apply(r.now, g)
	})
	r.check(l.LimitName, "k", 1)
	if e := r.entryOf(l.LimitName); e.Used+e.Overdrawn != 3*tokens {
		t.Errorf("%d used, want 3 tokens: the 5 were undone", e.Used+e.Overdrawn)
	}
}

// TestReportOfUndecided: no report contains a charge whose call is not decided yet. The tokens are still held, so the
// leader grants them to nobody else, and the key stays open. Afterwards exactly what passed is reported, also if the
// member has left its leader in the meantime.
func TestReportOfUndecided(t *testing.T) {
	for _, admits := range []bool{false, true} {
		for _, granted := range []quota.Units{0, 3 * tokens, 5 * tokens} {
			for _, leaves := range []bool{false, true} {
				l := ruleOf("l", perHour(20))
				r := withSecond(t, l)
				r.check(l.LimitName, "k", 2)
				r.answer(r.collect(), quota.GrantEntry{Level: 18 * tokens, Free: 18 * tokens, Tokens: granted, Cap: granted})
				final := quota.Units(0)
				r.interrupted(l.LimitName, 5, admits, func() {
					if leaves {
						e := r.Leave(r.now, 0)[0].Entries[0]
						if final = e.Used + e.Overdrawn; final != 2*tokens || !e.Final {
							t.Errorf("%d used by the last report, want 2 tokens", final)
						}
						r.SetLeader(0, "b", 2)
						return
					}
					for range 300 { // long enough to close
						for _, rep := range r.Collect(r.now) {
							for _, e := range rep.Entries {
								if e.Used+e.Overdrawn != 2*tokens || e.Held != granted || e.Final {
									t.Errorf("reported while the call is undecided: %+v", e)
								}
							}
							r.answer(rep, quota.GrantEntry{Level: 18 * tokens})
						}
						r.now = r.now.Add(10 * time.Millisecond)
					}
				})
				want := 2*tokens - final
				if admits {
					want += 5 * tokens
				}
				if leaves {
					r.check(l.LimitName, "k", 1)
					want += tokens
				}
				r.check(l.LimitName, "k", 0)
				for range 100 {
					r.now = r.now.Add(10 * time.Millisecond)
					for _, rep := range r.Collect(r.now) {
						for _, e := range rep.Entries {
							if got := e.Used + e.Overdrawn; e.Key.LimitName == l.LimitName && got != want {
								t.Errorf("admitted %v, %d granted, left %v: %d reported, want %d", admits, granted, leaves, got, want)
							}
						}
					}
				}
				if b := r.bucketOf(l.LimitName, "k"); b.undecided != 0 {
					t.Errorf("%d undecided in the end", b.undecided)
				}
			}
		}
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

// TestEstimateOfAnswers: what the leader has admitted is in its level already, also in the level of a grant that answers an
// earlier report, and for a call of several limits. So a member whose leader has died serves the rest.
func TestEstimateOfAnswers(t *testing.T) {
	for _, several := range []bool{false, true} {
		for _, granted := range []bool{false, true} {
			r := newRig(t, Config{})
			l := ruleOf("l", perHour(20), atLeader, func(l *quota.Limit) { l.Durable = true })
			r.limits(l, limit(softName, 20, quota.Soft))
			answered := func(cost int64, left quota.Units) {
				var c Call
				c.Reset([]quota.Request{ask(l.LimitName, "k", cost), ask(softName, "k", 1)}[:1], make([]quota.Decision, 1))
				if several {
					c.Reset([]quota.Request{ask(l.LimitName, "k", cost), ask(softName, "k", 1)}, make([]quota.Decision, 2))
				}
				c.Final = true
				r.Decide(r.clock, &c)
				c.Answer(quota.Answer{Allowed: true, Report: true, Term: 1, Why: quota.WhyLeader, Level: left * tokens})
				if !r.Decide(r.clock, &c) {
					t.Fatalf("%+v", c.Out)
				}
			}
			answered(3, 17)
			rep := r.collect()
			answered(5, 12)
			if granted {
				r.answer(rep, quota.GrantEntry{Level: 12 * tokens})
			}
			if d := r.check(l.LimitName, "k", 12); !d.Allowed || d.Remaining != 0 {
				t.Errorf("several %v, granted %v: %+v; want the 12 that are left", several, granted, d)
			}
		}
	}
}

// TestHugeAnswers: what the leader has admitted is counted up to the most that a report may carry, so that the key is still
// reported.
func TestHugeAnswers(t *testing.T) {
	r := newRig(t, Config{})
	l := ruleOf("l", quota.Tier{Rate: quota.Rate{Tokens: quota.MaxTokens, Per: time.Second}, Burst: quota.MaxTokens}, atLeader, func(l *quota.Limit) { l.Durable = true })
	r.limits(l)
	for range 3 {
		var c Call
		c.Reset([]quota.Request{ask(l.LimitName, "k", quota.MaxTokens)}, make([]quota.Decision, 1))
		r.Decide(r.clock, &c)
		c.Answer(quota.Answer{Allowed: true, Report: true, Term: 1, Why: quota.WhyLeader})
		r.Decide(r.clock, &c)
	}
	if e := r.bucketOf(l.LimitName, "k").reported(r.now, 1); e.Used != quota.Most || e.Held != 0 {
		t.Errorf("%d used, %d held; want the most, %d, and none", e.Used, e.Held, quota.Most)
	}
}
