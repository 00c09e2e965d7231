package raftgroup

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestFoundLate checks a first start of three nodes of which one is late. Other nodes lead the
// groups that it should found, and it takes its place when it arrives.
func TestFoundLate(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("waits until a node counts as late; left out by -short")
	}
	t.Parallel() // it mostly waits
	const groups = 6
	c := &cluster{t: t, groups: groups}
	c.late = []int{0}
	c.begin(3)
	served := func() bool {
		for g := range groups {
			if m := c.leader(g); m == nil || m == c.members[0] {
				return false
			}
		}
		return true
	}
	took := c.eventually(lateAfter+20*time.Second, "two of three lead all groups", served)
	t.Logf("all groups served after %v", took.Round(time.Millisecond))
	for g := range groups {
		c.apply(g, 20)
	}
	c.start(0, nil)
	for g := range groups {
		c.apply(g, 20)
		c.eventually(20*time.Second, "all replicas are equal", func() bool { return c.equal(g, 40) })
	}
}
