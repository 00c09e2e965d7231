package aggregator

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"golang.org/x/time/rate"

	"github.com/quorate/quorate/internal/benchtest"
	"github.com/quorate/quorate/internal/quota"
)

// The benchmarks compare the local decision with golang.org/x/time/rate in the same run: read of-ref, the ratio, not
// the nanoseconds. Every decision is an admission unless the name says otherwise; a run with any other outcome fails.

var benchName = quota.LimitName{Namespace: "n", Limit: "l"}

// benchTable returns a table whose keys hold as many tokens as int64 allows.
func benchTable(b testing.TB, keys []string) (*Aggregator, Clock) {
	b.Helper()
	start := time.Now()
	clock := func() quota.Time { return quota.Time(time.Since(start)) + 1 }
	a := New(Config{Self: "a", Ranges: 1, MaxKeys: 2_000_000}, clock())
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: benchName, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: quota.MaxTokens,
	}})
	if err != nil {
		b.Fatal(err)
	}
	a.SetLimits(clock(), limits)
	a.SetLeader(0, "a", 1)
	for _, k := range keys {
		a.checkNow(clock, benchName, k, 1)
	}
	hold(a, clock())
	return a, clock
}

// hold answers every open key with a grant of many tokens.
func hold(a *Aggregator, now quota.Time) {
	for _, r := range a.Collect(now) {
		g := quota.Grant{Range: r.Range, Term: r.Term, From: "a", To: "a", At: now}
		for _, e := range r.Entries {
			g.Entries = append(g.Entries, quota.GrantEntry{
				Key: e.Key, Epoch: e.Epoch, Seq: 1, Ack: r.Seq, Tokens: quota.FromTokens(1 << 40),
				Level: quota.FromTokens(1 << 41), Lease: 24 * time.Hour, Again: time.Hour,
			})
		}
		a.Apply(now, g)
	}
}

func BenchmarkHeldKey(b *testing.B) {
	a, clock := benchTable(b, []string{"k"})
	var h Handle
	a.Find(&h, benchName, "k")
	l := rate.NewLimiter(1e12, 1<<40)
	ref := passes(b, func(int) bool { return l.Allow() })
	for _, w := range []struct {
		name   string
		target float64
		f      func(int) bool
	}{
		{"Handle", 0.15, func(int) bool { return h.Take(1) }},
		{"TryHeld", 0.5, func(int) bool { _, ok := a.TryHeld(benchName, "k", 1); return ok }},
		{"TrySimple", 0.5, func(int) bool { d, _, _ := a.TrySimple(clock, benchName, "k", 1); return d.Allowed }},
	} {
		b.Run(w.name, func(b *testing.B) { benchtest.Compare(b, w.target, passes(b, w.f), ref) })
	}
}

// passes runs decisions that all admit.
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

// refusingTable returns a table with a key that has nothing left.
func refusingTable() (*Aggregator, Clock) {
	start := time.Now()
	clock := func() quota.Time { return quota.Time(time.Since(start)) + 1 }
	a := New(Config{Self: "a", Ranges: 1}, clock())
	limits, _ := quota.NewLimits(1, []quota.Limit{{LimitName: benchName, Rate: quota.Rate{Tokens: 1, Per: 24 * time.Hour}, Burst: 1}})
	a.SetLimits(clock(), limits)
	a.SetLeader(0, "a", 1)
	a.checkNow(clock, benchName, "k", 1)
	for _, r := range a.Collect(clock()) {
		for _, e := range r.Entries {
			a.Apply(clock(), quota.Grant{Term: 1, From: "a", To: "a", At: clock(), Entries: []quota.GrantEntry{{
				Key: e.Key, Epoch: e.Epoch, Seq: 1, Ack: r.Seq, Lease: 24 * time.Hour, Again: time.Hour,
			}}})
		}
	}
	return a, clock
}

func BenchmarkRefused(b *testing.B) {
	a, clock := refusingTable()
	l := rate.NewLimiter(rate.Every(24*time.Hour), 1)
	l.Allow()
	ref := passes(b, func(int) bool { return !l.Allow() })
	check := func(int) bool {
		d, need, _ := a.TrySimple(clock, benchName, "k", 1)
		return !d.Allowed && need == Nothing
	}
	var h Handle
	a.Find(&h, benchName, "k")
	b.Run("Handle", func(b *testing.B) {
		benchtest.Compare(b, 0.35, passes(b, func(i int) bool { return !h.Take(1) && (h.Refuses(clock, 1) || check(i)) }), ref)
	})
	b.Run("TrySimple", func(b *testing.B) { benchtest.Compare(b, 2.5, passes(b, check), ref) })
}

const millionKeys = 1_000_000

// keyNames returns keys of 24 bytes.
func keyNames(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%017d", i)
	}
	return keys
}

func BenchmarkMillionKeys(b *testing.B) {
	keys := keyNames(millionKeys)
	heap := heapBytes()
	a, clock := benchTable(b, keys)
	perKey := float64(heapBytes()-heap) / millionKeys
	limiters := xsync.NewMap[string, *rate.Limiter]()
	for _, k := range keys {
		limiters.Store(k, rate.NewLimiter(1e12, 1<<40))
	}
	for _, dist := range []string{"zipf", "uniform"} {
		seq := benchtest.NewRequests(keys, dist == "zipf")
		ref := passes(b, func(i int) bool {
			l, ok := limiters.Load(seq.Key(i))
			return ok && l.Allow()
		})
		b.Run(dist+"/TrySimple", func(b *testing.B) {
			benchtest.Compare(b, 0.5, passes(b, func(i int) bool {
				d, _, _ := a.TrySimple(clock, benchName, seq.Key(i), 1)
				return d.Allowed
			}), ref)
			b.ReportMetric(perKey, "heap-B/key")
		})
		b.Run(dist+"/TryHeldAll", func(b *testing.B) { benchtest.Compare(b, 0.3, passesTogether(b, a, &seq), ref) })
	}
}

// passesTogether is passes for batches of checks.
func passesTogether(b *testing.B, a *Aggregator, seq *benchtest.Requests) benchtest.Loop {
	const batch = 128
	return func(from, n int) {
		checks, out := make([]quota.Spend, batch), make([]quota.Decision, batch)
		for i := from; i < from+n; i += batch {
			some := min(batch, from+n-i)
			for j := range some {
				checks[j] = quota.Spend{Key: seq.Key(i + j), Cost: 1}
			}
			a.TryHeldAll(benchName, checks[:some], out[:some])
			for j := range some {
				if !out[j].Allowed {
					b.Error("refused")
					return
				}
			}
		}
	}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
