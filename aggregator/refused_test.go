package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRefusalThatMayNotHold: a leader refuses a cost that the next grant may admit, because it does not know of
// tokens that callers gave back here, or because members hold the missing tokens. The call waits for that grant, and
// reports cancel the request, so that the leader does not count its refusal.
func TestRefusalThatMayNotHold(t *testing.T) {
	for name, c := range map[string]struct {
		back int64
		why  quota.Why
		need Need
	}{
		"tokens were given back":   {5, quota.WhyOverLimit, Grant},
		"members hold the tokens":  {0, quota.WhyNotHeld, Grant},
		"the limit is used up":     {0, quota.WhyOverLimit, Nothing},
		"given back, held as well": {5, quota.WhyNotHeld, Grant},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Nodes: many})
			first := &Call{}
			first.Reset([]quota.Request{{Key: quota.Key{LimitName: hardName, Key: "k"}, Cost: 5}}, make([]quota.Decision, 1))
			if r.Decide(r.clock, first); first.Need != Leader {
				t.Fatalf("need %v of a fresh key, want the leader", first.Need)
			}
			first.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: quota.FromTokens(15), Term: 1})
			if !r.Decide(r.clock, first) {
				t.Fatalf("refused what the leader admitted: %+v", first.Out[0])
			}
			if c.back > 0 {
				r.Refund(r.clock, hardName, "k", c.back)
			}
			call := &Call{}
			call.Reset([]quota.Request{{Key: quota.Key{LimitName: hardName, Key: "k"}, Cost: 9}}, make([]quota.Decision, 1))
			level := quota.FromTokens(5)
			if c.why == quota.WhyNotHeld {
				level = quota.FromTokens(13)
			}
			if r.Decide(r.clock, call); call.Need != Leader {
				t.Fatalf("need %v, want the leader", call.Need)
			}
			asked := call.Ask.ID
			call.Answer(quota.Answer{Why: c.why, Level: level, RetryAfter: 700 * time.Millisecond, Term: 1})
			if r.Decide(r.clock, call); call.Need != c.need {
				t.Fatalf("need %v after the leader's refusal, want %v", call.Need, c.need)
			}
			if c.need == Nothing {
				return
			}
			if r.Decide(r.clock, call); call.Need != c.need { // as a caller does that has begun to wait
				t.Fatalf("need %v the second time, want %v", call.Need, c.need)
			}
			call.Final = true
			if r.Decide(r.clock, call) || call.Out[0].Why != quota.WhyNotHeld {
				t.Errorf("without a grant: %+v, want not_held", call.Out[0])
			}
			if e := r.collect().Entries[0]; len(e.Cancelled) != 1 || e.Cancelled[0] != asked {
				t.Errorf("the report abandons %v, want %v", e.Cancelled, asked)
			}
		})
	}
}

