package raftgroup

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestCloseDuringTrouble closes and drops groups while their disk fails and while they restart.
// Nothing hangs and nothing is left behind.
func TestCloseDuringTrouble(t *testing.T) {
	disk := withFullDisk(t, "n2")
	c := newCluster(t, 6, nil)
	c.awaitPreferred()
	m := c.members[2]
	disk.full.Store(true)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			if g%3 == 2 { // the node whose disk fails leads it
				_, _ = m.groups[g].Apply(within(t, patience), []byte("x"))
				return
			}
			c.apply(g, 20)
		})
	}
	for g := range 3 {
		wg.Go(func() {
			time.Sleep(time.Duration(g) * 20 * time.Millisecond) // stagger the closes
			if err := m.host.DropGroup(uint32(g)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for g := range 3 {
		if _, err := m.groups[g].Apply(within(t, patience), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("a dropped group answers %v", err)
		}
		m.groups[g], m.machines[g] = nil, nil
	}
	if _, err := m.groups[5].Apply(within(t, patience), nil); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a group out of service answers %v", err)
	}
	c.apply(5, 20) // the leader has changed
	if names := m.files(); len(names) != 3 {
		t.Errorf("files of %v", names)
	}
	disk.full.Store(false)
	c.eventually(10*time.Second, "the others are back", func() bool {
		return len(m.host.Health()) == 0 && c.equal(3, 20) && c.equal(4, 20) && c.equal(5, 20)
	})
}

// TestJoinAndLeaveInALoop adds a group to a node and removes it again, many times, under load.
func TestJoinAndLeaveInALoop(t *testing.T) {
	testspeed.Full(t)
	t.Parallel()
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	c := newGrowing(t, 3, nil)
	c.join(1)
	for round := range rounds {
		c.apply(0, 20)
		c.join(2)
		c.apply(0, 20)
		c.eventually(5*time.Second, "all replicas are equal", func() bool { return c.equal(0, uint64(40*(round+1))) })
		c.leave(2)
	}
}
