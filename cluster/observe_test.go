package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/shard"
)

// TestFullStatus: what others know is there, whichever node is asked.
func TestFullStatus(t *testing.T) {
	testspeed.Full(t)
	c := newTrio(t, 4, quick)
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

// TestFullStatusTellsSteps: what the meta leader does is told by all.
func TestFullStatusTellsSteps(t *testing.T) {
	c := newTrio(t, 4)
	c.eventually(20*time.Second, "a step is told", func() error {
		for _, n := range c.running() {
			if n.leadsMeta() {
				n.moves.mu.Lock()
				n.moves.busy[group(2)], n.moves.doing[group(2)] = true, shard.Step{Do: shard.Wait, Why: "of a test"} // the mover leaves it alone
				n.moves.mu.Unlock()
			}
		}
		for _, n := range c.running() {
			for _, r := range n.FullStatus(t.Context()).Ranges {
				if (r.Id == 2) != strings.Contains(r.Step, "of a test") {
					return fmt.Errorf("node %s: range %d: %q", n.cfg.Self, r.Id, r.Step)
				}
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
