package fairshare

import (
	"strconv"
	"sync"
	"testing"
)

func TestPool(t *testing.T) {
	p := New(10, 4)
	for _, c := range []struct {
		owner string
		n     int64
		want  Full
	}{{"a", 4, NotFull}, {"a", 1, Each}, {"b", 4, NotFull}, {"c", 3, Total}, {"c", 2, NotFull}, {"d", 1, Total}, {"", 1, Total}} {
		if got := p.TryAcquire(c.owner, c.n); got != c.want {
			t.Errorf("%s takes %d: %q; want %q", c.owner, c.n, got, c.want)
		}
	}
	p.Release("a", 3)
	if got := p.TryAcquire("d", 3); got != NotFull {
		t.Errorf("what was given back is not there: %q", got)
	}
	for owner, n := range map[string]int64{"a": 1, "b": 4, "c": 2, "d": 3} {
		p.Release(owner, n)
	}
	if p.Held() != 0 || len(p.by) != 0 {
		t.Errorf("%d held, %d owners remembered", p.Held(), len(p.by))
	}
	if got := p.TryAcquire("", 10); got != NotFull {
		t.Errorf("callers that nobody can tell apart do not get the total: %q", got)
	}
}

// TestMove checks that an amount passes to another owner within its bound, also if the pool is full, and back.
func TestMove(t *testing.T) {
	p := New(10, 4)
	for owner, n := range map[string]int64{"a": 4, "b": 3, "": 3} {
		p.TryAcquire(owner, n)
	}
	undo, full := p.Move("a", "b", 1)
	if full != NotFull || p.by["a"] != 3 || p.by["b"] != 4 {
		t.Fatalf("%q, %v", full, p.by)
	}
	if _, full := p.Move("a", "b", 1); full != Each || p.by["a"] != 3 || p.by["b"] != 4 {
		t.Errorf("beyond the bound of b: %q, %v", full, p.by)
	}
	if _, full := p.Move("b", "b", 1); full != NotFull {
		t.Errorf("from b to itself: %q", full)
	}
	if undo(); p.by["a"] != 4 || p.by["b"] != 3 || p.Held() != 10 {
		t.Errorf("undone: %v, %d held", p.by, p.Held())
	}
	if undo, _ = p.Move("b", "c", 3); p.by["c"] != 3 || len(p.by) != 3 {
		t.Errorf("all of b: %v", p.by)
	}
	if undo(); p.by["b"] != 3 || len(p.by) != 3 {
		t.Errorf("undone: %v", p.by)
	}
}

// TestPerFree checks that each owner gets at most seven eighths of what is free, and when a pool is exhausted.
func TestPerFree(t *testing.T) {
	p := NewPerFree(4096)
	for i, want := range []int64{3584, 448, 56, 7, 1, 0} {
		owner := strconv.Itoa(i)
		n := int64(0)
		for p.TryAcquire(owner, 1) == NotFull {
			n++
		}
		if n != want {
			t.Errorf("owner %d gets %d; want %d", i, n, want)
		}
		full := Each
		if want == 0 {
			full = Total
		}
		if got := p.TryAcquire(owner, 1); got != full && want > 1 {
			t.Errorf("owner %d: %q; want %q", i, got, full)
		}
	}
	if p.TryAcquire("", 1) != Total {
		t.Error("a pool that is full has more")
	}
}

// TestPoolConcurrently checks that the bounds hold under concurrency and that everything is given back.
func TestPoolConcurrently(t *testing.T) {
	p := New(10, 3)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			owner := strconv.Itoa(i % 8)
			for range 500 {
				if p.TryAcquire(owner, 1) == NotFull {
					if held := p.Held(); held > 10 {
						t.Errorf("%d held", held)
					}
					p.Release(owner, 1)
				}
			}
		})
	}
	wg.Wait()
	if p.Held() != 0 || len(p.by) != 0 {
		t.Errorf("%d held, %d owners", p.Held(), len(p.by))
	}
}