// TestLargeCostsAfterRefunds: calls of one node that cost much, and give a part back, pass if what the leader has, or is
// about to learn of, covers them.
func TestLargeCostsAfterRefunds(t *testing.T) {
	take := func(cost int64) *Call {
		c := &Call{}
		c.Reset([]quota.Request{ask(hardName, "k", cost)}, make([]quota.Decision, 1))
		return c
	}
	// A leader has admitted 5 tokens, and granted 14 of the other 15.
	begin := func(t *testing.T, free quota.Units) *rig {
		r := newRig(t, Config{Nodes: many})
		first := take(5)
		r.Decide(r.clock, first)
		first.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 15 * tokens, Term: 1})
		if !r.Decide(r.clock, first) {
			t.Fatalf("refused what the leader admitted: %+v", first.Out[0])
		}
		r.answer(r.collect(), quota.GrantEntry{Tokens: 14 * tokens, Rate: tokens, Cap: 20 * tokens, Level: 15 * tokens, Free: free})
		if d := r.check(hardName, "k", 10); !d.Allowed {
			t.Fatalf("10 of 14 tokens: %+v", d)
		}
		return r
	}
	t.Run("a leader with nothing free hears of a refund at once", func(t *testing.T) {
		r := begin(t, 0)
		r.answer(r.collect(), quota.GrantEntry{Rate: tokens, Cap: 20 * tokens, Level: 5 * tokens})
		began := r.now
		r.Refund(r.clock, hardName, "k", 8)
		for len(r.Collect(r.now)) == 0 {
			r.now = r.now.Add(time.Millisecond)
		}
		if waited := r.now.Sub(began); waited > spacing {
			t.Errorf("reported after %v, want %v at most", waited, spacing)
		}
	})
	t.Run("the leader grants in two parts", func(t *testing.T) {
		r := begin(t, 0)
		r.Refund(r.clock, hardName, "k", 8)
		c := take(13)
		if r.Decide(r.clock, c); c.Need != Grant {
			t.Fatalf("need %v, want a grant", c.Need)
		}
		r.answer(r.collect(), quota.GrantEntry{Tokens: 2 * tokens, Rate: tokens, Cap: 20 * tokens, Level: 13 * tokens, Free: 7 * tokens})
		if r.Decide(r.clock, c) || c.Need == Nothing {
			t.Errorf("refused 13 tokens with 6 held and 7 free: %+v", c.Out[0])
		}
	})
	t.Run("a grant overtakes a refusal", func(t *testing.T) {
		r := begin(t, tokens)
		r.Refund(r.clock, hardName, "k", 8)
		c := take(13)
		if r.Decide(r.clock, c); c.Need != Leader {
			t.Fatalf("need %v, want the leader", c.Need)
		}
		r.answer(r.collect(), quota.GrantEntry{Tokens: 3 * tokens, Rate: tokens, Cap: 20 * tokens, Level: 13 * tokens, Free: 6 * tokens})
		c.Answer(quota.Answer{Why: quota.WhyOverLimit, Level: 5 * tokens, RetryAfter: 800 * time.Millisecond, Term: 1})
		if r.Decide(r.clock, c) || c.Need == Nothing {
			t.Fatalf("refused by an answer from before the refund: %+v", c.Out[0])
		}
		r.answer(r.collect(), quota.GrantEntry{Tokens: 13 * tokens, Rate: tokens, Cap: 20 * tokens, Level: 13 * tokens})
		if !r.Decide(r.clock, c) {
			t.Errorf("refused 13 tokens that are held: %+v", c.Out[0])
		}
	})
}

// TestWantedOnce checks that what a call waits for counts once in what a report wants, on whichever way the call is
// decided first, and if it opens the key.
func TestWantedOnce(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, simple := range []bool{false, true} {
			r := newRig(t, Config{Nodes: many})
			if known {
				r.want(softName, 1, true, quota.WhyEstimate)
				r.answer(r.collect(), quota.GrantEntry{Level: 20 * tokens, Free: 10 * tokens})
			}
			if simple {
				if _, need, _ := r.TrySimple(r.clock, softName, "k", 5); need != Grant {
					t.Fatalf("need %v, want a grant", need)
				}
			}
			var c Call
			c.Reset([]quota.Request{ask(softName, "k", 5)}, make([]quota.Decision, 1))
			for range 2 {
				if r.Decide(r.clock, &c); c.Need != Grant {
					t.Fatalf("need %v, want a grant", c.Need)
				}
			}
			if want := r.collect().Entries[0].Want; want != 5*tokens {
				t.Errorf("known %v, simple %v: the report wants %v, want the cost of the call", known, simple, want)
			}
		}
	}
}

// TestWantedAgain checks that a call counts once in what a report wants, and again after a grant that does not suffice,
// also if it did not wait when that arrived: a batch waits for one of its calls at a time.
func TestWantedAgain(t *testing.T) {
	r := newRig(t, Config{Nodes: many})
	nothing := quota.GrantEntry{Level: 20 * tokens, Free: 10 * tokens}
	r.want(softName, 1, true, quota.WhyEstimate)
	r.answer(r.collect(), nothing)
	var calls [2]Call
	for i := range calls {
		c := &calls[i]
		c.Reset([]quota.Request{ask(softName, "k", 5)}, make([]quota.Decision, 1))
		for range 2 {
			if r.Decide(r.clock, c); c.Need != Grant {
				t.Fatalf("need %v, want a grant", c.Need)
			}
		}
	}
	for round := range 3 {
		rep := r.collect()
		if want := rep.Entries[0].Want; want != 10*tokens {
			t.Errorf("round %d: the report wants %v, want the costs of both calls", round, want)
		}
		r.answer(rep, nothing)
		for i := range calls {
			for range 2 {
				if r.Decide(r.clock, &calls[i]); calls[i].Need != Grant {
					t.Fatalf("need %v after a grant that does not suffice, want another", calls[i].Need)
				}
			}
		}
	}
}

