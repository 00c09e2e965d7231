package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestReserveInAnEndedWindow checks that tokens reserved in a window that has ended do not come back in a
// later window, whether the reservation is settled or expires. In the same window, and in a tier that is
// a bucket, they do.
func TestReserveInAnEndedWindow(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2)
	const per, n = 6 * time.Second, 20
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: "w"}, Kind: quota.FixedWindow, Burst: n,
		Rate: quota.Rate{Tokens: n, Per: per}, Ceiling: quota.Hard,
	}
	two := l
	two.Limit = "two"
	two.More = []quota.Tier{{Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 2 * n}}
	c.apply(l, two)
	nodes := c.running()
	now := func() time.Duration { return time.Duration(nodes[0].clock.Now()) }
	next := func() { time.Sleep(per - now()%per + 300*time.Millisecond) } // windows end by the nodes' wall clocks
	reserve := func(ttl time.Duration, k quota.Key) (r quota.Reservation) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if r, ok := c.reserve(nodes[0], ttl, n, k); ok {
				return r
			} else if time.Now().After(end) {
				t.Fatalf("%v is not reserved", k)
			}
		}
	}
	settle := func(r quota.Reservation) {
		t.Helper()
		if err := nodes[1].Settle(t.Context(), r.Handle, 0); err != nil {
			t.Fatal(err)
		}
	}
	try := func(i int) (ended bool) { // false if the machine was too slow and another window has begun
		name := func(limit, key string) quota.Key {
			return quota.Key{LimitName: quota.LimitName{Namespace: "test", Limit: limit}, Key: fmt.Sprint(key, i)}
		}
		settled, expired, same, tiers := name("w", "settled"), name("w", "expired"), name("w", "same"), name("two", "k")
		admitted := map[quota.Key]int{}
		take := func(long time.Duration) { // load, one round every 5 ms
			for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				for _, m := range nodes {
					for _, k := range []quota.Key{settled, expired, same, tiers} {
						if m.Check(k, 1).Allowed {
							admitted[k]++
						}
					}
				}
			}
		}
		next()
		began := now() / per
		first, second := reserve(time.Hour, settled), reserve(time.Hour, tiers)
		reserve(per, expired)
		settle(reserve(time.Hour, same))
		reserve(time.Hour, same) // what came back
		if now()/per != began {
			return false
		}
		next()
		began = now() / per
		take(time.Second)
		settle(first)
		settle(second)
		take(per - now()%per - 1500*time.Millisecond) // until after the other reservation ends
		if now()/per != began {
			return false
		}
		for k, got := range admitted {
			if got > n {
				t.Errorf("%v: a hard window of %d admitted %d", k, n, got)
			}
		}
		next()
		began = now() / per
		clear(admitted)
		// The bucket has what came back of the reservation. On a busy machine it takes a while until the
		// nodes no longer hold tokens for each other.
		for admitted[tiers] < n && now()%per < per-2*time.Second && now()/per == began {
			take(50 * time.Millisecond)
		}
		take(time.Second) // none beyond it
		if now()/per != began {
			return false
		}
		if admitted[tiers] != n {
			t.Errorf("the third window of the limit with a bucket of %d admitted %d, want %d", 2*n, admitted[tiers], n)
		}
		return true
	}
	for i, end := 0, time.Now().Add(5*patience); !try(i); i++ {
		if time.Now().After(end) {
			t.Fatal("no window was long enough for this machine")
		}
	}
}
