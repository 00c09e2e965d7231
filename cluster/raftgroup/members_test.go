package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// join opens the group on a node and makes it a voter, as an operator's plan would: it completes
// each step before the next.
func (c *cluster) join(n int) {
	c.t.Helper()
	m := c.members[n]
	m.joined = true
	if m.groups[0] == nil {
		c.open(m, 0, true)
	}
	c.step(fmt.Sprintf("add %s", m.id), func(ctx context.Context, g *Group) error { return g.AddNonvoter(ctx, m.id) })
	c.step(fmt.Sprintf("promote %s", m.id), func(ctx context.Context, g *Group) error { return g.Promote(ctx, m.id) })
}

// leave removes a node from the group and deletes its files.
func (c *cluster) leave(n int) {
	c.t.Helper()
	m := c.members[n]
	if c.leader(0) == m {
		c.step(fmt.Sprintf("%s hands over", m.id), func(ctx context.Context, g *Group) error {
			g.transferAway(ctx)
			if c.leader(0) == m {
				return errors.New("still leads")
			}
			return nil
		})
	}
	c.step(fmt.Sprintf("remove %s", m.id), func(ctx context.Context, g *Group) error { return g.Remove(ctx, m.id) })
	if err := m.host.DropGroup(0); err != nil {
		c.t.Fatal(err)
	}
	m.groups[0], m.machines[0], m.joined = nil, nil, false
}

// step repeats a step on the current leader until it succeeds.
func (c *cluster) step(what string, do func(context.Context, *Group) error) {
	c.t.Helper()
	var last error
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s: %v", what, last)
		}
	}()
	c.eventually(10*time.Second, what, func() bool {
		m := c.leader(0)
		if m == nil {
			return false
		}
		last = do(within(c.t, patience), m.groups[0])
		return last == nil
	})
}

func (m *member) voters() []quota.NodeID { return m.groups[0].voters() }

// TestGrowAndShrink changes the members 1 -> 3 -> 5 -> 3 other nodes -> 1 while entries are
// applied. No acknowledged entry is lost, and nodes that left keep no files.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	c := newGrowing(t, 5, nil)
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		acked := uint64(0)
		defer func() { done <- acked }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, m := range c.members {
				if g := m.host.Group(0); g != nil {
					if _, err := g.Apply(within(t, patience), []byte("entry")); err == nil {
						acked++
					}
				}
			}
			time.Sleep(time.Millisecond) // sets the load's rate
		}
	}()
	for n := 1; n < 5; n++ {
		c.join(n)
	}
	if got, want := c.leader(0).voters(), []quota.NodeID{"n0", "n1", "n2", "n3", "n4"}; !slices.Equal(got, want) {
		t.Errorf("voters %v, want %v", got, want)
	}
	for n := range 4 {
		c.leave(n)
	}
	close(stop)
	acked := <-done
	last := c.members[4]
	if m := c.leader(0); m != last || !slices.Equal(last.voters(), []quota.NodeID{"n4"}) {
		t.Fatalf("voters %v", last.voters())
	}
	// The group may also hold entries whose proposer got ErrUncertain.
	if got := last.machines[0].get().Count; got < acked || acked == 0 {
		t.Errorf("%d entries acknowledged, %d held", acked, got)
	}
	for _, m := range c.members[:4] {
		if names := m.files(); len(names) > 0 {
			t.Errorf("%s has files of %v", m.id, names)
		}
	}
	c.join(0) // gets the group again
	c.apply(0, 10)
	c.eventually(5*time.Second, "both hold the same", func() bool { return c.equal(0, last.machines[0].get().Count) })
}

