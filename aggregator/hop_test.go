package aggregator

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// many nodes have an equal part of 20 tokens that is too small for their keys to wait for a first grant.
const many = 5

// callOf returns a call about key k of these limits, one token each.
func callOf(names ...quota.LimitName) *Call {
	var reqs []quota.Request
	for _, n := range names {
		reqs = append(reqs, ask(n, "k", 1))
	}
	c := &Call{}
	c.Reset(reqs, make([]quota.Decision, len(reqs)))
	return c
}

// TestLeadersWithoutRoom: of two limits in one call, neither leader has room for the key. Each is asked once, and
// nothing is left to cancel.
func TestLeadersWithoutRoom(t *testing.T) {
	r := newRig(t, Config{})
	r.limits(ruleOf("l", perHour(20), atLeader), ruleOf("m", perHour(20), atLeader))
	one, two := key("l", "").LimitName, key("m", "").LimitName
	c, asked := callOf(one, two), 0
	for !r.Decide(r.clock, c) && c.Need == Leader && asked < 10 {
		asked++
		c.Answer(quota.Answer{Term: 1, Why: quota.WhyNoLimit})
	}
	if asked != 2 || c.Need != Nothing {
		t.Errorf("asked %d times, need %v: %+v", asked, c.Need, c.Out)
	}
	for _, n := range []quota.LimitName{one, two} {
		if b, _ := r.find(quota.Key{LimitName: n, Key: "k"}); b.cancelled.any() {
			t.Errorf("%v: abandons %v, of which the leader has booked nothing", n, b.cancelled.ids)
		}
	}
}

// TestAskAfterWaitInVain: one limit of a call waits for a grant in vain; the other limit asks its leader
// nevertheless.
func TestAskAfterWaitInVain(t *testing.T) {
	r := newRig(t, Config{Nodes: many})
	shadow, enforced := limit(softName, 20, quota.Hard), limit(hardName, 20, quota.Hard)
	shadow.Enforcement = quota.Shadow
	r.limits(shadow, enforced)
	c := callOf(softName, hardName)
	if r.Decide(r.clock, c); c.Need != Leader {
		t.Fatalf("need %v, want the leader", c.Need)
	}
	c.Answer(quota.Answer{Term: 1, Why: quota.WhyNotHeld, Level: 15 * tokens, RetryAfter: 100 * time.Millisecond})
	if r.Decide(r.clock, c); c.Need != Grant {
		t.Fatalf("need %v, want a grant", c.Need)
	}
	c.Final = true
	if r.Decide(r.clock, c); c.Need != Leader || c.Ask.Key.LimitName != hardName {
		t.Fatalf("need %v of %v, want the leader of %v", c.Need, c.Ask.Key, hardName)
	}
	c.Answer(quota.Answer{Term: 1, Allowed: true, Why: quota.WhyLeader, Level: 19 * tokens})
	if !r.Decide(r.clock, c) || !c.Out[0].Shadow || c.Out[1].Why != quota.WhyLeader {
		t.Errorf("decided %+v", c.Out)
	}
}

// TestShadowGivesBack: the leader admits the first tier of a limit in shadow and refuses the second. The call
// passes, and the first tier gets its token back.
func TestShadowGivesBack(t *testing.T) {
	r := newRig(t, Config{Nodes: 5 * many})
	l := limit(hardName, 20, quota.Hard)
	l.More = []quota.Tier{{Rate: quota.Rate{Tokens: 100, Per: time.Minute}, Burst: 50}}
	l.Enforcement = quota.Shadow
	r.limits(l)
	c := callOf(hardName)
	r.Decide(r.clock, c)
	first := c.Ask
	c.Answer(quota.Answer{Term: 1, Allowed: true, Why: quota.WhyLeader, Level: 19 * tokens})
	if r.Decide(r.clock, c); c.Need != Leader || c.Ask.Key == first.Key {
		t.Fatalf("need %v of %v, want the leader of the second tier", c.Need, c.Ask.Key)
	}
	c.Answer(quota.Answer{Term: 1, Why: quota.WhyOverLimit, RetryAfter: time.Second})
	if !r.Decide(r.clock, c) || !c.Out[0].Shadow {
		t.Fatalf("decided %+v", c.Out)
	}
	if b, _ := r.find(first.Key); !b.cancelled.any() || b.cancelled.ids[0] != first.ID {
		t.Errorf("the question about %v is not abandoned", first.Key)
	}
}

