package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"golang.org/x/time/rate"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/benchtest"
	"github.com/quorate/quorate/internal/quota"
)

// benchClient returns a client whose keys hold as many tokens as possible, but for the used-up limit
// "none", without the reporting goroutine.
func benchClient(tb testing.TB, keys ...string) *Client {
	tb.Helper()
	o := defaultOptions()
	o.maxKeys = 1 << 20
	c, err := assemble(o)
	if err != nil {
		tb.Fatal(err)
	}
	m := newMember(&c.opts, c.clock, &c.stats, &notices{}, nil)
	c.member = m
	l := bucketLimit("l", "1/h", quota.MaxTokens, quota.Soft)
	http := bucketLimit("get", "1/h", quota.MaxTokens, quota.Soft)
	http.Match = &quota.Match{Methods: []string{"GET"}, Path: "/v1/*/items/**"}
	none := bucketLimit("none", "1/24h", 1, quota.Soft)
	limits, err := quota.NewLimits(1, []quota.Limit{l, http, none})
	if err != nil {
		tb.Fatal(err)
	}
	agg := aggregator.New(aggregator.Config{Self: "c", Incarnation: 1, Ranges: 1, MaxKeys: o.maxKeys, Lease: 24 * time.Hour}, c.clock.now())
	agg.SetLimits(c.clock.now(), limits)
	agg.SetLeader(0, "n", 1)
	m.agg.Store(agg)
	m.known.Store(newRules(limits, nil))
	for _, k := range keys {
		agg.TrySimple(c.clock.now, l.LimitName, k, 1)
	}
	agg.TrySimple(c.clock.now, http.LimitName, keys[0], 1)
	for range 2 {
		agg.Draw(c.clock.now, quota.Key{LimitName: none.LimitName, Key: keys[0]}, 1)
	}
	for _, r := range agg.Collect(c.clock.now()) {
		g := quota.Grant{Term: 1, From: "n", To: "c", At: c.clock.now()}
		for _, e := range r.Entries {
			granted := quota.FromTokens(1 << 40)
			if e.Key.LimitName == none.LimitName {
				granted = 0
			}
			g.Entries = append(g.Entries, quota.GrantEntry{
				Key: e.Key, Epoch: e.Epoch, Seq: 1, Ack: r.Seq, Tokens: granted,
				Level: 2 * granted, Lease: 24 * time.Hour, Again: time.Hour,
			})
		}
		agg.Apply(c.clock.now(), g)
	}
	return c
}

// BenchmarkAllow compares decisions in the process with golang.org/x/time/rate in the same run.
// Read of-ref, the ratio, not the nanoseconds.
func BenchmarkAllow(b *testing.B) {
	c := benchClient(b, "k")
	ctx := b.Context()
	handle, keyed := c.Bucket("web", "l", "k"), c.Buckets("web", "l")
	limiter := rate.NewLimiter(rate.Inf/2, 1<<30)
	ref := passes(b, func(int) bool { return limiter.Allow() })
	run := func(name string, target float64, f func(int) bool) {
		f(0)
		b.Run(name, func(b *testing.B) { benchtest.Compare(b, target, passes(b, f), ref) })
	}
	run("Bucket.Allow", 0.15, func(int) bool { return handle.Allow() })
	run("Buckets.Allow", 0.3, func(int) bool { return keyed.Allow("k") })
	run("Bucket.Check", 2, func(int) bool { res, err := handle.Check(ctx, 1); return err == nil && res.Allowed })
	run("Client.Allow", 2, func(int) bool { res, err := c.Allow(ctx, "web", "l", "k", 1); return err == nil && res.Allowed })
	run("Client.AllowHTTP", 5, func(int) bool {
		res, err := c.AllowHTTP(ctx, HTTPCheck{Namespace: "web", Method: "GET", Path: "/v1/acme/items/17", Key: "k"})
		return err == nil && res.Allowed
	})
}

// BenchmarkRefused compares refusals.
func BenchmarkRefused(b *testing.B) {
	c := benchClient(b, "k")
	handle := c.Bucket("web", "none", "k")
	limiter := rate.NewLimiter(rate.Every(24*time.Hour), 1)
	limiter.Allow()
	ref := passes(b, func(int) bool { return !limiter.Allow() })
	run := func(name string, target float64, f func(int) bool) {
		f(0)
		b.Run(name, func(b *testing.B) { benchtest.Compare(b, target, passes(b, f), ref) })
	}
	run("Bucket.Allow", 0.35, func(int) bool { return !handle.Allow() })
	run("Client.Allow", 5, func(int) bool {
		res, err := c.Allow(b.Context(), "web", "none", "k", 1)
		return err == nil && !res.Allowed
	})
}

// BenchmarkMillionKeys compares with one golang.org/x/time/rate limiter per key in a concurrent
// map. Keys have 24 bytes.
func BenchmarkMillionKeys(b *testing.B) {
	keys := make([]string, 1_000_000)
	limiters := xsync.NewMap[string, *rate.Limiter]()
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%017d", i)
		limiters.Store(keys[i], rate.NewLimiter(rate.Inf/2, 1<<30))
	}
	c := benchClient(b, keys...)
	keyed := c.Buckets("web", "l")
	for _, dist := range []string{"zipf", "uniform"} {
		seq := benchtest.NewRequests(keys, dist == "zipf")
		ref := passes(b, func(i int) bool {
			l, ok := limiters.Load(seq.Key(i))
			return ok && l.Allow()
		})
		b.Run(dist+"/Buckets.Allow", func(b *testing.B) {
			benchtest.Compare(b, 0.3, passes(b, func(i int) bool { return keyed.Allow(seq.Key(i)) }), ref)
		})
		b.Run(dist+"/Client.Allow", func(b *testing.B) {
			benchtest.Compare(b, 1, passes(b, func(i int) bool {
				res, err := c.Allow(b.Context(), "web", "l", seq.Key(i), 1)
				return err == nil && res.Allowed
			}), ref)
		})
	}
}

// passes returns a loop of decisions, all of which pass.
func passes(b *testing.B, f func(i int) bool) benchtest.Loop {
	return func(from, n int) {
		for i := from; i < from+n; i++ {
			if !f(i) {
				b.Error("refused")
				return
			}
		}
	}
}

// TestHotPathAllocates checks that a decision from held tokens allocates nothing.
func TestHotPathAllocates(t *testing.T) {
	c := benchClient(t, "k")
	b := c.Bucket("web", "l", "k")
	b.Allow()
	if got := testing.AllocsPerRun(1000, func() { b.Allow() }); got != 0 {
		t.Errorf("%v allocations in Bucket.Allow; want none", got)
	}
	all := c.Buckets("web", "l")
	all.Allow("k")
	if got := testing.AllocsPerRun(1000, func() { all.Allow("k") }); got != 0 {
		t.Errorf("%v allocations in Buckets.Allow; want none", got)
	}
	if n := c.Stats().Decisions[ModeGranted]; n != 2004 {
		t.Errorf("%d decisions counted, want 2004", n)
	}
	if got := testing.AllocsPerRun(1000, func() { c.Allow(t.Context(), "web", "l", "k", 1) }); got > 1 {
		t.Errorf("%v allocations in Client.Allow; want one, of its policies", got)
	}
}
