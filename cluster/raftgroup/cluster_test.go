package raftgroup

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

func TestLeadersAreWhereTheyShouldBe(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, groups := range []int{1, 16, 64} {
		t.Run(strconv.Itoa(groups), func(t *testing.T) {
			if testing.Short() && groups > 16 {
				t.Skip("makes many files; left out by -short")
			}
			start := time.Now()
			c := newCluster(t, groups, nil)
			opened := time.Since(start)
			c.eventually(5*time.Second, "all groups are served by their preferred leaders", c.preferred)
			took := time.Since(start)
			t.Logf("%d groups served after %v, %v of it opening", groups, took.Round(time.Millisecond), opened.Round(time.Millisecond))
			if took -= opened; groups <= 16 && took > slow { // the disk determines how fast files are created
				t.Errorf("took %v beside the opening", took)
			}
			c.eventually(5*time.Second, "all replicas see the leaders", func() bool { return c.viewsAreRight() })
		})
	}
}

func (c *cluster) viewsAreRight() bool {
	for _, m := range c.members {
		m.mu.Lock()
		for g := range c.groups {
			if m.host != nil && m.views[uint32(g)] != c.members[g%3].id {
				m.mu.Unlock()
				return false
			}
		}
		m.mu.Unlock()
	}
	return true
}

func TestApplyReplicates(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	c := newCluster(t, 3, nil)
	c.awaitPreferred()
	for g := range 3 {
		c.apply(g, 300)
		c.eventually(5*time.Second, "all replicas are equal", func() bool { return c.equal(g, 300) })
	}
	if _, err := c.members[1].groups[0].Apply(within(t, patience), []byte("x")); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower answers %v", err)
	}
	if got, err := c.members[0].groups[0].Apply(within(t, patience), []byte("x")); err != nil || got != uint64(301) {
		t.Errorf("result %v, %v", got, err)
	}
}

func TestCrashedLeaderIsReplaced(t *testing.T) {
	t.Parallel() // it mostly waits
	groups := 48
	if testing.Short() { // other packages run in parallel
		groups = 12
	}
	c := newCluster(t, groups, nil)
	c.awaitPreferred()
	for g := range groups {
		c.apply(g, 5)
	}
	killed := time.Now()
	go c.members[0].net.Close() // all that peers see of a crash; the rest is cleanup
	c.eventually(4*time.Second, "new leaders", func() bool {
		for g := 0; g < groups; g += 3 {
			if !c.servedByOthers(g, c.members[0]) {
				return false
			}
		}
		return true
	})
	took := time.Since(killed)
	t.Logf("%d groups of the dead node are served again after %v", groups/3, took.Round(time.Millisecond))
	if took > slow {
		t.Errorf("took %v", took)
	}
	c.crash(0)
	for g := range groups {
		c.apply(g, 5)
	}
	for g := range groups {
		c.eventually(5*time.Second, fmt.Sprintf("survivors of group %d are equal", g), func() bool { return c.equal(g, 10) })
	}
}

func (c *cluster) servedByOthers(g int, dead *member) bool {
	for _, m := range c.members {
		if m == dead {
			continue
		}
		m.mu.Lock()
		_, ok := m.leading[uint32(g)]
		m.mu.Unlock()
		if ok {
			return true
		}
	}
	return false
}

func TestRestartOfAllKeepsState(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 6, nil)
	c.awaitPreferred()
	for g := range 6 {
		c.apply(g, 50)
	}
	if err := c.members[2].groups[2].Snapshot(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	for n := range c.members {
		c.crash(n)
	}
	start := time.Now()
	for n := range c.members {
		c.start(n, nil)
	}
	c.eventually(5*time.Second, "leaders", c.allServed)
	t.Logf("served again %v after the restart began; preferred: %v", time.Since(start).Round(time.Millisecond), c.preferred())
	for g := range 6 {
		c.eventually(5*time.Second, "all replicas are equal", func() bool { return c.equal(g, 50) })
		c.apply(g, 1)
	}
}