// TestAnswerOvertakesGrant checks that a grant from before a leader's answer, which arrives after it, does not restore
// the level from before: with a level that seems full, a refund would be lost.
func TestAnswerOvertakesGrant(t *testing.T) {
	for _, ahead := range []time.Duration{time.Millisecond, 2 * maxOvertaking} { // or the leader's clock was set back
		r := newRig(t, Config{Nodes: many})
		var c Call
		c.Reset([]quota.Request{ask(hardName, "k", 15)}, make([]quota.Decision, 1))
		if r.Decide(r.clock, &c); c.Need != Leader {
			t.Fatalf("need %v, want the leader", c.Need)
		}
		late := r.grant(r.collect(), quota.GrantEntry{Level: 20 * tokens, Free: 20 * tokens})
		c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 5 * tokens, Term: 1, At: late.At.Add(ahead)})
		if !r.Decide(r.clock, &c) {
			t.Fatalf("refused what the leader admitted: %+v", c.Out[0])
		}
		r.Apply(r.now, late)
		left := r.Refund(r.clock, hardName, "k", 10).Remaining
		if clockWasSet := ahead > maxOvertaking; !clockWasSet && left != 15 || clockWasSet && left != 20 {
			t.Errorf("answered %v after the grant: %d tokens remain", ahead, left)
		}
		r.now = r.now.Add(2 * ahead)
		r.answer(r.collect(), quota.GrantEntry{Level: 12 * tokens})
		if d := r.check(hardName, "k", 0); d.Remaining != 12 {
			t.Errorf("after a newer grant, %d tokens remain; want 12", d.Remaining)
		}
	}
}

// TestAnswerOvertakesTwice checks that a refund counts once if a grant that a leader's answer overtook arrives after it.
func TestAnswerOvertakesTwice(t *testing.T) {
	r := newRig(t, Config{Nodes: many})
	c := callOf(hardName)
	c.Requests[0].Cost = 15
	if r.Decide(r.clock, c); c.Need != Leader {
		t.Fatalf("need %v, want the leader", c.Need)
	}
	late := r.grant(r.collect(), quota.GrantEntry{Level: 20 * tokens, Free: 20 * tokens})
	c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 5 * tokens, Term: 1, At: late.At.Add(time.Millisecond)})
	r.Decide(r.clock, c)
	for _, want := range []int64{11, 17} {
		if left := r.Refund(r.clock, hardName, "k", 6).Remaining; left != want {
			t.Errorf("%d tokens remain; want %d", left, want)
		}
		r.Apply(r.now, late)
	}
	if e := r.collect().Entries[0]; e.Refunded != 12*tokens {
		t.Errorf("%v of 12 refunded tokens are reported", e.Refunded)
	}
}

// TestAnswerOfEndedWindow checks that the answer of a leader whose clock is ahead keeps no grant from the next window, once
// the window has ended here too: the level of the answer is lost with the window.
func TestAnswerOfEndedWindow(t *testing.T) {
	const long = 5 * time.Second
	r, l := newRig(t, Config{Nodes: many}), ruleOf("l", quota.Window(quota.FixedWindow, 10, long), hard)
	r.limits(l)
	begins := start - start%quota.Time(long)
	ends := begins.Add(long)
	r.now = ends.Add(-time.Second)
	r.check(l.LimitName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Level: 9 * tokens, Free: 9 * tokens, WindowStart: begins, WindowEnd: ends})
	r.now = ends.Add(-time.Millisecond)
	c := callOf(l.LimitName)
	c.Requests[0].Cost = 8
	if r.Decide(r.clock, c); c.Need != Leader {
		t.Fatalf("need %v, want the leader", c.Need)
	}
	late := r.grant(r.collect(), quota.GrantEntry{Level: 6 * tokens, WindowStart: ends, WindowEnd: ends.Add(long)})
	late.At = ends
	c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 2 * tokens, Term: 1, WindowStart: ends, At: ends.Add(time.Millisecond)})
	r.Decide(r.clock, c)
	r.now = ends.Add(time.Millisecond)
	r.check(l.LimitName, "k", 0)
	r.Apply(r.now, late)
	if d := r.check(l.LimitName, "k", 0); d.Remaining != 6 {
		t.Errorf("%d tokens remain; want the 6 of the grant", d.Remaining)
	}
}

