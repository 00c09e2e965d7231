package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// callers bounds the checks in flight.
const callers = 64

// load sends checks to all nodes in turn.
type load struct {
	conns []*grpc.ClientConn
	keys  int
	life  time.Duration
	began time.Time
	// failover makes a check that a node did not answer go to the next one.
	failover bool
}

func newLoad(addrs []string, keys int, life time.Duration) (*load, error) {
	l := &load{keys: keys, life: life, began: time.Now()}
	for _, a := range addrs {
		c, err := grpc.NewClient(a, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

func (l *load) close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// first returns the number of the oldest key in use. It rises so that each key is in use for its
// life.
func (l *load) first() int {
	return int(time.Since(l.began).Seconds() / l.life.Seconds() * float64(l.keys))
}

func (l *load) ask(ctx context.Context, i int) (err error) {
	key := fmt.Sprintf("key-%d", l.first()+rand.IntN(l.keys))
	tries := 1
	if l.failover {
		tries = len(l.conns)
	}
	for range tries {
		if err = l.askOne(ctx, i, key); err == nil {
			return nil
		}
		i++
	}
	return err
}

func (l *load) askOne(ctx context.Context, i int, key string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := quoratev1.NewQuotaServiceClient(l.conns[i%len(l.conns)]).Allow(ctx, &quoratev1.AllowRequest{Namespace: "soak", Limit: "l", Key: key})
	return err
}

// maximum returns the checks per second that the nodes answer to callers in a closed loop.
func (l *load) maximum(ctx context.Context, d time.Duration) (float64, error) {
	var done, failed atomic.Int64
	until := time.Now().Add(d)
	each(func(w int) {
		for i := w; time.Now().Before(until) && ctx.Err() == nil; i++ {
			if l.ask(ctx, i) != nil {
				failed.Add(1)
			}
			done.Add(1)
		}
	})
	if failed.Load() > 0 {
		return 0, fmt.Errorf("%d of %d checks failed", failed.Load(), done.Load())
	}
	return float64(done.Load()) / d.Seconds(), ctx.Err()
}

func each(f func(w int)) {
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() { f(w) })
	}
	wg.Wait()
}

// window sends checks at a fixed rate, whether or not answers arrive. Latency counts from the
// moment at which a check was due.
func (l *load) window(ctx context.Context, rate float64, d time.Duration) (row, error) {
	var next, failed atomic.Int64
	took := make([][]time.Duration, callers)
	began := time.Now()
	each(func(w int) {
		for ctx.Err() == nil {
			i := next.Add(1)
			due := time.Duration(float64(i) / rate * float64(time.Second))
			if due > d {
				return
			}
			time.Sleep(due - time.Since(began))
			if l.ask(ctx, int(i)) != nil {
				failed.Add(1)
			}
			if len(took[w]) < 200_000 { // enough for a median and a p99
				took[w] = append(took[w], time.Since(began)-due)
			}
		}
	})
	all := slices.Concat(took...)
	if len(all) == 0 {
		return row{}, errors.Join(errors.New("a window without a check: choose a longer -duration"), ctx.Err())
	}
	slices.Sort(all)
	return row{
		rate: float64(next.Load()-callers) / time.Since(began).Seconds(), p50: all[len(all)/2], p99: all[len(all)*99/100],
		errors: failed.Load(), asked: next.Load() - callers, keys: l.first() + l.keys,
	}, ctx.Err()
}
