package aggregator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestTrapGrantOverUnsent: the owner in gubernator broadcasts a state that replaces counts which a peer has not sent
// yet. Here, use since the report that a grant answers stays counted, and is in the next report.
func TestTrapGrantOverUnsent(t *testing.T) {
	for _, n := range []quota.LimitName{softName, hardName} {
		r := newRig(t, Config{})
		r.check(n, "k", 1)
		r.answer(r.collect(), quota.GrantEntry{Tokens: 18 * tokens, Cap: 18 * tokens, Level: 18 * tokens})
		r.want(n, 3, true, quota.WhyHeld)
		rep := r.collect()
		r.want(n, 1, true, quota.WhyHeld) // after the report, before its answer
		r.answer(rep, quota.GrantEntry{Level: 15 * tokens})
		r.want(n, 15, false, quota.WhyOverLimit) // 14 are left of the 15 that the leader reported
		next := r.collect().Entries[0]
		if got := next.Used + next.Overdrawn - rep.Entries[0].Used - rep.Entries[0].Overdrawn; got != tokens {
			t.Errorf("%v: the next report has %d units more, want the token used meanwhile", n, got)
		}
	}
}

// TestTrapBurstInGrants: the broadcast of gubernator turns the limit into the burst, and stamps the state with the
// time of its arrival. A grant carries neither: a limit of 10/s keeps its burst of 20, and a grant that took a second
// counts from the leader's time.
func TestTrapBurstInGrants(t *testing.T) {
	r := newRig(t, Config{})
	r.want(softName, 20, true, quota.WhyEstimate)
	r.answer(r.collect(), quota.GrantEntry{}) // this measures the offset of the clocks
	r.check(softName, "k", 1)
	g := r.grant(r.collect(), quota.GrantEntry{})
	r.now = r.now.Add(1050 * time.Millisecond) // a hundredth may be drift
	r.Apply(r.now, g)
	r.want(softName, 11, false, quota.WhyOverLimit)
	r.want(softName, 10, true, quota.WhyEstimate) // the yield of a second
	r.answer(r.collect(), quota.GrantEntry{})
	r.now = r.now.Add(2500 * time.Millisecond)
	r.want(softName, 20, true, quota.WhyEstimate)
	r.want(softName, 1, false, quota.WhyOverLimit)
}

// together decides requests for the key "k", one token each.
func (r *rig) together(names ...quota.LimitName) (bool, []quota.Decision) {
	var c Call
	var reqs []quota.Request
	for _, n := range names {
		reqs = append(reqs, quota.Request{Key: quota.Key{LimitName: n, Key: "k"}, Cost: 1, MaxWait: quota.LimitsWait})
	}
	c.Reset(reqs, make([]quota.Decision, len(reqs)))
	c.Final = true
	return r.Decide(r.clock, &c), c.Out
}

// trapLimit is a limit that gains nothing during a test.
func trapLimit(name string, burst int64, more ...quota.Tier) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: "n", Limit: name}, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: burst, More: more,
	}
}

// TestTrapRefusedIsCharged: envoyproxy/ratelimit increments a counter that is over its limit, and those of the
// descriptors beside it. Here a refusal charges nothing: neither the limit that refuses, nor its other tiers, its
// parent, or the limits named before and after it in the call. One refusal is enough to refuse the call.
func TestTrapRefusedIsCharged(t *testing.T) {
	r := newRig(t, Config{})
	hour := func(n int64) quota.Tier { return quota.Window(quota.PeriodicRefill, n, time.Hour) }
	small, tiers, child := trapLimit("small", 1), trapLimit("tiers", 50, hour(2)), trapLimit("child", 1)
	child.Parent = "wide"
	r.limits(trapLimit("wide", 50), small, trapLimit("other", 50), tiers, child)
	if ok, _ := r.together(small.LimitName); !ok {
		t.Fatal("the first passes")
	}
	wide, other := trapLimit("wide", 0).LimitName, trapLimit("other", 0).LimitName
	for range 100 {
		if ok, out := r.together(wide, small.LimitName, other); ok || out[1].Allowed || out[1].Why != quota.WhyOverLimit {
			t.Fatalf("passed beside a limit that is used up: %+v", out)
		}
		r.together(small.LimitName)
	}
	for range 10 {
		r.together(tiers.LimitName)
		r.checkNow(r.clock, child.LimitName, "k/u", 1)
	}
	spent := map[quota.Key]quota.Units{}
	for _, rep := range r.Collect(r.now) {
		for _, e := range rep.Entries {
			spent[e.Key] = e.Used + e.Overdrawn
		}
	}
	for k, want := range map[quota.Key]quota.Units{
		{LimitName: wide, Key: "k"}:                                              1, // of child, once
		{LimitName: small.LimitName, Key: "k"}:                                   1,
		{LimitName: other, Key: "k"}:                                             0,
		{LimitName: tiers.LimitName, Key: "k"}:                                   2,
		{LimitName: child.LimitName, Key: "k/u"}:                                 1,
		{LimitName: quota.LimitName{Namespace: "n", Limit: "tiers#2"}, Key: "k"}: 2,
	} {
		if spent[k] != want*tokens {
			t.Errorf("%v: %d units are charged, want %d tokens", k, spent[k], want)
		}
	}
}

