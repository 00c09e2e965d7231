package aggregator

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"golang.org/x/time/rate"

	"github.com/quorate/quorate/internal/quota"
)

// The benchmarks compare the local decision with golang.org/x/time/rate in the
// same run: read the ratios, not the nanoseconds. Every decision is an allow
// unless the name says otherwise; a run in which one is not fails.

var benchName = quota.LimitName{Namespace: "n", Limit: "l"}

// benchTable returns a table whose keys hold as many tokens as int64 allows.
func benchTable(b *testing.B, keys []string) (*Aggregator, Clock) {
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
		a.Check(clock, benchName, k, 1)
	}
	hold(a, clock())
	return a, clock
}

// hold answers every open key with a grant of plenty.
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

// run calls f from all procs; f gets a number that differs between goroutines.
func run(b *testing.B, f func(i int) bool) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(1 << 16); pb.Next(); i++ {
			if !f(i) {
				b.Error("refused")
				return
			}
		}
	})
}

func BenchmarkHeldKey(b *testing.B) {
	b.Run("quorate-Allow", func(b *testing.B) {
		a, clock := benchTable(b, []string{"k"})
		run(b, func(int) bool { return a.Allow(clock, benchName, "k", 1) })
	})
	b.Run("quorate-Check", func(b *testing.B) {
		a, clock := benchTable(b, []string{"k"})
		run(b, func(int) bool { return a.Check(clock, benchName, "k", 1).Allowed })
	})
	b.Run("x-time-rate", func(b *testing.B) {
		l := rate.NewLimiter(1e12, 1<<40)
		run(b, func(int) bool { return l.Allow() })
	})
}

func BenchmarkRefused(b *testing.B) {
	b.Run("quorate-Check", func(b *testing.B) {
		start := time.Now()
		clock := func() quota.Time { return quota.Time(time.Since(start)) + 1 }
		a := New(Config{Self: "a", Ranges: 1}, clock())
		limits, _ := quota.NewLimits(1, []quota.Limit{{LimitName: benchName, Rate: quota.Rate{Tokens: 1, Per: 24 * time.Hour}, Burst: 1}})
		a.SetLimits(clock(), limits)
		a.Check(clock, benchName, "k", 1)
		run(b, func(int) bool { return !a.Check(clock, benchName, "k", 1).Allowed })
	})
	b.Run("x-time-rate", func(b *testing.B) {
		l := rate.NewLimiter(rate.Every(24*time.Hour), 1)
		l.Allow()
		run(b, func(int) bool { return !l.Allow() })
	})
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

// sequence draws requests beforehand; the key bytes are not those in the table.
func sequence(keys []string, zipf bool) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(rng, 1.1, 1, uint64(len(keys)-1))
	out := make([]string, 1<<18)
	for i := range out {
		n := rng.IntN(len(keys))
		if zipf {
			n = int(z.Uint64())
		}
		out[i] = string([]byte(keys[n]))
	}
	return out
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
		seq := sequence(keys, dist == "zipf")
		b.Run(dist+"/quorate-Allow", func(b *testing.B) {
			run(b, func(i int) bool { return a.Allow(clock, benchName, seq[i&(1<<18-1)], 1) })
			b.ReportMetric(perKey, "heap-B/key")
		})
		b.Run(dist+"/x-time-rate+xsync", func(b *testing.B) {
			run(b, func(i int) bool {
				l, ok := limiters.Load(seq[i&(1<<18-1)])
				return ok && l.Allow()
			})
		})
	}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
