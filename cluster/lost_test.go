package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// wipe kills a node and deletes its data.
func (c *threeNodes) wipe(id quota.NodeID) {
	c.t.Helper()
	c.kill(id)
	if err := os.RemoveAll(filepath.Join(c.dir, string(id))); err != nil {
		c.t.Fatal(err)
	}
}

// seeded waits until all nodes know the membership.
func (c *threeNodes) seeded() {
	c.t.Helper()
	c.eventually(20*time.Second, "all know the membership", func() error {
		for _, n := range c.running() {
			if v := n.members.View(); !v.Table.Seeded() {
				return fmt.Errorf("%s does not", n.cfg.Self)
			}
		}
		return nil
	})
}

// keptOut waits until a node reports that it may take no part, and checks that it created no group.
func (c *threeNodes) keptOut(id quota.NodeID) {
	c.t.Helper()
	n := c.nodes[id]
	c.eventually(20*time.Second, string(id)+" is kept out", func() error {
		want := fmt.Sprintf("node %q was a member with data and has returned without it: remove it and join it under a new name", id)
		if st := n.Status(); st.Ready || !strings.Contains(st.Reason, want) {
			return fmt.Errorf("%s", st.Reason)
		}
		return nil
	})
	for g := range uint32(c.ranges + 1) {
		if n.host.Group(g) != nil {
			c.t.Errorf("%s has opened %s", id, raftgroup.GroupName(g))
		}
	}
}

// TestWipedNode checks that a node that comes back without its data is refused, even when it is
// started again. The others go on, and the node can become a member again under a new name.
func TestWipedNode(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("runs nodes for many seconds; left out by -short")
	}
	c := newThreeNodes(t, 2, quick)
	c.apply(limit("daily", 100, quota.Hard))
	c.seeded()
	for _, id := range c.ids() {
		if got, want := c.nodes["n1"].members.View().Member(id).First, c.nodes[id].first; got != want || want == 0 {
			t.Errorf("the first incarnation of %s is %d, the membership has %d", id, want, got)
		}
	}
	c.wipe("n2")
	c.start("n2", nil)
	c.keptOut("n2")
	c.kill("n2")
	c.start("n2", nil)
	c.keptOut("n2")
	for _, id := range []quota.NodeID{"n1", "n3"} {
		c.eventually(20*time.Second, string(id)+" is ready", func() error {
			return led(c.nodes[id].Status())
		})
	}
	use(t, c.nodes["n1"], quota.Key{LimitName: quota.LimitName{Namespace: "test", Limit: "daily"}, Key: "a"}, 3)
	c.kill("n2")
	delete(c.addrs, "n2")
	if _, err := c.nodes["n1"].ChangeCluster(t.Context(), "test", &quoratev1.ChangeNodeRequest{Node: "n2", Change: quoratev1.NodeChange_NODE_CHANGE_REMOVE}); err != nil {
		t.Fatal(err)
	}
	c.join("n4", c.token())
	c.settled(40*time.Second, 3)
	c.eventually(10*time.Second, "n4 has said whose data it has", func() error {
		if m := c.nodes["n1"].members.View().Member("n4"); m == nil || m.First != c.nodes["n4"].first {
			return fmt.Errorf("%+v", m)
		}
		return nil
	})
}

// TestTwoWipedNodes brings back two of three nodes without data. They are a majority, but
// do not start a new history while the third node is up, which still has the data.
func TestTwoWipedNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nodes for many seconds; left out by -short")
	}
	c := newThreeNodes(t, 2, quick)
	c.apply(limit("daily", 100, quota.Hard))
	c.seeded()
	c.wipe("n2")
	c.wipe("n3")
	c.start("n2", nil)
	c.start("n3", nil)
	c.keptOut("n2")
	c.keptOut("n3")
	if got := c.nodes["n1"].Limits().Version; got != 1 {
		t.Errorf("n1 has version %d of the limits", got)
	}
}