// TestSpendsHeldFirst checks that a check of a hard limit which costs more than this node holds asks the leader for the
// rest only, and what happens if the leader refuses it or another call spends what was held.
func TestSpendsHeldFirst(t *testing.T) {
	begin := func(t *testing.T) (*rig, *Call) {
		r := newRig(t, Config{Nodes: many})
		r.check(hardName, "k", 1)
		r.answer(r.collect(), quota.GrantEntry{Tokens: 5 * tokens, Cap: 5 * tokens, Level: 16 * tokens, Free: 11 * tokens})
		c := callOf(hardName)
		c.Requests[0].Cost = 9
		if r.Decide(r.clock, c); c.Need != Leader || c.Ask.Cost != 9*tokens || c.Ask.Held != 5*tokens {
			t.Fatalf("need %v, ask %+v; want the leader to book 4 of 9 tokens", c.Need, c.Ask)
		}
		return r, c
	}
	t.Run("admitted", func(t *testing.T) {
		r, c := begin(t)
		c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 12 * tokens, Term: 1})
		if !r.Decide(r.clock, c) || c.Out[0].Remaining != 7 {
			t.Errorf("%+v; want 7 tokens to remain", c.Out[0])
		}
		if e := r.collect().Entries[0]; e.Used != 5*tokens || e.Held != 0 {
			t.Errorf("reported %+v; want 5 used tokens", e)
		}
	})
	t.Run("refused", func(t *testing.T) {
		r, c := begin(t)
		c.Answer(quota.Answer{Why: quota.WhyOverLimit, Level: 7 * tokens, Term: 1, RetryAfter: time.Second})
		if r.Decide(r.clock, c) || c.Need != Nothing {
			t.Errorf("need %v: %+v", c.Need, c.Out[0])
		}
		r.want(hardName, 5, true, quota.WhyHeld)
	})
	t.Run("another call spends it", func(t *testing.T) {
		r, c := begin(t)
		r.want(hardName, 1, true, quota.WhyHeld)
		asked := c.Ask.ID
		c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 12 * tokens, Term: 1})
		if r.Decide(r.clock, c); c.Need != Grant {
			t.Fatalf("need %v, want a grant", c.Need)
		}
		c.Final = true
		if r.Decide(r.clock, c) || c.Out[0].Why != quota.WhyNotHeld {
			t.Errorf("without a grant: %+v, want not_held", c.Out[0])
		}
		if e := r.collect().Entries[0]; e.Used != tokens || len(e.Cancelled) != 1 || e.Cancelled[0] != asked {
			t.Errorf("reported %+v; want request %d to be cancelled", e, asked)
		}
	})
	t.Run("a grant replaces it", func(t *testing.T) {
		r, c := begin(t)
		r.want(hardName, 1, true, quota.WhyHeld)
		c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 12 * tokens, Term: 1})
		r.Decide(r.clock, c)
		r.answer(r.collect(), quota.GrantEntry{Tokens: 4 * tokens, Cap: 5 * tokens, Level: 12 * tokens})
		if !r.Decide(r.clock, c) {
			t.Errorf("need %v: %+v", c.Need, c.Out[0])
		}
		if e := r.collect().Entries[0]; e.Used != 6*tokens || len(e.Cancelled) != 0 {
			t.Errorf("reported %+v; want 6 used tokens", e)
		}
	})
}

// TestPledges checks that calls do not count on the same held tokens, and that no pledge outlasts its decide request.
func TestPledges(t *testing.T) {
	r := newRig(t, Config{Nodes: many})
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 5 * tokens, Cap: 5 * tokens, Level: 16 * tokens, Free: 11 * tokens})
	held := func(reqs ...quota.Request) (*Call, quota.Units) {
		c := &Call{}
		c.Reset(reqs, make([]quota.Decision, len(reqs)))
		if r.Decide(r.clock, c); c.Need != Leader {
			t.Fatalf("need %v, want the leader", c.Need)
		}
		return c, c.Ask.Held
	}
	first, a := held(ask(hardName, "k", 9))
	second, b := held(ask(hardName, "k", 7))
	if a != 5*tokens || b != 0 {
		t.Fatalf("%v and %v of 5 held tokens are pledged", a, b)
	}
	for _, end := range []func(){
		func() { // a check that a Call decides
			first.Reset(nil, nil)
			if _, need, _ := r.TrySimple(r.clock, hardName, "k", 9); need != Leader {
				t.Errorf("need %v, want the leader", need)
			}
		},
		func() { // refused
			first.Answer(quota.Answer{Why: quota.WhyOverLimit, Level: 2 * tokens, Term: 1})
			r.Decide(r.clock, first)
			second.Answer(quota.Answer{Why: quota.WhyOverLimit, Level: 16 * tokens, Term: 1})
			r.Decide(r.clock, second)
		},
		func() { // nobody answered
			first.Alone, first.Final = true, true
			r.Decide(r.clock, first)
		},
		func() { first.Reset(nil, nil) }, // given up
	} {
		end()
		again, a := held(ask(hardName, "k", 9))
		if a != 5*tokens {
			t.Fatalf("%v of 5 held tokens are pledged; want all", a)
		}
		first = again
	}
}

