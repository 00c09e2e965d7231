package inprocess

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/suite"
)

// loop makes n decisions, starting with number i, and returns how many had the result that the
// group wants. Each subject has its own loop, so that none pays for a call through a function
// value.
type loop func(i, n int) int

// stride is the number of decisions between two readings of the clock.
const stride = 2048

// Measures of a loop.
const (
	cpuTime  = "CPU"  // of the callers' threads, per decision
	allTime  = "all"  // of the process, including background work
	wallTime = "wall" // elapsed time, per decision
	allocs   = "allocs"
)

var loopMeasures = []suite.Measure{{Name: cpuTime, Unit: "ns"}, {Name: wallTime, Unit: "ns"}, {Name: allTime, Unit: "ns"}, {Name: allocs}}

// runner runs a loop in one goroutine per processor.
func runner(f loop) suite.Func {
	return func(ctx context.Context, d time.Duration) (suite.Sample, error) {
		workers := runtime.GOMAXPROCS(0)
		done := make([]work, workers)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all, began := clock(unix.CLOCK_PROCESS_CPUTIME_ID), time.Now()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() { done[w] = play(ctx, f, w<<17, d) })
		}
		wg.Wait()
		wall := time.Since(began)
		all = clock(unix.CLOCK_PROCESS_CPUTIME_ID) - all
		runtime.ReadMemStats(&after)
		return sample(done, wall, all, after.Mallocs-before.Mallocs)
	}
}

// work is the result of one goroutine.
type work struct {
	n, ok int
	cpu   time.Duration
}

func sample(done []work, wall, all time.Duration, mallocs uint64) (suite.Sample, error) {
	var sum work
	for _, w := range done {
		sum.n, sum.ok, sum.cpu = sum.n+w.n, sum.ok+w.ok, sum.cpu+w.cpu
	}
	if sum.ok != sum.n {
		return nil, fmt.Errorf("%d of %d decisions did not come out as the group wants it", sum.n-sum.ok, sum.n)
	}
	n := float64(sum.n)
	perOp := float64(mallocs) / n
	if perOp < 0.01 {
		perOp = 0 // occasional allocations of the runtime itself
	}
	return suite.Sample{
		cpuTime: float64(sum.cpu) / n, wallTime: float64(wall) / n, allTime: float64(all) / n, allocs: perOp,
	}, nil
}

// play locks its thread, so that the thread's processor time is the loop's.
func play(ctx context.Context, f loop, i int, d time.Duration) work {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w work
	cpu, until := clock(unix.CLOCK_THREAD_CPUTIME_ID), time.Now().Add(d)
	for time.Now().Before(until) && ctx.Err() == nil {
		w.ok += f(i+w.n, stride)
		w.n += stride
	}
	w.cpu = clock(unix.CLOCK_THREAD_CPUTIME_ID) - cpu
	return w
}

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// subject is a loop without a start or an end.
func subject(name string, f func() (loop, error)) suite.Subject {
	return suite.Subject{Name: name, Start: func(context.Context) (suite.Runner, error) {
		l, err := f()
		if err != nil {
			return nil, err
		}
		return runner(l), nil
	}}
}

// count returns 1 for true. The compiler turns it into code without a branch.
func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}