func TestChangesAreGuarded(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newGrowing(t, 4, nil)
	ctx := within(t, patience)
	first := c.members[0].groups[0]
	if err := first.Promote(ctx, "n1"); !errors.Is(err, ErrNotReady) {
		t.Errorf("promotion of an unknown node: %v", err)
	}
	if err := first.AddNonvoter(ctx, "n3"); err != nil { // n3 has not opened the group
		t.Fatal(err)
	}
	if err := first.Promote(ctx, "n3"); !errors.Is(err, ErrNotReady) {
		t.Errorf("promotion of a replica that is not open: %v", err)
	}
	if err := first.Remove(ctx, "n0"); !errors.Is(err, ErrLeads) {
		t.Errorf("removal of the leader: %v", err)
	}
	c.join(1)
	c.join(2)
	for range 2 { // repeating a change is not an error
		for _, err := range []error{first.AddNonvoter(ctx, "n1"), first.Promote(ctx, "n1"), first.Remove(ctx, "n9")} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	follower := c.members[1].groups[0]
	for _, err := range []error{follower.AddNonvoter(ctx, "n3"), follower.Promote(ctx, "n3"), follower.Remove(ctx, "n2")} {
		if !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower answers %v", err)
		}
	}
	first.changing.Store(true)
	if err := first.Remove(ctx, "n2"); !errors.Is(err, ErrBusy) {
		t.Errorf("a second change at once: %v", err)
	}
	first.changing.Store(false)
	c.staleChangeIsRefused(first)

	// One of three is dead. The other two must both stay; the dead one may be removed.
	c.crash(2)
	c.eventually(5*time.Second, "the dead one is missed", func() bool {
		_, term, _ := first.Leader()
		return !first.readIndex.recent("n2", term, first.host.cfg.Timing.Heartbeat)
	})
	if err := first.Remove(ctx, "n1"); !errors.Is(err, ErrQuorum) {
		t.Errorf("removal of a living voter while another is dead: %v", err)
	}
	c.step("remove the dead one", func(ctx context.Context, g *Group) error { return g.Remove(ctx, "n2") })
	c.apply(0, 5)
}

// staleChangeIsRefused checks that a change decided under an older configuration has no effect.
func (c *cluster) staleChangeIsRefused(g *Group) {
	c.t.Helper()
	now := g.fsm.conf.Load()
	g.fsm.conf.Store(&committed{now.index - 1, now.servers})
	if err := g.Remove(within(c.t, patience), "n2"); !errors.Is(err, ErrBusy) {
		c.t.Errorf("a stale change: %v", err)
	}
	g.fsm.conf.Store(&committed{now.index, now.servers[:1]})
	if err := g.Remove(within(c.t, patience), "n2"); !errors.Is(err, ErrBusy) {
		c.t.Errorf("a change while the latest is not committed: %v", err)
	}
	g.fsm.conf.Store(now)
}

// TestRemovedReplicaIsQuiet checks a replica that was removed while unreachable and is still
// open: it deposes no leader when it returns.
func TestRemovedReplicaIsQuiet(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	c := newGrowing(t, 3, nil)
	c.join(1)
	c.join(2)
	c.apply(0, 10)
	hole := func(quota.NodeID, peerv1.Lane) transport.Fault { return transport.Fault{Drop: true} }
	alone := c.members[2]
	alone.net.SetFault(hole)
	cut := func(to quota.NodeID, _ peerv1.Lane) transport.Fault { return transport.Fault{Drop: to == "n2"} }
	c.members[0].net.SetFault(cut)
	c.members[1].net.SetFault(cut)
	c.step("remove", func(ctx context.Context, g *Group) error { return g.Remove(ctx, "n2") })
	c.eventually(5*time.Second, "the removed one campaigns", func() bool {
		leader, _, _ := alone.groups[0].Leader()
		return leader == ""
	})
	leader := c.leader(0)
	_, term, _ := leader.groups[0].Leader()
	for _, m := range c.members {
		m.net.SetFault(nil)
	}
	end := time.Now().Add(leader.host.cfg.Timing.Heartbeat * 5 / 2) // at least two of its timeouts
	for time.Now().Before(end) {
		c.apply(0, 1)
		time.Sleep(20 * time.Millisecond) // sets the load's rate
	}
	if _, now, serving := leader.groups[0].Leader(); !serving || now != term {
		t.Errorf("the removed replica moved the leader: term %d -> %d", term, now)
	}
	if _, err := alone.groups[0].Apply(within(t, patience), []byte("x")); !errors.Is(err, ErrNotLeader) {
		t.Errorf("it answers %v", err)
	}
	if err := alone.host.DropGroup(0); err != nil {
		t.Error(err)
	}
	alone.groups[0], alone.machines[0] = nil, nil
}

