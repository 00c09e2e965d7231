package aggregator

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// needAsk decides a call about one token until it needs the leader.
func (r *rig) needAsk(name string) *Call {
	r.t.Helper()
	c := &Call{}
	c.Reset([]quota.Request{ask(key(name, "").LimitName, "k", 1)}, make([]quota.Decision, 1))
	if r.Decide(r.clock, c); c.Need != Leader || c.Ask.ID == 0 || c.Ask.From != "a" || c.Ask.Incarnation != 1 {
		r.t.Fatalf("needs %d: %+v", c.Need, c.Ask)
	}
	return c
}

// entry returns the only entry of the next report.
func (r *rig) entry() (quota.Report, quota.ReportEntry) {
	r.t.Helper()
	rep := r.collect()
	if len(rep.Entries) != 1 {
		r.t.Fatalf("%d entries", len(rep.Entries))
	}
	return rep, rep.Entries[0]
}

// TestCancelledAreNamed: reports name cancelled requests until one that names them is answered, also for a key that
// is closed or closing, and not after that.
func TestCancelledAreNamed(t *testing.T) {
	r := newRig(t, Config{})
	r.limits(ruleOf("l", perHour(20), atLeader))
	one, two := r.needAsk("l").Ask, r.needAsk("l").Ask
	if one.ID == two.ID {
		t.Fatalf("two questions, both %d", one.ID)
	}
	named := func(e quota.ReportEntry, want ...quota.Seq) {
		t.Helper()
		if !slices.Equal(e.Cancelled, want) {
			t.Errorf("named %v, want %v", e.Cancelled, want)
		}
	}
	r.Cancel(r.clock, one) // the key is closed: nothing is counted
	lost, e := r.entry()
	named(e, one.ID)
	r.Cancel(r.clock, two)
	_, e = r.entry()
	named(e, one.ID, two.ID)
	r.answer(lost, quota.GrantEntry{Level: 20 * tokens}) // too late: it was repeated since
	again, e := r.entry()
	named(e, one.ID, two.ID)
	three := r.needAsk("l").Ask
	r.Cancel(r.clock, three)
	r.answer(again, quota.GrantEntry{Level: 20 * tokens})
	rep, e := r.entry()
	named(e, three.ID)
	r.answer(rep, quota.GrantEntry{Level: 20 * tokens})

	r.now = r.now.Add(500 * time.Millisecond)
	var final quota.Report // the key closes
	for !e.Final {
		final, e = r.entry()
		named(e)
		if !e.Final {
			r.answer(final, quota.GrantEntry{Level: 20 * tokens})
		}
	}
	four := r.needAsk("l").Ask
	r.Cancel(r.clock, four)
	r.answer(final, quota.GrantEntry{Level: 20 * tokens})
	_, e = r.entry()
	named(e, four.ID)
	if e.Final || e.Epoch == final.Entries[0].Epoch {
		t.Errorf("named in %+v, want a new opening", e)
	}
	r.SetLeader(0, "a", 2) // a new leader receives it too
	if _, e = r.entry(); !slices.Equal(e.Cancelled, []quota.Seq{four.ID}) {
		t.Errorf("the new leader receives %v", e.Cancelled)
	}
}

// TestCancelledAreBounded: of a key's cancelled requests, the oldest 4096 are remembered, and reported 64 at a time.
func TestCancelledAreBounded(t *testing.T) {
	r := newRig(t, Config{})
	r.limits(ruleOf("l", perHour(20), atLeader))
	q := r.needAsk("l").Ask
	for i := range maxCancelled + 10 {
		q.ID = quota.Seq(i + 1)
		if noted := r.Cancel(r.clock, q); noted != (i < maxCancelled) {
			t.Fatalf("question %d: noted %v", i+1, noted)
		}
	}
	began, next := r.now, quota.Seq(1)
	for next <= maxCancelled {
		rep, e := r.entry()
		if n := len(e.Cancelled); n == 0 || n > quota.MaxCancelled || e.Cancelled[0] != next {
			t.Fatalf("named %v, want at most %d from %d on", e.Cancelled, quota.MaxCancelled, next)
		}
		next += quota.Seq(len(e.Cancelled))
		r.answer(rep, quota.GrantEntry{Level: 20 * tokens, Free: 20 * tokens})
	}
	if took := r.now.Sub(began); took > time.Second {
		t.Errorf("all were named after %v, want them one report after the other", took)
	}
}

// TestUnusedAnswer: a leader's admission is either charged by the call or cancelled, on every path through the call.
func TestUnusedAnswer(t *testing.T) {
	for _, tc := range []struct {
		name      string
		meanwhile func(r *rig, c *Call)
		second    quota.LimitName // of the call
		abandoned bool
	}{
		{"used", func(*rig, *Call) {}, key("l", "").LimitName, false},
		{"refused by another", func(*rig, *Call) {}, key("m", "").LimitName, true},
		{"the limit has changed", func(r *rig, _ *Call) { r.limits(ruleOf("l", perHour(20), locally)) }, key("l", "").LimitName, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, Config{})
			r.limits(ruleOf("l", perHour(20), atLeader), ruleOf("m", perHour(20), atLeader))
			c := &Call{}
			c.Reset([]quota.Request{ask(key("l", "").LimitName, "k", 1), ask(tc.second, "k", 1)}, make([]quota.Decision, 2))
			var asked []quota.Seq
			for !r.Decide(r.clock, c) && c.Need == Leader {
				if c.Key.LimitName.Limit == "m" {
					c.Answer(quota.Answer{Term: 1, Why: quota.WhyOverLimit})
					continue
				}
				asked = append(asked, c.Ask.ID)
				c.Answer(quota.Answer{Term: 1, Allowed: true, Why: quota.WhyLeader, Level: 10 * tokens})
				if len(asked) == 1 {
					tc.meanwhile(r, c)
				}
			}
			_, e := r.entry()
			if !tc.abandoned {
				asked = nil
			}
			if !slices.Equal(e.Cancelled, asked) {
				t.Errorf("abandoned %v, want %v", e.Cancelled, asked)
			}
			if c.Out[0].Allowed && tc.abandoned && tc.second.Limit == "l" && e.Used+e.Overdrawn != 2*tokens {
				t.Errorf("charged %d here, want 2 tokens", e.Used+e.Overdrawn)
			}
		})
	}
}
