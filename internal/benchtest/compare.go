package benchtest

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// Loop does n operations, the first of which has the number from. It runs on as many
// goroutines at a time as the benchmark has processors.
type Loop func(from, n int)

// slice is how many operations one turn has: few on one processor, so that the two
// see the same machine; many on several, so that they meet.
func slice(procs int) int {
	if procs == 1 {
		return 1 << 9
	}
	return 1 << 15
}

// Compare runs ours and the reference in turns, b.N operations each, on as many
// threads as there are processors (-cpu). It reports the medians of the processor time
// of one operation, and of the ratio of neighbouring turns: target is what that should
// not exceed, and is shown beside it.
func Compare(b *testing.B, target float64, ours, ref Loop) {
	b.Helper()
	b.ReportAllocs()
	procs := runtime.GOMAXPROCS(0)
	n := slice(procs)
	var t turns
	for from := 0; from == 0 || from < b.N; from += procs * n {
		a, b := timed(procs, from, n, ours), timed(procs, from, n, ref)
		t.ours, t.ref, t.ratio = append(t.ours, a), append(t.ref, b), append(t.ratio, a/b)
	}
	b.ReportMetric(median(t.ours), "cpu-ns/op")
	b.ReportMetric(median(t.ref), "ref-cpu-ns/op")
	b.ReportMetric(median(t.ratio), "of-ref")
	b.ReportMetric(target, "target")
	b.ReportMetric(0, "ns/op") // of both, and of everything else that ran
}

// turns are the figures of every turn, per operation.
type turns struct{ ours, ref, ratio []float64 }

// timed returns the processor time of an operation in one turn, n of them on each of so
// many threads.
func timed(procs, from, n int, f Loop) float64 {
	if procs == 1 {
		return float64(onThread(from, n, f)) / float64(n)
	}
	took := make([]time.Duration, procs)
	var all sync.WaitGroup
	for p := range procs {
		all.Go(func() { took[p] = onThread(from+p*n, n, f) })
	}
	all.Wait()
	sum := time.Duration(0)
	for _, t := range took {
		sum += t
	}
	return float64(sum) / float64(n*procs)
}

func onThread(from, n int, f Loop) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	f(from, n)
	return threadTime() - start
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