// TestConfigurationSurvivesRestart checks that the log, not the options, defines the voters.
func TestConfigurationSurvivesRestart(t *testing.T) {
	testspeed.Full(t)
	t.Parallel()
	c := newGrowing(t, 3, nil)
	c.join(1)
	c.join(2)
	c.apply(0, 10)
	if err := c.members[1].groups[0].Snapshot(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	for n := range c.members {
		c.crash(n)
	}
	for n := range c.members {
		c.start(n, nil) // n0's options name itself as the only voter
	}
	c.eventually(8*time.Second, "a leader", c.allServed)
	for _, m := range c.members {
		c.eventually(5*time.Second, "all know all voters", func() bool { return len(m.voters()) == 3 })
	}
	c.apply(0, 10)
	c.eventually(5*time.Second, "all replicas are equal", func() bool { return c.equal(0, 20) })
	if c.leader(0) == c.members[0] {
		c.crash(0) // an election needs, and gets, the votes of the others
		c.apply(0, 1)
		return
	}
	c.leave(0)
}

func TestPreferredAndShunned(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t, 1, func(c *Config) { c.BalanceEvery, c.BalanceAfter = 50*time.Millisecond, 100*time.Millisecond })
	c.awaitPreferred()
	shun := func(ids ...quota.NodeID) {
		m := map[quota.NodeID]bool{}
		for _, id := range ids {
			m[id] = true
		}
		for _, x := range c.members {
			x.host.SetExcluded(m)
		}
	}
	shun("n0", "n1")
	if got, want := c.members[0].groups[0].successors("n0"), []quota.NodeID{"n2", "n1"}; !slices.Equal(got, want) {
		t.Errorf("heirs %v, want %v", got, want)
	}
	c.eventually(5*time.Second, "the drained node gives its group to the one that is not", func() bool { return c.leader(0) == c.members[2] })
	shun()
	for _, m := range c.members {
		m.groups[0].SetPreferred("n1")
	}
	c.eventually(5*time.Second, "the new preferred leader leads", func() bool { return c.leader(0) == c.members[1] })
	for _, m := range c.members {
		m.groups[0].SetPreferred("")
		if got, _ := m.groups[0].transferTargets(func(quota.NodeID) bool { return true }); len(got) != 0 {
			t.Errorf("with nobody preferred, %s would give it to %s", m.id, got)
		}
	}
}

// TestCloseAndDrop checks that a closed replica returns with its state and a dropped one without,
// and that a deletion interrupted by a crash is completed.
func TestCloseAndDrop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, nil)
	c.awaitPreferred()
	c.apply(0, 20)
	c.apply(1, 5)
	m := c.members[2]
	if err := m.host.CloseGroup(0); err != nil {
		t.Fatal(err)
	}
	if err := m.host.CloseGroup(0); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := m.groups[0].TransferTo(within(t, patience), "n0"); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed group answers %v", err)
	}
	c.eventually(5*time.Second, "others go on", func() bool { return c.leader(0) != nil })
	c.apply(0, 20)
	m.host.mu.Lock()
	if n := len(m.host.parked); n > 0 {
		t.Errorf("messages for %d groups are parked", n)
	}
	m.host.mu.Unlock()
	c.open(m, 0, false)
	c.eventually(12*time.Second, "it is back", func() bool { return c.equal(0, 40) })

	if err := m.groups[1].Snapshot(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	c.crash(2)
	// A crash during a deletion: the mark exists and the entries are gone.
	l, err := openLog(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Group(1)
	if err := errors.Join(err, g.MarkDropped(), g.DeleteRange(1, sharedlog.MaxIndex), l.Close()); err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Self: "n2", Dir: m.dir, Net: m.net})
	if err != nil {
		t.Fatal(err)
	}
	if left := h.logs.Dropped(); len(left) > 0 {
		t.Errorf("marked: %v", left)
	}
	if err := h.Kill(); err != nil {
		t.Error(err)
	}
	if left := m.files(); !slices.Equal(left, []string{"meta"}) {
		t.Errorf("files of %v", left)
	}
}
