// Package grantwait lets decisions wait for the next grant of their key, in nodes and in client
// processes. The code that applies grants wakes them.
package grantwait

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Max bounds the waiting decisions; further ones are decided at once.
const Max = 1024

// Waiters is a set of waiting decisions. The zero value is ready to use. It is safe for concurrent
// use.
type Waiters struct {
	n    atomic.Int64
	mu   sync.Mutex
	keys map[quota.Key][]chan struct{}
}

// Add registers a waiter for a grant of the key; the grant closes the channel. It returns false
// at the bound: Max waiters in total, and per key as many as are free, so that a hot key takes
// at most half of them and leaves some for other keys. A caller that gives up calls Remove.
func (w *Waiters) Add(k quota.Key) (chan struct{}, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if free := Max - int(w.n.Load()); len(w.keys[k]) >= free {
		return nil, false
	}
	if w.keys == nil {
		w.keys = map[quota.Key][]chan struct{}{}
	}
	w.n.Add(1)
	c := make(chan struct{})
	w.keys[k] = append(w.keys[k], c)
	return c, true
}

// Any reports whether a decision waits.
func (w *Waiters) Any() bool { return w.n.Load() > 0 }

// Remove ends a wait that Add started. It does nothing if the waiter has been woken.
func (w *Waiters) Remove(k quota.Key, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, o := range w.keys[k] {
		if o == c {
			w.keys[k] = append(w.keys[k][:i:i], w.keys[k][i+1:]...)
			w.n.Add(-1)
			break
		}
	}
	if len(w.keys[k]) == 0 {
		delete(w.keys, k)
	}
}

// Notify wakes the decisions that wait for a key of the grant.
func (w *Waiters) Notify(g *quota.Grant) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range g.Entries {
		w.wake(g.Entries[i].Key)
	}
}

// NotifyAll wakes all waiters: no grant will come soon.
func (w *Waiters) NotifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.keys {
		w.wake(k)
	}
}

func (w *Waiters) wake(k quota.Key) {
	for _, c := range w.keys[k] {
		close(c)
		w.n.Add(-1)
	}
	delete(w.keys, k)
}

// Await decides a call that needs a grant again after the next grant of its key, and returns what
// Decide returns. It waits at most d, and no longer than ctx. When the time is up, or without a place
// among the waiters, it sets c.Final and decides. It calls waits when it begins to wait.
func (w *Waiters) Await(ctx context.Context, agg *aggregator.Aggregator, clock aggregator.Clock, c *aggregator.Call, d time.Duration, waits func()) bool {
	var woken chan struct{}
	ok := false
	if d > 0 && ctx.Err() == nil {
		woken, ok = w.Add(c.Key)
	}
	if !ok {
		c.Final = true
		return agg.Decide(clock, c)
	}
	k := c.Key
	// The grant may have arrived before the wait began.
	if ok := agg.Decide(clock, c); c.Need != aggregator.Grant || c.Key != k {
		w.Remove(k, woken)
		return ok
	}
	waits()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-woken:
		return agg.Decide(clock, c)
	case <-timer.C:
	case <-ctx.Done():
	}
	w.Remove(k, woken)
	c.Final = true
	return agg.Decide(clock, c)
}
