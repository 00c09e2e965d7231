package aggregator

import (
	"runtime"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// BenchmarkMemory measures the memory of a key of 24 bytes while it is open, and after it was used once, reported,
// closed and is not full again; and the duration of a forced garbage collection then. The callers' own keys are not
// in the heap then. Targets for a million keys: 100 bytes when idle; 30 ms.
func BenchmarkMemory(b *testing.B) {
	for _, w := range []struct {
		name   string
		keys   int
		closed bool
	}{{"open/200k", 200_000, false}, {"idle/200k", 200_000, true}, {"open/1M", millionKeys, false}, {"idle/1M", millionKeys, true}} {
		b.Run(w.name, func(b *testing.B) {
			before := heapBytes()
			var a *Aggregator
			if w.closed {
				a = idleTable(b, w.keys)
			} else {
				a, _ = benchTable(b, keyNames(w.keys))
			}
			perKey := float64(heapBytes()-before) / float64(w.keys)
			took := time.Duration(0)
			for b.Loop() {
				start := time.Now()
				runtime.GC()
				took += time.Since(start)
			}
			b.ReportMetric(perKey, "B/key")
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "gc-ms")
			runtime.KeepAlive(a)
		})
	}
}

// idleTable returns a table whose keys were opened and closed, one part after the other.
func idleTable(b testing.TB, n int) *Aggregator {
	b.Helper()
	a, clock := benchTable(b, nil)
	now := clock()
	for left := keyNames(n); len(left) > 0; left = left[min(len(left), 100_000):] {
		for _, k := range left[:min(len(left), 100_000)] {
			a.checkNow(func() quota.Time { return now }, benchName, k, 1)
		}
		now = closeAll(b, a, now)
	}
	return a
}

// closeAll advances the clock until every key is closed and compact.
func closeAll(b testing.TB, a *Aggregator, now quota.Time) quota.Time {
	b.Helper()
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		for _, r := range a.Collect(now) {
			g := quota.Grant{Range: r.Range, Term: r.Term, From: "a", To: "a", At: now}
			for i, e := range r.Entries {
				g.Entries = append(g.Entries, quota.GrantEntry{
					Line: uint32(i + 1), Seq: e.Applied + 1, Ack: r.Seq, Lease: time.Hour, Again: time.Hour,
					Level: quota.FromTokens(1 << 41), Closed: e.Final,
				})
			}
			a.Apply(now, g)
		}
		a.Sweep(now)
	}
	if !a.Quiet() || len(a.idle) > 0 || a.table.compact.size.Load() != int64(a.Len()) {
		b.Fatal("keys stay open")
	}
	return now
}

// TestBytesPerKey: an unused key takes little more than its name, whatever it took before.
func TestBytesPerKey(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	const n = 50_000
	before := heapBytes()
	a := idleTable(t, n)
	got := float64(heapBytes()-before) / n
	t.Logf("%.0f bytes a key", got)
	if got > 130 {
		t.Errorf("%.0f bytes for a key of 24 that is not in use; want at most 130", got)
	}
	runtime.KeepAlive(a)
}
