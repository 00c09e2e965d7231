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

// TestWaitersBound checks the bound on waiters, and that many waiters of one key leave room for other keys.
func TestWaitersBound(t *testing.T) {
	var w Waiters
	add := func(key string) (n int) {
		for ; n <= Max; n++ {
			if _, ok := w.Add(quota.Key{Key: key}); !ok {
				break
			}
		}
		return n
	}
	if n := add("hot"); n != Max/2 {
		t.Errorf("%d wait for one key, which may take %d", n, Max/2)
	}
	if n := add("second"); n != Max/4 {
		t.Errorf("%d wait for a second key, which may take %d", n, Max/4)
	}
	for i := range Max / 4 {
		if add(string(rune('a'+i))) == 0 && i < 9 {
			t.Errorf("nobody may wait for another key, number %d", i+3)
		}
	}
	if n := w.n.Load(); n != Max {
		t.Errorf("%d wait in all; %d may", n, Max)
	}
	w.NotifyAll()
	if n := add("hot"); n != Max/2 {
		t.Errorf("%d wait for a key where nobody waits", n)
	}
}
