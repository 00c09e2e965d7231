package client

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// benchClient is a client whose keys hold as many tokens as there may be, without
// the goroutine that reports.
func benchClient(tb testing.TB, keys ...string) *Client {
	tb.Helper()
	o := defaultOptions()
	o.maxKeys = 1 << 20
	c, err := assemble(o)
	if err != nil {
		tb.Fatal(err)
	}
	m := newMember(&c.opts, c.clock, &c.stats, nil)
	c.member = m
	l := bucketLimit("l", "1/h", quota.MaxTokens, quota.Soft)
	http := bucketLimit("get", "1/h", quota.MaxTokens, quota.Soft)
	http.Match = &quota.Match{Methods: []string{"GET"}, Path: "/v1/*/items/**"}
	limits, err := quota.NewLimits(1, []quota.Limit{l, http})
	if err != nil {
		tb.Fatal(err)
	}
	agg := aggregator.New(aggregator.Config{Self: "c", Incarnation: 1, Ranges: 1, MaxKeys: o.maxKeys, Lease: 24 * time.Hour}, c.clock.now())
	agg.SetLimits(c.clock.now(), limits)
	agg.SetLeader(0, "n", 1)
	m.agg.Store(agg)
	m.known.Store(newRules(limits))
	for _, k := range keys {
		agg.Check(c.clock.now, l.LimitName, k, 1)
		agg.Check(c.clock.now, http.LimitName, k, 1)
	}
	for _, r := range agg.Collect(c.clock.now()) {
		g := quota.Grant{Term: 1, From: "n", To: "c", At: c.clock.now()}
		for _, e := range r.Entries {
			g.Entries = append(g.Entries, quota.GrantEntry{
				Key: e.Key, Epoch: e.Epoch, Seq: 1, Ack: r.Seq, Tokens: quota.FromTokens(1 << 40),
				Level: quota.FromTokens(1 << 41), Lease: 24 * time.Hour, Again: time.Hour,
			})
		}
		agg.Apply(c.clock.now(), g)
	}
	return c
}

// BenchmarkAllow compares decisions in the process with golang.org/x/time/rate in
// the same run: read the ratios, not the nanoseconds.
func BenchmarkAllow(b *testing.B) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf("user-%d", i)
	}
	c := benchClient(b, append([]string{"k"}, many...)...)
	ctx := b.Context()
	run := func(name string, f func(i int) bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if !f(i) {
						b.Error("refused")
						return
					}
				}
			})
		})
	}
	handle := c.Bucket("web", "l", "k")
	handle.Allow()
	run("handle", func(int) bool { return handle.Allow() })
	limiter := rate.NewLimiter(rate.Inf/2, 1<<30)
	run("x-time-rate", func(int) bool { return limiter.Allow() })
	run("handle/Check", func(int) bool { res, err := handle.Check(ctx, 1); return err == nil && res.Allowed })
	run("Client/one-key", func(int) bool { res, err := c.Allow(ctx, "web", "l", "k", 1); return err == nil && res.Allowed })
	run("Client/10k-keys", func(i int) bool {
		res, err := c.Allow(ctx, "web", "l", many[i*7919%len(many)], 1)
		return err == nil && res.Allowed
	})
	run("Client/http", func(int) bool {
		res, err := c.AllowHTTP(ctx, HTTPCheck{Namespace: "web", Method: "GET", Path: "/v1/acme/items/17", Key: "k"})
		return err == nil && res.Allowed
	})
}

// TestHotPathAllocates: a decision out of what is held allocates nothing.
func TestHotPathAllocates(t *testing.T) {
	c := benchClient(t, "k")
	b := c.Bucket("web", "l", "k")
	b.Allow()
	if got := testing.AllocsPerRun(1000, func() { b.Allow() }); got != 0 {
		t.Errorf("%v allocations in Bucket.Allow; want none", got)
	}
	if n := c.Stats().Decisions[ModeGranted]; n != 1002 {
		t.Errorf("%d decisions counted, want 1002", n)
	}
	if got := testing.AllocsPerRun(1000, func() { c.Allow(t.Context(), "web", "l", "k", 1) }); got > 1 {
		t.Errorf("%v allocations in Client.Allow; want one, of its policies", got)
	}
}
