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
// them.
func reported(tb testing.TB, keys int, ceiling quota.Ceiling) *Ledger {
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
	if l.Len() != keys {
		tb.Fatalf("%d accounts of %d keys", l.Len(), keys)
	}
	return l
}

// heap is the size of live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// memoryOf is the memory that a ledger takes for each of n keys.
func memoryOf(tb testing.TB, keys int, ceiling quota.Ceiling) float64 {
	tb.Helper()
	before := heap()
	l := reported(tb, keys, ceiling)
	after := heap()
	runtime.KeepAlive(l)
	return float64(after-before) / float64(keys)
}

// TestMemory compares the memory of a key with ten members with the size of its records: ten
// allocations, with no room for more, and one bucket.
func TestMemory(t *testing.T) {
	for _, tc := range []struct {
		ceiling quota.Ceiling
		most    uintptr // for each member
	}{
		{quota.Soft, unsafe.Sizeof(allocation{})},
		{quota.Hard, unsafe.Sizeof(allocation{}) + unsafe.Sizeof(logged{})},
	} {
		const others = 768 // the key, tables, and unacknowledged grants
		most := 10*float64(tc.most) + float64(unsafe.Sizeof(bucket{})) + others
		got := memoryOf(t, 2000, tc.ceiling)
		t.Logf("%v: %.0f bytes a key, at most %.0f; account %d, member %d", tc.ceiling, got, most, unsafe.Sizeof(bucket{}), tc.most)
		if got > most {
			t.Errorf("%v: %.0f bytes a key with ten members, want at most %.0f", tc.ceiling, got, most)
		}
	}
}

// BenchmarkMemory measures the memory of a key with ten members, and the duration of a garbage
// collection.
func BenchmarkMemory(b *testing.B) {
	const keys = 20_000
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		b.Run(c.String(), func(b *testing.B) {
			before := heap()
			l := reported(b, keys, c)
			size := float64(heap()-before) / keys
			for b.Loop() {
				runtime.GC()
			}
			runtime.KeepAlive(l)
			b.ReportMetric(size, "B/key")
		})
	}
}
