package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// tally sums up the results of many callers.
type tally struct {
	mu   sync.Mutex
	took []time.Duration
	errs []error
}

func (t *tally) add(took []time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took, t.errs = append(t.took, took...), append(t.errs, err)
}

// crowd runs callers for some time. begin makes one caller; a call is the given number of
// operations.
func crowd(callers int, length time.Duration, begin func(i int, rng *rand.Rand) (call func() error, err error), operations int) (int, []time.Duration, error) {
	var stop atomic.Bool
	var wait sync.WaitGroup
	var all tally
	defer time.AfterFunc(length, func() { stop.Store(true) }).Stop()
	for i := range callers {
		wait.Go(func() {
			var took []time.Duration
			call, err := begin(i, rand.New(rand.NewPCG(uint64(i), 1)))
			for err == nil && !stop.Load() {
				start := time.Now()
				if err = call(); err == nil {
					took = append(took, time.Since(start))
				}
			}
			all.add(took, err)
		})
	}
	wait.Wait()
	return len(all.took) * operations, all.took, errors.Join(all.errs...)
}

// halfOfMaximum is an open loop at half the capacity of the slowest of several servers. The first
// load on each server measures its capacity, before any server is measured.
type halfOfMaximum struct{ slowest float64 }

func (h *halfOfMaximum) load(d *dialled) load {
	reqs, told := singles(), false
	return func(ctx context.Context, length time.Duration) (int, []time.Duration, error) {
		if told {
			return d.paced(h.slowest/2, reqs, 1)(ctx, length)
		}
		told = true
		closed := d.closed(unaryCallers, allowMethod, reqs, 1)
		if _, _, err := closed(ctx, length); err != nil { // opens buckets and fills pools
			return 0, nil, err
		}
		start := time.Now()
		done, took, err := closed(ctx, length)
		if perSecond := float64(done) / time.Since(start).Seconds(); h.slowest == 0 || perSecond < h.slowest {
			h.slowest = perSecond
		}
		return done, took, err
	}
}

// paceEvery is the interval at which due calls are sent.
const paceEvery = 200 * time.Microsecond

// paced makes calls at a fixed rate, whether or not answers arrive. Latency counts from when a call
// was due, so it includes the wait for a slow server. With checks 0, answers may be refusals.
func (d *dialled) paced(perSecond float64, reqs []*raw, checks int) load {
	return func(ctx context.Context, length time.Duration) (int, []time.Duration, error) {
		due := make(chan time.Time, int(perSecond)+1) // a second's worth; beyond, the server sets the pace
		go func() {
			defer close(due)
			start, n := time.Now(), 0
			for ; time.Since(start) < length; time.Sleep(paceEvery) {
				for ; n < int(time.Since(start).Seconds()*perSecond); n++ {
					due <- start.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))
				}
			}
		}()
		var wait sync.WaitGroup
		var all tally
		for i := range 4 * unaryCallers {
			wait.Go(func() {
				call := caller(ctx, d.conns[i%len(d.conns)], rand.New(rand.NewPCG(uint64(i), 3)), allowMethod, reqs, checks)
				var took []time.Duration
				var err error
				for at := range due {
					if e := call(); e != nil {
						err = e // keeps the pace to the end
						continue
					}
					took = append(took, time.Since(at))
				}
				all.add(took, err)
			})
		}
		wait.Wait()
		return len(all.took), all.took, errors.Join(all.errs...)
	}
}
