package grantwait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/aggregator"
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

// clock is synctest's time.
func clock() quota.Time { return quota.Time(time.Now().UnixNano()) }

// needsGrant returns a call of a soft key whose burst other members may see as well, so that it needs a grant.
func needsGrant(t *testing.T) (*aggregator.Aggregator, *aggregator.Call) {
	t.Helper()
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "test", Limit: "soft"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 10}
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	agg := aggregator.New(aggregator.Config{Self: "client", Incarnation: 1, Nodes: 1, Ranges: 1, Sync: 100 * time.Millisecond}, clock())
	agg.SetLimits(clock(), limits)
	agg.SetPeers(10)
	c := new(aggregator.Call)
	for range 10 {
		c.Reset([]quota.Request{{Key: quota.Key{LimitName: l.LimitName, Key: "k"}, Cost: 1}}, make([]quota.Decision, 1))
		if agg.Decide(clock, c); c.Need == aggregator.Grant {
			return agg, c
		}
	}
	t.Fatal("no call of a burst needs a grant")
	return nil, nil
}

// TestAwait checks when a wait ends, whether the decision is final then, and that no waiter is left: one of a key
// that gets no further grant would take a place for good.
func TestAwait(t *testing.T) {
	const d = 20 * time.Millisecond
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		name  string
		ctx   context.Context
		d     time.Duration
		full  bool // no place among the waiters
		after time.Duration
		wake  bool
		waits int
		final bool
		took  time.Duration
	}{
		{name: "a grant", d: d, wake: true, waits: 1, took: d / 2},
		{name: "no grant", d: d, waits: 1, final: true, took: d},
		{name: "no time left", d: 0, final: true},
		{name: "the context has ended", ctx: ended, d: d, final: true},
		{name: "the context ends", d: d, after: d / 4, waits: 1, final: true, took: d / 4},
		{name: "no place", d: d, full: true, final: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agg, c := needsGrant(t)
				var w Waiters
				if test.full {
					for i := range 2 * Max {
						w.Add(quota.Key{Key: string(rune('a' + i))})
					}
				}
				before := w.n.Load()
				ctx := test.ctx
				if ctx == nil {
					ctx = context.Background()
				}
				if test.after > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.after)
					defer cancel()
				}
				if test.wake {
					g := &quota.Grant{Entries: []quota.GrantEntry{{Key: c.Key}}}
					time.AfterFunc(d/2, func() { w.Notify(g) })
				}
				start, waits := time.Now(), 0
				w.Await(ctx, agg, clock, c, test.d, func() { waits++ })
				if took := time.Since(start); c.Final != test.final || waits != test.waits || took != test.took {
					t.Errorf("final %t, %d waits, %v; want %t, %d, %v", c.Final, waits, took, test.final, test.waits, test.took)
				}
				synctest.Wait()
				if left := w.n.Load(); left != before {
					t.Errorf("%d waiters are left", left-before)
				}
			})
		})
	}
}
