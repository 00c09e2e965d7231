package raftgroup

import (
	"context"
	"errors"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// TestConfirmCountsOnlyNewAnswers delays the answers of followers. An answer to a heartbeat sent
// before the call proves nothing about the present: every confirmation takes at least one full
// round trip.
func TestConfirmCountsOnlyNewAnswers(t *testing.T) {
	t.Parallel() // it mostly waits
	const delay = 150 * time.Millisecond
	c := newCluster(t, 1, nil)
	var lead *member
	c.eventually(5*time.Second, "a leader", func() bool { lead = c.leader(0); return lead != nil })
	if err := lead.groups[0].ConfirmLeadership(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.members {
		if m != lead {
			m.net.SetFault(func(to quota.NodeID, _ peerv1.Lane) transport.Fault { return transport.Fault{Delay: delay} })
		}
	}
	for i := range 12 {
		time.Sleep(time.Duration(i) * 7 * time.Millisecond) // start at different times between two heartbeats
		start := time.Now()
		if err := lead.groups[0].ConfirmLeadership(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < delay {
			t.Errorf("confirmed after %v, by an answer to an older question: one takes %v", took, delay)
		}
	}
}

func TestConfirmNeedsAQuorum(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t, 1, nil)
	var lead *member
	c.eventually(5*time.Second, "a leader", func() bool { lead = c.leader(0); return lead != nil })
	for n, m := range c.members {
		if m == lead {
			continue
		}
		if err := m.groups[0].ConfirmLeadership(within(t, patience)); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower: %v", err)
		}
		defer c.crash(n)
	}
	// The followers' answers are lost: no node can confirm its leadership.
	for _, m := range c.members {
		if m != lead {
			m.net.SetFault(func(quota.NodeID, peerv1.Lane) transport.Fault { return transport.Fault{Drop: true} })
		}
	}
	err := lead.groups[0].ConfirmLeadership(within(t, patience))
	if !errors.Is(err, ErrNotLeader) {
		t.Errorf("without a quorum: %v", err)
	}
	for _, m := range c.members {
		m.net.SetFault(nil)
	}
	c.eventually(10*time.Second, "one leads again", func() bool {
		m := c.leader(0)
		return m != nil && m.groups[0].ConfirmLeadership(within(t, patience)) == nil
	})
}

// TestConfirmLeavesRaftsHeartbeats confirms leadership without pause. Raft does not see the answers, so
// its own heartbeats must go on, or the leader would give up.
func TestConfirmLeavesRaftsHeartbeats(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t, 1, nil)
	var lead *member
	c.eventually(5*time.Second, "a leader", func() bool { lead = c.leader(0); return lead != nil })
	g := lead.groups[0]
	_, term, _ := g.Leader()
	for end := time.Now().Add(3 * g.host.cfg.Timing.Heartbeat); time.Now().Before(end); {
		if err := g.ConfirmLeadership(within(t, patience)); err != nil {
			t.Fatal(err)
		}
	}
	if _, now, serving := g.Leader(); !serving || now != term {
		t.Errorf("term %d, leading %v; want term %d and leading", now, serving, term)
	}
}

// TestConfirmIsShared confirms leadership from many goroutines at once: they share rounds.
func TestConfirmIsShared(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t, 1, nil)
	var lead *member
	c.eventually(5*time.Second, "a leader", func() bool { lead = c.leader(0); return lead != nil })
	g := lead.groups[0]
	before := g.readIndex.rounds.Load()
	const callers = 200
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- g.ConfirmLeadership(ctx) }()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if rounds := g.readIndex.rounds.Load() - before; rounds > callers/2 {
		t.Errorf("%d rounds for %d calls", rounds, callers)
	}
}
