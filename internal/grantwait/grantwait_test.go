package grantwait

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

func woken(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWaiters(t *testing.T) {
	a, b := quota.Key{Key: "a"}, quota.Key{Key: "b"}
	var w Waiters
	first, _ := w.Add(a)
	second, _ := w.Add(a)
	gone, _ := w.Add(a)
	other, _ := w.Add(b)
	w.Remove(a, gone)
	w.Notify(&quota.Grant{Entries: []quota.GrantEntry{{Key: a}, {Key: quota.Key{Key: "nobody's"}}}})
	if !woken(first) || !woken(second) || woken(gone) || woken(other) {
		t.Errorf("woken: %v %v; gave up: %v; of another key: %v", woken(first), woken(second), woken(gone), woken(other))
	}
	w.Remove(a, first) // it gave up at the same moment
	w.NotifyAll()
	if !woken(other) || w.n.Load() != 0 || len(w.keys) != 0 {
		t.Errorf("all were woken, and %d wait for %d keys", w.n.Load(), len(w.keys))
	}
}

func TestWaitersBound(t *testing.T) {
	var w Waiters
	k := quota.Key{Key: "k"}
	for i := range Max {
		if _, ok := w.Add(k); !ok {
			t.Fatalf("waiter %d is refused; %d may wait", i+1, Max)
		}
	}
	if _, ok := w.Add(k); ok {
		t.Error("one more than may wait waits")
	}
	w.NotifyAll()
	if _, ok := w.Add(k); !ok {
		t.Error("there is room again, and nobody may wait")
	}
}