// TestTrapCheckThenCharge: envoyproxy/ratelimit can be configured not to increment a counter over its limit, but
// reads and increments in two steps. Here callers on one key, through one limit or two at once, take exactly the
// available tokens.
func TestTrapCheckThenCharge(t *testing.T) {
	for _, two := range []bool{false, true} {
		for range 20 {
			r := newRig(t, Config{})
			a, b := trapLimit("a", 1000, quota.Window(quota.PeriodicRefill, 700, time.Hour)), trapLimit("b", 500)
			names := []quota.LimitName{a.LimitName}
			want := int64(700)
			if two {
				names, want = []quota.LimitName{a.LimitName, b.LimitName}, 500
			}
			r.limits(a, b)
			var passed atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 200 {
						if ok, _ := r.together(names...); ok {
							passed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			// A call holds tokens for a moment that it then gives back, so another may be refused at the same time.
			// When all are done, nothing is missing.
			for ok := true; ok; {
				if ok, _ = r.together(names...); ok {
					passed.Add(1)
				}
			}
			if passed.Load() != want {
				t.Fatalf("two limits %v: %d passed, want %d", two, passed.Load(), want)
			}
		}
	}
}

// TestTrapOneAnswerForTwo: a call that names one leader-decided limit twice asks twice; the answer to a small cost
// does not pay a large one.
func TestTrapOneAnswerForTwo(t *testing.T) {
	r := newRig(t, Config{})
	l := trapLimit("precious", 100)
	l.Decide = quota.AtLeader
	r.limits(l)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	var c Call
	costs := []int64{1, 90, 1}
	var reqs []quota.Request
	for _, cost := range costs {
		reqs = append(reqs, quota.Request{Key: k, Cost: cost, MaxWait: quota.LimitsWait})
	}
	c.Reset(reqs, make([]quota.Decision, len(reqs)))
	var asked []int64
	for !r.Decide(r.clock, &c) {
		if c.Need != Leader || len(asked) > len(costs) {
			t.Fatalf("needs %v after asking for %v: %+v", c.Need, asked, c.Out)
		}
		asked = append(asked, c.Ask.Cost.Tokens())
		c.Answer(quota.Answer{Term: 1, Allowed: true, Why: quota.WhyLeader, Level: 50 * tokens})
	}
	if !slices.Equal(asked, costs) {
		t.Errorf("asked for %v, want %v", asked, costs)
	}
}

// TestTrapAnswerOfAnother: a call names a limit twice and asks the leader about the second only. It charges both
// costs: the answer to the second does not pay the first.
func TestTrapAnswerOfAnother(t *testing.T) {
	r := newRig(t, Config{})
	l := trapLimit("waits", 100)
	l.Rate, l.MaxWait, l.MaxDebt = quota.Rate{Tokens: 10, Per: time.Second}, time.Minute, time.Minute
	r.limits(l)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	var c Call
	reqs := []quota.Request{{Key: k, Cost: 90, MaxWait: quota.LimitsWait}, {Key: k, Cost: 50, MaxWait: quota.LimitsWait}}
	c.Reset(reqs, make([]quota.Decision, len(reqs)))
	c.Final = true
	atLeader := quota.Units(0)
	for range 3 {
		if r.Decide(r.clock, &c) {
			break
		}
		atLeader += c.Ask.Cost
		c.Answer(quota.Answer{Term: 1, Allowed: true, Why: quota.WhyReserved, Wait: 4 * time.Second, Level: 100*tokens - atLeader})
	}
	e := r.collect().Entries[0]
	if got := atLeader + e.Used + e.Overdrawn; got != 140*tokens || c.Need != Nothing {
		t.Errorf("the leader took %d units and %d are reported, want 140 tokens in all: %+v", atLeader, e.Used+e.Overdrawn, c.Out)
	}
}

// oneOverride is the override of one key.
type oneOverride struct{ one *quota.Override }

func (o oneOverride) Override(k quota.Key) *quota.Override {
	if k == o.one.Key {
		return o.one
	}
	return nil
}

// TestTrapOverrideInShadow: envoyproxy/ratelimit enforces an override of a rule in shadow mode. Here an override
// changes the amount, never the enforcement.
func TestTrapOverrideInShadow(t *testing.T) {
	for _, c := range []struct {
		name        string
		enforcement quota.Enforcement
		why         quota.Why
		over        quota.Override
	}{
		{"stricter", quota.Shadow, quota.WhyOverLimit, quota.Override{Burst: 1}},
		{"a ban", quota.Shadow, quota.WhyBanned, quota.Override{Burst: -1, Class: quota.Banned}},
		{"scaled", quota.Shadow, quota.WhyOverLimit, quota.Override{Burst: -1, Scale: quota.Million / 10}},
		{"a ban of what is off", quota.Off, quota.WhyNotEnforced, quota.Override{Burst: -1, Class: quota.Banned}},
	} {
		l := trapLimit("l", 10)
		l.Enforcement = c.enforcement
		c.over.Key = quota.Key{LimitName: l.LimitName, Key: "k"}
		r := newRig(t, Config{Overrides: oneOverride{&c.over}})
		r.limits(l)
		r.together(l.LimitName)
		if ok, out := r.together(l.LimitName); !ok || out[0].Why != c.why || out[0].Shadow != (c.enforcement == quota.Shadow) {
			t.Errorf("%s: %+v; want it to pass, saying %v", c.name, out[0], c.why)
		}
	}
}

// TestTrapJoinedKeys: envoyproxy/ratelimit joins keys and values with "_", so that a_b and c collide with a and b_c.
// Here every pair of a name and a key, and of a parent's key, has its own bucket: each is used up once,
// independently.
func TestTrapJoinedKeys(t *testing.T) {
	r := newRig(t, Config{})
	template := trapLimit(quota.Template, 1)
	r.limits(template, trapLimit("a", 1), trapLimit("a_b", 1, quota.Window(quota.FixedWindow, 1, time.Hour)))
	names := []string{"a", "a_b", "x", "x_y", "x.y", "x-y", "y", "X"}
	keys := []string{"a", "b", "*", "b_c", "c", "a/b", "b/c", "a/b/c", "/", "//", "/a", "a/", "a#2", "#2", "x/y", "y/", "a:b", "a\x00b", "\x00", "a b", "x|y", "%2f", "a%2fb"}
	for _, n := range names {
		for _, k := range keys {
			name := quota.LimitName{Namespace: "n", Limit: n}
			if d := r.checkNow(r.clock, name, k, 1); !d.Allowed {
				t.Errorf("%v, key %q: somebody else has used it: %v", name, k, d.Why)
			}
			if d := r.checkNow(r.clock, name, k, 1); d.Allowed {
				t.Errorf("%v, key %q: passes twice", name, k)
			}
		}
	}
	if got, want := r.Len(), len(names)*len(keys)+len(keys); got != want { // a_b has two tiers
		t.Errorf("%d buckets, want %d", got, want)
	}
}

// TestTrapManyNames: quotaservice keeps statistics of every name permanently. Here a million keys and dynamic names
// make as many buckets as max_keys allows; the rest share one bucket of each limit.
func TestTrapManyNames(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine asks a million times; left out by -short")
	}
	const most = 1000
	r := newRig(t, Config{MaxKeys: most})
	template := limit(quota.LimitName{Namespace: "n", Limit: quota.Template}, 20, quota.Hard)
	r.limits(template, limit(softName, 20, quota.Soft))
	beyond := 0
	for i := range 1_000_000 {
		n, key := softName, fmt.Sprint("key", i)
		if i%2 == 0 {
			n, key = quota.LimitName{Namespace: "n", Limit: key}, "*"
		}
		d := r.checkNow(r.clock, n, key, 1)
		if i >= most && d.Allowed {
			beyond++
		}
	}
	if beyond > 20 { // the burst of the shared bucket
		t.Errorf("%d keys beyond pass; want at most 20", beyond)
	}
	if n := r.Len(); n < most-most/16 || n > most || len(r.entries()) != 2 {
		t.Errorf("%d buckets and %d limits are kept; want about %d and 2", n, len(r.entries()), most)
	}
	for n := range r.entries() {
		if strings.HasPrefix(n.Limit, "key") {
			t.Errorf("a limit is kept for the name %s", n.Limit)
		}
	}
}

// TestTrapStuckReaper: a key that takes a year to be full again stays, and does not keep the idle keys behind it,
// which are full: they are dropped, and a template whose max_keys they filled has room again.
func TestTrapStuckReaper(t *testing.T) {
	r := newRig(t, Config{Idle: time.Minute})
	year, template := trapLimit("year", 10), limit(quota.LimitName{Namespace: "n", Limit: quota.Template}, 20, quota.Soft)
	year.Rate.Per = 365 * 24 * time.Hour
	template.MaxKeys = 5000
	r.limits(year, template)
	for i := range 10 {
		r.check(year.LimitName, fmt.Sprint("first", i), 10)
	}
	r.idle(0)
	for i := range 2 * template.MaxKeys {
		r.check(softName, strconv.FormatInt(i, 10), 1)
	}
	r.idle(20 * tokens)
	if r.check(softName, "one more", 1); r.bucketOf(template.LimitName, "soft/one more") != nil {
		t.Fatal("there is one more than max_keys")
	}
	r.now = r.now.Add(time.Hour)
	for range 3 { // a bounded part each time
		r.Sweep(r.now)
	}
	if r.Len() != 10 {
		t.Errorf("%d keys, want the ten that are not full", r.Len())
	}
	if r.check(softName, "one more", 1); r.bucketOf(template.LimitName, "soft/one more") == nil {
		t.Error("there is no room for a new key after the sweep")
	}
}
