package cluster

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestFullStatus checks that the full status has what other nodes know, whichever node is asked.
func TestFullStatus(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4, quick)
	c.eventually(20*time.Second, "lags of the ranges led here", func() error {
		for _, n := range c.running() {
			st := n.FullStatus(t.Context())
			for _, r := range st.Ranges {
				if (r.Lag != nil) != (r.Leader == st.Node) || r.GetLag() < 0 {
					return fmt.Errorf("node %s: range %d of %s: lag %v", st.Node, r.Id, r.Leader, r.Lag)
				}
			}
			for _, s := range st.Nodes {
				if s.Silent != nil || len(s.Faults) > 0 {
					return fmt.Errorf("node %s: %v", st.Node, s)
				}
			}
		}
		return nil
	})
	if n := c.running()[0]; n.FullStatus(t.Context()).String() == "" || len(n.observer.asking) != 0 {
		t.Error("the observer was not given back")
	}

	c.kill("n3")
	c.eventually(20*time.Second, "everybody says that n3 is silent", func() error {
		for _, n := range c.running() {
			st := n.FullStatus(t.Context())
			if s := find(st, "n3"); s.GetSilent().AsDuration() <= 0 || s.Connected {
				return fmt.Errorf("node %s: %v", st.Node, s)
			}
			for _, r := range st.Ranges {
				if r.Lag != nil {
					return fmt.Errorf("node %s: range %d has a lag, though n3 cannot be asked", st.Node, r.Id)
				}
			}
		}
		return nil
	})
}

// TestFullStatusTellsSteps checks that all nodes report the steps of the meta leader. It waits for a member that
// never connects, with the ranges placed on that member.
func TestFullStatusTellsSteps(t *testing.T) {
	c := newThreeNodes(t, 4)
	c.seeded()
	l, err := net.Listen("tcp", "127.0.0.1:0") // something that is no node listens there
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := c.any().ChangeCluster(t.Context(), "test", &quoratev1.JoinRequest{
		Token: c.token(), Node: "n4", PeerAddress: l.Addr().String(), Level: membership.Level, JoinId: []byte("n4"),
	}); err != nil {
		t.Fatal(err)
	}
	c.eventually(20*time.Second, "a step is told", func() error {
		for _, n := range c.running() {
			waits := 0
			for _, r := range n.FullStatus(t.Context()).Ranges {
				if holds := slices.Contains(r.Replicas, "n4"); holds != strings.Contains(r.Step, "n4") {
					return fmt.Errorf("node %s: range %d of %v: %q", n.cfg.Self, r.Id, r.Replicas, r.Step)
				} else if holds {
					waits++
				}
			}
			if waits == 0 {
				return fmt.Errorf("node %s: n4 is to hold no range", n.cfg.Self)
			}
		}
		return nil
	})
}

func find(st *quoratev1.GetStatusResponse, id string) *quoratev1.NodeStatus {
	for _, s := range st.Nodes {
		if s.Id == id {
			return s
		}
	}
	return nil
}
