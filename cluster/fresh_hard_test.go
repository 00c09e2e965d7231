package cluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestFreshHardKeysAskNobody checks that hard keys with room for many requests at every node wait for no log: each
// node's first use of a key is decided by its first grant, which needs no entry, and not by the leader, which would have
// to write one.
func TestFreshHardKeysAskNobody(t *testing.T) {
	c := newThreeNodes(t, 4)
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "a", Limit: "hard"}, Rate: quota.Rate{Tokens: 1000, Per: time.Hour}, Burst: 1000, Ceiling: quota.Hard}
	c.apply(l)
	asked := func() (sum float64) {
		for _, n := range c.running() {
			sum += counted(t, n, "quorate_leader_decide_requests_total")
		}
		return sum
	}
	for i := range 100 {
		for _, n := range c.running() {
			if d := n.Check(quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(i)}, 1); !d.Allowed || d.Why != quota.WhyHeld {
				t.Fatalf("key %d, node %s: %+v", i, n.cfg.Self, d)
			}
		}
	}
	if n := asked(); n != 0 {
		t.Errorf("leaders were asked %.0f times", n)
	}
}
