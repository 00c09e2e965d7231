package aggregator

import (
	"runtime"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const memoryKeys = 200_000

// BenchmarkMemory says what a key of 24 bytes takes while it is open, and after it was
// used once, reported and closed and is not full again; and how long a garbage
// collection takes that is forced then. Targets: 100 bytes when idle; 30 ms for a
// million keys.
func BenchmarkMemory(b *testing.B) {
	for _, w := range []struct {
		name   string
		closed bool
	}{{"open", false}, {"idle", true}} {
		b.Run(w.name, func(b *testing.B) {
			keys := keyNames(memoryKeys)
			before := heapBytes()
			a, clock := benchTable(b, keys)
			if w.closed {
				closeAll(b, a, clock())
			}
			perKey := float64(heapBytes()-before) / memoryKeys
			took := time.Duration(0)
			for b.Loop() {
				start := time.Now()
				runtime.GC()
				took += time.Since(start)
			}
			b.ReportMetric(perKey, "B/key")
			b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "gc-ms")
			runtime.KeepAlive(a)
			runtime.KeepAlive(keys)
		})
	}
}

// closeAll lets time pass until every key has closed.
func closeAll(b *testing.B, a *Aggregator, now quota.Time) {
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		for _, r := range a.Collect(now) {
			g := quota.Grant{Range: r.Range, Term: r.Term, From: "a", To: "a", At: now}
			for _, e := range r.Entries {
				g.Entries = append(g.Entries, quota.GrantEntry{
					Key: e.Key, Epoch: e.Epoch, Seq: e.Applied + 1, Ack: r.Seq, Lease: time.Hour, Again: time.Hour,
					Level: quota.FromTokens(1 << 41), Closed: e.Final,
				})
			}
			a.Apply(now, g)
		}
		if a.Quiet() {
			a.Sweep(now)
			return
		}
	}
	b.Fatal("keys stay open")
}