func TestCloseHandsOver(t *testing.T) {
	const groups = 9
	c := newCluster(t, groups, waitless)
	c.awaitPreferred()
	c.eventually(patience, "every follower has heard a heartbeat", func() bool {
		for g := 0; g < groups; g += 3 {
			for _, id := range []quota.NodeID{"n1", "n2"} {
				if g := c.members[0].groups[g]; g.ready(within(t, patience), g.cur.Load(), id) != nil {
					return false
				}
			}
		}
		return true
	})
	start := time.Now()
	if err := c.members[0].host.Close(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	c.members[0].host = nil
	took := time.Since(start)
	if after := c.eventually(100*time.Millisecond, "groups are served", c.allServed); after >= c.members[1].host.cfg.Timing.Heartbeat/2 {
		t.Errorf("served %v after the close: that is an election, and no handover", after)
	}
	t.Logf("handed over and closed in %v", took.Round(time.Millisecond))
	_ = c.members[0].net.Close()
	for g := range groups {
		c.apply(g, 5)
	}
}

func TestBalancerGivesLeadershipBack(t *testing.T) {
	testspeed.Full(t)
	t.Parallel()
	c := newCluster(t, 6, func(c *Config) { c.BalanceEvery, c.BalanceAfter = 100*time.Millisecond, time.Second })
	c.awaitPreferred()
	c.crash(1)
	c.eventually(4*time.Second, "new leaders", c.allServed)
	c.start(1, nil)
	took := c.eventually(15*time.Second, "leaders are back", c.preferred)
	t.Logf("leaders back %v after the start of the node", took.Round(time.Millisecond))
}

// TestHandedOverStays checks that the balancer does not return a manually transferred group
// before its new leader has led for BalanceAfter.
func TestHandedOverStays(t *testing.T) {
	t.Parallel() // it mostly waits
	const stays = time.Second
	c := newCluster(t, 1, func(c *Config) { c.BalanceEvery, c.BalanceAfter = 50*time.Millisecond, stays })
	c.awaitPreferred()
	time.Sleep(2 * stays) // all nodes are settled: the balancer could return it at once
	if err := c.members[0].groups[0].TransferTo(within(t, patience), "n1"); err != nil {
		t.Fatal(err)
	}
	given := time.Now()
	c.eventually(10*time.Second, "the other one leads", func() bool { return c.leader(0) == c.members[1] })
	c.eventually(10*time.Second, "it is given back", func() bool { return c.leader(0) == c.members[0] })
	if took := time.Since(given); took < stays*9/10 {
		t.Errorf("given back after %v; want at least %v", took, stays)
	}
}

func TestSnapshotBringsLaggardUpToDate(t *testing.T) {
	testspeed.Full(t)
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 10)
	c.crash(2)
	c.apply(0, 2*trailingLogs)
	if err := c.members[0].groups[0].Snapshot(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if first, err := c.members[0].groups[0].store.FirstIndex(); err != nil || first < 100 {
		t.Fatalf("the log still begins at %d (%v): nothing is tested", first, err)
	}
	c.start(2, nil)
	c.eventually(10*time.Second, "the laggard has caught up", func() bool { return c.equal(0, 2*trailingLogs+10) })
	c.apply(0, 10)
	c.eventually(5*time.Second, "entries follow the snapshot", func() bool { return c.equal(0, 2*trailingLogs+20) })
}

func TestOptionsAreChecked(t *testing.T) {
	if err := DefaultTiming().Validate(); err != nil {
		t.Error(err)
	}
	bad := []Timing{
		{Heartbeat: 300 * time.Millisecond, Election: time.Second, Lease: 270 * time.Millisecond, Commit: time.Second},
		{Heartbeat: time.Second, Election: 500 * time.Millisecond, Lease: 500 * time.Millisecond, Commit: time.Second},
		{Heartbeat: time.Second, Election: time.Second, Lease: 300 * time.Millisecond, Commit: time.Second},
		{Heartbeat: time.Second, Election: time.Second, Lease: time.Second, Commit: time.Second},
		{Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond},
	}
	for i, timing := range bad {
		if timing.Validate() == nil {
			t.Errorf("timing %d is accepted: %+v", i, timing)
		}
	}
	if _, err := New(Config{Self: "a"}); err == nil {
		t.Error("a host without a net is accepted")
	}
	o := GroupOptions{Voters: []quota.NodeID{"a"}, FSM: &machine{}}
	if o.validate() == nil {
		t.Error("a group without a first entry is accepted")
	}
}