// TestSeveralAskForAll checks that a call of two limits, both of whose leaders admit it, passes, although the node returns
// what it held of the first limit before the second leader answers.
func TestSeveralAskForAll(t *testing.T) {
	other := quota.LimitName{Namespace: "n", Limit: "other"}
	r := newRig(t, Config{Nodes: many})
	r.limits(limit(softName, 20, quota.Soft), limit(hardName, 20, quota.Hard), limit(other, 20, quota.Hard))
	r.check(hardName, "k", 1)
	r.check(other, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 5 * tokens, Cap: 5 * tokens, Level: 16 * tokens, Free: 11 * tokens})
	c := callOf(hardName, other)
	for i := range c.Requests {
		c.Requests[i].Cost = 9
	}
	for _, asked := range []quota.LimitName{hardName, other} {
		if r.Decide(r.clock, c); c.Need != Leader || c.Ask.Key.LimitName != asked {
			t.Fatalf("need %v: %+v; want the leader of %v", c.Need, c.Ask, asked)
		}
		if asked == other {
			r.now = r.now.Add(200 * time.Millisecond)
			r.collect()
		}
		c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 7 * tokens, Term: 1})
	}
	if !r.Decide(r.clock, c) {
		t.Errorf("need %v: %+v", c.Need, c.Out)
	}
}

// TestMissedGrant checks that a call asks, and has the node report, after a grant without free tokens that follows a
// missed one: the leader counts the tokens of that one as held here.
func TestMissedGrant(t *testing.T) {
	r := newRig(t, Config{Nodes: many})
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: tokens, Cap: 20 * tokens, Level: 20 * tokens, Free: 19 * tokens})
	r.want(hardName, 1, true, quota.WhyHeld)
	rep := r.collect()
	r.grant(rep, quota.GrantEntry{Tokens: 15 * tokens, Cap: 20 * tokens, Level: 19 * tokens})
	r.answer(rep, quota.GrantEntry{Tokens: 4 * tokens, Cap: 20 * tokens, Level: 19 * tokens})
	c := callOf(hardName)
	c.Requests[0].Cost = 9
	if r.Decide(r.clock, c); c.Need != Leader {
		t.Fatalf("need %v: %+v; want the leader", c.Need, c.Out[0])
	}
	began := r.now
	if e := r.collect().Entries[0]; e.Applied != r.grants || e.Held != 4*tokens || r.now.Sub(began) > 2*spacing {
		t.Errorf("reported %+v after %v; want what is held at once", e, r.now.Sub(began))
	}
}

// TestAnswerIncludesReports checks that use and refunds count once if a leader's answer, whose level includes them, overtakes
// the grant that says so. With a level that seems full, the next refund would be lost.
func TestAnswerIncludesReports(t *testing.T) {
	r := newRig(t, Config{Nodes: many})
	r.check(hardName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Tokens: 12 * tokens, Cap: 20 * tokens, Level: 20 * tokens, Free: 8 * tokens})
	r.want(hardName, 12, true, quota.WhyHeld)
	r.Refund(r.clock, hardName, "k", 10)
	late := r.grant(r.collect(), quota.GrantEntry{Level: 18 * tokens})
	c := callOf(hardName)
	c.Requests[0].Cost = 9
	if r.Decide(r.clock, c); c.Need != Leader {
		t.Fatalf("need %v, want the leader", c.Need)
	}
	c.Answer(quota.Answer{Allowed: true, Why: quota.WhyLeader, Level: 9 * tokens, Term: 1, At: late.At.Add(time.Millisecond), Epoch: late.Entries[0].Epoch, Used: 12 * tokens, Refunded: 10 * tokens})
	if !r.Decide(r.clock, c) || c.Out[0].Remaining != 9 {
		t.Errorf("%+v; want 9 tokens to remain", c.Out[0])
	}
	if left := r.Refund(r.clock, hardName, "k", 8).Remaining; left != 17 {
		t.Errorf("%d tokens remain after a refund of 8, want 17", left)
	}
	r.Apply(r.now, late)
	if e := r.collect().Entries[0]; e.Refunded != 18*tokens {
		t.Errorf("%v of 18 refunded tokens are reported", e.Refunded)
	}
}