// TestRefusedElsewhere: a client whose node has refused a cost does not ask for that cost again before the node's
// retry-after.
func TestRefusedElsewhere(t *testing.T) {
	r := newRig(t, Config{Nodes: many})
	if r.Decide(r.clock, callOf(hardName)) {
		t.Fatal("admitted without a grant")
	}
	r.Refused(r.clock, quota.Key{LimitName: hardName, Key: "k"}, 1, 50*time.Millisecond)
	c := callOf(hardName)
	if r.Decide(r.clock, c); c.Need != Nothing || c.Out[0].Allowed || c.Out[0].RetryAfter < 40*time.Millisecond {
		t.Errorf("need %v, %+v, want a refusal for 50 ms", c.Need, c.Out[0])
	}
	r.now = r.now.Add(51 * time.Millisecond)
	c = callOf(hardName)
	if r.Decide(r.clock, c); c.Need != Leader {
		t.Errorf("need %v after that, want the leader", c.Need)
	}
}

// TestRefusedElsewhereForLong: after a node's refusal, a client refuses with the same retry-after and says that nothing
// remains, although the level of its last grant was higher.
func TestRefusedElsewhereForLong(t *testing.T) {
	for kind, per := range map[quota.Kind]time.Duration{quota.TokenBucket: time.Minute, quota.FixedWindow: 5 * time.Second} {
		r := newRig(t, Config{Nodes: many, Lease: 4 * time.Second})
		l := limit(hardName, 5, quota.Hard)
		l.Kind, l.Decide, l.Rate = kind, quota.Auto, quota.Rate{Tokens: 5, Per: per}
		r.limits(l)
		r.Decide(r.clock, callOf(hardName))
		end := r.now.Add(5 * time.Second)
		r.answer(r.collect(), quota.GrantEntry{Level: 5 * tokens, Again: 100 * time.Millisecond, WindowStart: end.Add(-per), WindowEnd: end})
		r.Refused(r.clock, quota.Key{LimitName: hardName, Key: "k"}, 1, end.Sub(r.now))
		for _, after := range []time.Duration{0, time.Second, time.Second} {
			r.now = r.now.Add(after)
			c := callOf(hardName)
			r.Decide(r.clock, c)
			d := c.Out[0]
			if c.Need != Nothing || d.Allowed || d.Why != quota.WhyOverLimit || d.Remaining != 0 {
				t.Errorf("%v: need %v, %+v; want a refusal", kind, c.Need, d)
			}
			if want := end.Sub(r.now); kind == quota.TokenBucket && (d.RetryAfter.Round(time.Millisecond) != want) {
				t.Errorf("retry after %v; want %v", d.RetryAfter, want)
			}
		}
	}
}

// TestCentral: while the last grant said that the leader decides, checks of a soft key ask it, also when the key was
// closed in between. The node repeats a refusal until the moment that the leader named, and decides from memory while no
// leader answers, or once a grant says otherwise.
func TestCentral(t *testing.T) {
	r := newRig(t, Config{Nodes: 50})
	grant := func(e quota.GrantEntry) {
		r.check(softName, "k", 1)
		rep := r.collect()
		e.Level, e.Again = 5*tokens, 100*time.Millisecond
		r.answer(rep, e)
	}
	need := func(want Need) *Call {
		t.Helper()
		c := callOf(softName)
		if r.Decide(r.clock, c); c.Need != want {
			t.Fatalf("need %v, %+v; want %v", c.Need, c.Out[0], want)
		}
		return c
	}
	grant(quota.GrantEntry{Central: true})
	c := need(Leader)
	c.Answer(quota.Answer{Term: 1, Allowed: true, Why: quota.WhyLeader, Level: 4 * tokens})
	if !r.Decide(r.clock, c) || c.Out[0].Why != quota.WhyLeader || c.Out[0].Remaining != 4 {
		t.Fatalf("decided %+v", c.Out[0])
	}
	c = need(Leader)
	c.Answer(quota.Answer{Term: 1, Why: quota.WhyOverLimit, Level: tokens, RetryAfter: time.Second})
	if r.Decide(r.clock, c) || c.Out[0].Remaining != 0 { // the leader keeps the last token for others
		t.Fatalf("decided %+v", c.Out[0])
	}
	r.now = r.now.Add(500 * time.Millisecond)
	c = need(Nothing)
	if d := c.Out[0]; d.Allowed || d.Why != quota.WhyOverLimit || d.Remaining != 0 || d.RetryAfter != 500*time.Millisecond {
		t.Errorf("half a second later: %+v; want the same refusal", d)
	}
	r.now = r.now.Add(500 * time.Millisecond)
	c = need(Leader)
	c.Alone = true
	if !r.Decide(r.clock, c) || c.Out[0].Why != quota.WhyEstimate {
		t.Errorf("without an answer: %+v; want the estimate", c.Out[0])
	}
	for b := r.bucketOf(softName, "k"); b.phase != closed; r.now = r.now.Add(100 * time.Millisecond) {
		rep := r.collect()
		for _, e := range rep.Entries {
			r.answer(rep, quota.GrantEntry{Level: 5 * tokens, Again: 100 * time.Millisecond, Central: true, Closed: e.Final})
		}
	}
	need(Leader)
	grant(quota.GrantEntry{Tokens: 2 * tokens, Cap: 2 * tokens})
	need(Nothing)
}

