package client

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestAsksWhileItMoves checks that a process whose node ends its stream refuses no check of a hard limit by itself:
// until the next node has granted tokens, a node decides. While no node accepts the process, it asks for less than half
// a second, and then refuses at once.
func TestAsksWhileItMoves(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			hard := bucketLimit("hard", "10000/s", 10_000, quota.Hard)
			cl := newCluster(t, []string{"a", "b"}, hard)
			cl.node("a").peers, cl.node("b").peers = 1, 1
			c := attachTo(t, cl)
			defer c.Close()
			ready(t, c)
			asked := 0
			refused := func(key string) quota.Why { // WhyUnknown if it is not refused
				d, asks := c.member.one(t.Context(), c.member.known.Load(), quota.Key{LimitName: hard.LimitName, Key: key}, 1, nil)
				if asks {
					asked++
				}
				if bool(asks) || d.Allowed {
					return quota.WhyUnknown
				}
				return d.Why
			}
			for range 10 {
				refused("k")
				time.Sleep(10 * time.Millisecond)
			}
			if asked = 0; refused("k") != quota.WhyUnknown || asked > 0 {
				t.Fatal("the process holds no tokens")
			}
			if gone {
				cl.node("b").set(false)
			}
			cl.node("a").set(false)
			began := time.Now()
			for i := range 1000 {
				for _, key := range []string{"k", strconv.Itoa(i)} {
					why, since := refused(key), time.Since(began)
					passes := why == quota.WhyUnknown && (!gone || key == "k" || since < 500*time.Millisecond)
					if !passes && (!gone || why != quota.WhyFailover) {
						t.Fatalf("nodes gone %v, %v after the stream ended, key %s: %v", gone, since, key, why)
					}
				}
				time.Sleep(time.Millisecond)
			}
			if s := c.Stats(); asked == 0 || s.Attached == gone {
				t.Errorf("asked %d times, attached %v, nodes gone %v", asked, s.Attached, gone)
			}
		})
	}
}
