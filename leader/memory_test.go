package leader

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/quorate/quorate/internal/quota"
)

// reported is a ledger to which ten members have reported these keys. Only the first report names
// them. If packed, the log has them, and nobody has used them for some seconds since.
func reported(tb testing.TB, keys int, ceiling quota.Ceiling, packed bool) *Ledger {
	tb.Helper()
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: quota.LimitName{Namespace: "api", Limit: "per_tenant"},
		Rate:      quota.Rate{Tokens: 1_000_000, Per: time.Second}, Burst: 1_000_000, Ceiling: ceiling,
	}})
	if err != nil {
		tb.Fatal(err)
	}
	var members []quota.NodeID
	for m := range 10 {
		members = append(members, quota.NodeID(fmt.Sprintf("n%d", m)))
	}
	now := quota.Time(time.Hour)
	l := New(Config{First: true}, 0, 1, "n0", members, limits, nil, now)
	for k := range keys {
		e := quota.ReportEntry{
			Key:   quota.Key{LimitName: limits.All()[0].LimitName, Key: fmt.Sprintf("tenant-%017d", k)},
			Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token,
		}
		for _, m := range members {
			if _, err := l.Report(now, quota.Report{Term: 1, From: m, Incarnation: 1, Seq: quota.Seq(k + 1), Entries: []quota.ReportEntry{e}}); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for s := quota.Time(0); packed && s < 15; s++ {
		now = now.Add(time.Second)
		l.Sweep(now)
		for len(l.Checkpoint(now, 4096)) > 0 {
			l.Saved(now, l.Written())
		}
		l.TopSince(10, 10)
	}
	if l.Len() != keys {
		tb.Fatalf("%d accounts of %d keys", l.Len(), keys)
	}
	return l
}

// heapBytes is the size of live objects.
func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// memoryOf is the memory that a ledger takes for each of n keys.
func memoryOf(tb testing.TB, keys int, ceiling quota.Ceiling, packed bool) float64 {
	tb.Helper()
	before := heapBytes()
	l := reported(tb, keys, ceiling, packed)
	after := heapBytes()
	runtime.KeepAlive(l)
	return float64(after-before) / float64(keys)
}

// TestMemory compares the memory of a key with ten members, in use, with the size of its records:
// ten allocations, with no room for more, one bucket and its state. Packed, it takes much less.
func TestMemory(t *testing.T) {
	for _, tc := range []struct {
		ceiling quota.Ceiling
		most    uintptr // for each member
		packed  float64
	}{
		{quota.Soft, unsafe.Sizeof(allocation{}), 1000},
		{quota.Hard, unsafe.Sizeof(allocation{}) + unsafe.Sizeof(logged{}) + unsafe.Sizeof(quota.Unacked{}), 1600},
	} {
		const others = 768 // the key, tables, and unacknowledged grants
		records := unsafe.Sizeof(bucket{}) + unsafe.Sizeof(state{})
		most := 10*float64(tc.most) + float64(records) + others
		got, packed := memoryOf(t, 2000, tc.ceiling, false), memoryOf(t, 2000, tc.ceiling, true)
		t.Logf("%v: %.0f bytes a key, at most %.0f; bucket %d, member %d; packed %.0f", tc.ceiling, got, most, records, tc.most, packed)
		if got > most || packed > tc.packed {
			t.Errorf("%v: %.0f bytes a key with ten members, %.0f packed; want at most %.0f and %.0f", tc.ceiling, got, packed, most, tc.packed)
		}
	}
}

// BenchmarkMemory measures the memory of a key with ten members, in use and packed, and the duration of a
// garbage collection.
func BenchmarkMemory(b *testing.B) {
	const keys = 20_000
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		for _, packed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%v/packed=%v", c, packed), func(b *testing.B) {
				before := heapBytes()
				l := reported(b, keys, c, packed)
				size := float64(heapBytes()-before) / keys
				for b.Loop() {
					runtime.GC()
				}
				runtime.KeepAlive(l)
				b.ReportMetric(size, "B/key")
			})
		}
	}
}