// TestFirstGrant: a check of a hard key that has just been opened, or that is used again while it is let go, waits for
// the first grant and asks the leader only if that does not come, or holds too little.
func TestFirstGrant(t *testing.T) {
	begin := func(cfg Config) (*rig, *Call) {
		r := newRig(t, cfg)
		c := callOf(hardName)
		r.Decide(r.clock, c)
		return r, c
	}
	grant := func(r *rig, held quota.Units) {
		r.Apply(r.now, r.grant(r.collect(), quota.GrantEntry{Tokens: held, Cap: held, Level: 20 * tokens, Free: 10 * tokens}))
	}
	t.Run("it holds enough", func(t *testing.T) {
		r, c := begin(Config{})
		if c.Need != Grant || !c.FirstGrant {
			t.Fatalf("need %v, first %v, want the first grant", c.Need, c.FirstGrant)
		}
		grant(r, 5*tokens)
		if !r.Decide(r.clock, c) || c.Out[0].Why != quota.WhyHeld {
			t.Errorf("decided %+v, need %v", c.Out[0], c.Need)
		}
	})
	t.Run("it holds nothing", func(t *testing.T) {
		r, c := begin(Config{})
		grant(r, 0)
		if r.Decide(r.clock, c) || c.Need != Leader || c.FirstGrant {
			t.Errorf("need %v, want the leader", c.Need)
		}
	})
	t.Run("it does not come", func(t *testing.T) {
		r, c := begin(Config{})
		c.Final = true
		if r.Decide(r.clock, c); c.Need != Leader {
			t.Errorf("need %v, want the leader", c.Need)
		}
	})
	t.Run("an equal part is few requests", func(t *testing.T) {
		if _, c := begin(Config{Nodes: many}); c.Need != Leader {
			t.Errorf("need %v, want the leader", c.Need)
		}
	})
	t.Run("the key is let go", func(t *testing.T) {
		r, c := begin(Config{})
		grant(r, 5*tokens)
		r.Decide(r.clock, c)
		r.letGo(3 * time.Second)
		c = callOf(hardName)
		if r.Decide(r.clock, c); c.Need != Grant || !c.FirstGrant {
			t.Errorf("need %v, %+v, want the first grant", c.Need, c.Out[0])
		}
	})
}

// TestLetGoIsNotCutOff: a key that is let go may wait for the log longer than its lease. That is no reason to refuse:
// its leader answers.
func TestLetGoIsNotCutOff(t *testing.T) {
	r := newRig(t, Config{})
	r.Decide(r.clock, callOf(hardName))
	r.Apply(r.now, r.grant(r.collect(), quota.GrantEntry{Tokens: 5 * tokens, Cap: 5 * tokens, Level: 20 * tokens}))
	r.want(hardName, 1, true, quota.WhyHeld)
	r.letGo(5 * time.Second)
	if d := r.check(hardName, "k", 1); d.Why == quota.WhyCutOff {
		t.Errorf("decided %+v while the leader answers", d)
	}
	r.now = r.now.Add(4 * time.Second)
	r.want(hardName, 1, false, quota.WhyCutOff)
}

// letGo passes time until key k of the hard limit is let go, and longer: the leader answers that the log does not have it yet.
func (r *rig) letGo(waits time.Duration) {
	r.t.Helper()
	for end := quota.Time(math.MaxInt64); r.now < end; {
		rep := r.collect()
		g := r.grant(rep, quota.GrantEntry{Level: 20 * tokens})
		if rep.Entries[0].Final {
			end = min(end, r.now.Add(waits))
			g.Entries[0].Closed, g.Entries[0].Again = false, 500*time.Millisecond
		}
		r.Apply(r.now, g)
	}
}
