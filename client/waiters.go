package client

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// maxGrantWaiters bounds the decisions that wait for a grant at one time; more
// are decided at once.
const maxGrantWaiters = 1024

// waiters are decisions that wait for a grant of their key.
type waiters struct {
	n    atomic.Int64
	mu   sync.Mutex
	keys map[quota.Key][]chan struct{}
}

func (w *waiters) add(k quota.Key) (chan struct{}, bool) {
	if w.n.Add(1) > maxGrantWaiters {
		w.n.Add(-1)
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil {
		w.keys = map[quota.Key][]chan struct{}{}
	}
	c := make(chan struct{})
	w.keys[k] = append(w.keys[k], c)
	return c, true
}

func (w *waiters) remove(k quota.Key, c chan struct{}) {
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

// notify wakes the decisions that wait for a key of the grant.
func (w *waiters) notify(g *quota.Grant) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range g.Entries {
		w.wake(g.Entries[i].Key)
	}
}

// notifyAll wakes all: no grant will come soon.
func (w *waiters) notifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.keys {
		w.wake(k)
	}
}

func (w *waiters) wake(k quota.Key) {
	for _, c := range w.keys[k] {
		close(c)
		w.n.Add(-1)
	}
	delete(w.keys, k)
}
