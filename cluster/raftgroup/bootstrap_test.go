package raftgroup

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestFoundLate: of three nodes that are started for the first time, one is late. The
// groups that it should found are led by others, and it takes its place when it comes.
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
