package raftgroup

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// faultyStore fails to store entries while failing is set.
type faultyStore struct {
	raft.LogStore
	failing *atomic.Bool
	failed  *atomic.Int64
}

func (s faultyStore) StoreLogs(l []*raft.Log) error {
	if s.failing.Load() {
		s.failed.Add(1)
		return errors.New("injected: disk says no")
	}
	return s.LogStore.StoreLogs(l)
}

// StoreLog must not bypass the fault.
func (s faultyStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// TestFailedAppendDoesNotWedge covers hashicorp/raft#612: with pipelining, a follower that fails
// one append never gets an entry again, while heartbeats continue.
func TestFailedAppendDoesNotWedge(t *testing.T) {
	testspeed.Full(t)
	var failing atomic.Bool
	var failed atomic.Int64
	wrapLogStore = func(self quota.NodeID, s raft.LogStore) raft.LogStore {
		if self == "n2" {
			return faultyStore{s, &failing, &failed}
		}
		return s
	}
	t.Cleanup(func() { wrapLogStore = func(_ quota.NodeID, s raft.LogStore) raft.LogStore { return s } })
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 100) // enough entries for raft to try a pipeline
	for round := range 3 {
		failing.Store(true)
		c.apply(0, 50)
		c.eventually(5*time.Second, "the follower fails", func() bool { return failed.Load() > int64(round) })
		failing.Store(false)
		c.apply(0, 50)
		c.eventually(10*time.Second, "the follower gets entries again", func() bool { return c.equal(0, uint64(200+100*round)) })
	}
}

// TestLostAppendsAreSentAgain covers the same case with a faulty link.
func TestLostAppendsAreSentAgain(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 50)
	c.members[0].net.SetFault(func(to quota.NodeID, lane peerv1.Lane) transport.Fault {
		return transport.Fault{Drop: to == "n2" && lane == peerv1.Lane_LANE_DATA}
	})
	c.apply(0, 50)
	time.Sleep(100 * time.Millisecond) // time in which they would have arrived
	if got := c.members[2].machines[0].get().Count; got > 50 {
		t.Fatalf("the fault does not work: %d entries", got)
	}
	c.members[0].net.SetFault(nil)
	c.apply(0, 50)
	c.eventually(10*time.Second, "the follower gets entries again", func() bool { return c.equal(0, 150) })
	if c.leader(0) != c.members[0] {
		t.Error("leadership moved")
	}
}

// TestTransferToSilentPeerIsRefused covers hashicorp/raft#696: transfers to a peer that does not
// answer, followed by a step-down, made a node refuse every later write.
func TestTransferToSilentPeerIsRefused(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 10)
	g := c.members[0].groups[0]
	hole := func(quota.NodeID, peerv1.Lane) transport.Fault { return transport.Fault{Drop: true} }
	c.members[2].net.SetFault(hole)
	for range 3 {
		start := time.Now()
		if err := g.TransferTo(within(t, patience), "n2"); !errors.Is(err, ErrNotReady) {
			t.Fatalf("transfer to a silent peer: %v", err)
		}
		if d := time.Since(start); d > patience/2 {
			t.Errorf("refused after %v", d)
		}
		c.apply(0, 10) // no transfer is in progress
	}
	c.members[0].net.SetFault(hole) // now the leader loses its quorum
	c.eventually(5*time.Second, "the leader steps down", func() bool { return !g.leads() })
	c.members[0].net.SetFault(nil)
	c.members[2].net.SetFault(nil)
	c.eventually(10*time.Second, "a leader serves", c.allServed)
	c.eventually(10*time.Second, "leadership can be handed to the node again, and it accepts writes", func() bool {
		m := c.leader(0)
		if m == nil {
			return false
		}
		if m != c.members[0] {
			_ = m.groups[0].TransferTo(within(t, patience), "n0")
			return false
		}
		_, err := g.Apply(within(t, patience), []byte("x"))
		return err == nil
	})
}

func TestTransfer(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 10)
	time.Sleep(300 * time.Millisecond) // wait for a heartbeat
	start := time.Now()
	if err := c.members[0].groups[0].TransferTo(within(t, patience), "n1"); err != nil {
		t.Fatal(err)
	}
	c.eventually(2*time.Second, "n1 serves", func() bool { return c.leader(0) == c.members[1] })
	t.Logf("transferred in %v", time.Since(start).Round(time.Microsecond))
	for _, id := range []quota.NodeID{"n1", "nobody"} {
		if err := c.members[1].groups[0].TransferTo(within(t, patience), id); !errors.Is(err, ErrNotReady) {
			t.Errorf("transfer to %s: %v", id, err)
		}
	}
	if err := c.members[0].groups[0].TransferTo(within(t, patience), "n1"); !errors.Is(err, ErrNotLeader) {
		t.Errorf("transfer by a follower: %v", err)
	}
}

// TestWatchdogRestartsReplica checks that a leader that refuses everything because of a transfer
// gets a new raft instance and applies nothing twice.
func TestWatchdogRestartsReplica(t *testing.T) {
	testspeed.Full(t)
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	c.apply(0, 40)
	g := c.members[0].groups[0]
	if err := g.Snapshot(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	c.apply(0, 40)
	old := g.cur.Load()
	g.watch.note(g, old, raft.ErrLeadershipTransferInProgress)
	g.watch.note(g, old, nil) // interrupts the series of refusals
	g.watch.since = time.Now().Add(-time.Hour)
	g.watch.note(g, old, raft.ErrLeadershipTransferInProgress)
	c.eventually(5*time.Second, "a new instance", func() bool { i := g.cur.Load(); return i != nil && i != old })
	c.eventually(10*time.Second, "a leader", c.allServed)
	c.apply(0, 40)
	c.eventually(5*time.Second, "all replicas are equal", func() bool { return c.equal(0, 120) })
}

// TestRestartOfFollowerReplaysNothing checks that entries applied before several restarts,
// without any snapshot, are not applied again.
func TestRestartOfFollowerReplaysNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.awaitPreferred()
	g := c.members[2].groups[0]
	for range 3 {
		c.apply(0, 20)
		g.replace(g.cur.Load(), func() error { return nil })
	}
	c.apply(0, 20)
	c.eventually(5*time.Second, "all replicas are equal", func() bool { return c.equal(0, 80) })
	if f := c.members[2].machines[0].fault; f != "" {
		t.Error(f)
	}
}
