package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// BenchmarkAccounts measures operations on three nodes with real logs. The disk's fsync
// latency is reported beside them: without batching, an operation waits for a few fsyncs.
//
//	go test ./cluster -run xxx -bench Accounts -benchtime 3s
func BenchmarkAccounts(b *testing.B) {
	const ranges = 6
	c := newThreeNodes(b, ranges)
	fsync := fsyncTime(b, c.dir)
	for _, bc := range []struct {
		name    string
		ranges  int // over which the operations are spread
		callers int
		ops     int // per call
		cross   bool
	}{
		{"one range/single caller", 1, 1, 1, false},
		{"one range/64 callers", 1, 64, 1, false},
		{"one range/512 callers", 1, 512, 1, false},
		{"one range/64 callers/20 ops", 1, 64, 20, false},
		{"all ranges/512 callers", ranges, 512, 1, false},
		{"all ranges/64 callers/20 ops", ranges, 64, 20, false},
		{"two ranges atomically/single caller", 2, 1, 2, true},
		{"two ranges atomically/64 callers", ranges, 64, 2, true},
	} {
		b.Run(bc.name, func(b *testing.B) {
			var calls atomic.Int64
			nodes := c.running()
			var wg sync.WaitGroup
			start := time.Now()
			for w := range bc.callers {
				wg.Go(func() {
					ops := benchOps(b, w, bc.ranges, ranges, bc.ops, bc.cross)
					for i := calls.Add(1); i <= int64(b.N); i = calls.Add(1) {
						out, err := nodes[w%3].ApplyOps(b.Context(), account.Caller{By: "bench"}, fmt.Sprint(b.Name(), b.N, i), time.Minute, ops)
						if err != nil || (out.Code != account.Done && out.Code != account.Repeated) {
							b.Errorf("%+v, %v", out.Code, err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*bc.ops)/time.Since(start).Seconds(), "ops/s")
			b.ReportMetric(float64(fsync.Microseconds()), "fsync-µs")
		})
	}
	b.Run("read one range/64 readers", func(b *testing.B) {
		id := accountIn(b, 0, ranges, 0)
		var calls atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for w := range 64 {
			wg.Go(func() {
				for calls.Add(1) <= int64(b.N) {
					if _, _, err := c.running()[w%3].GetAccounts(b.Context(), []account.ID{id}, false); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "reads/s")
	})
}

// benchOps returns the operations of a caller on its own accounts.
func benchOps(b *testing.B, caller, used, ranges, count int, cross bool) []account.Op {
	b.Helper()
	var ops []account.Op
	for i := range count {
		r := caller % used
		if cross {
			r = (caller + i) % used
		}
		ops = append(ops, create(accountIn(b, quota.RangeID(r), ranges, caller*100+i), int64(i)))
	}
	return ops
}

// fsyncTime returns the median time of a small write with its fsync.
func fsyncTime(tb testing.TB, dir string) time.Duration {
	tb.Helper()
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var took [51]time.Duration
	for i := range took {
		start := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			tb.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			tb.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took[:])
	return took[len(took)/2]
}
