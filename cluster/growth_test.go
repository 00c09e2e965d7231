package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// newOne starts a cluster of one node, n1.
func newOne(t testing.TB, ranges int, change ...func(*Config)) *threeNodes {
	t.Helper()
	c := &threeNodes{t: t, ranges: ranges, dir: t.TempDir(), addrs: map[quota.NodeID]string{}, nodes: map[quota.NodeID]*Node{}, change: change}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addrs["n1"] = l.Addr().String()
	t.Cleanup(c.end)
	c.start("n1", l)
	c.awaitReady(15 * time.Second)
	c.eventually(10*time.Second, "a membership", func() error {
		if !c.nodes["n1"].members.View().Table.Seeded() {
			return fmt.Errorf("none")
		}
		return nil
	})
	return c
}

// any returns a running node.
func (c *threeNodes) any() *Node { return c.running()[0] }

// join starts a node that joins with a token.
func (c *threeNodes) join(id quota.NodeID, token string) {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.addrs[id] = l.Addr().String()
	res, err := c.any().ChangeCluster(c.t.Context(), "test", &quoratev1.JoinRequest{
		Token: token, Node: string(id), PeerAddress: c.addrs[id], Level: membership.Level, JoinId: []byte(id),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := c.config(id, l)
	cfg.Join, cfg.Nodes = true, map[quota.NodeID]string{}
	for n, addr := range res.(*quoratev1.JoinResponse).Nodes {
		cfg.Nodes[quota.NodeID(n)] = addr
	}
	n, err := Start(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[id] = n
}

// settled waits until every group matches its placement and has that many voters.
func (c *threeNodes) settled(within time.Duration, voters int) {
	c.t.Helper()
	c.eventually(within, "every group as wanted", func() error {
		res, err := c.any().ChangeCluster(c.t.Context(), "test", &quoratev1.GetPlanRequest{})
		if err != nil {
			return err
		}
		if g := res.(*quoratev1.GetPlanResponse).Groups; len(g) > 0 {
			return fmt.Errorf("%d groups are not, such as %v", len(g), g[0])
		}
		for _, r := range c.any().Status().Ranges {
			if len(r.Replicas) != voters || len(r.Removed) > 0 || r.Leader == "" {
				return fmt.Errorf("range %d: %v", r.Id, r)
			}
		}
		return nil
	})
}

func (c *threeNodes) token() string {
	c.t.Helper()
	res, err := c.any().ChangeCluster(c.t.Context(), "test", &quoratev1.CreateJoinTokenRequest{Uses: 10})
	if err != nil {
		c.t.Fatal(err)
	}
	return res.(*quoratev1.CreateJoinTokenResponse).Token
}

// leave makes a node leave, with force since few nodes may remain, and closes it once it is out.
func (c *threeNodes) leave(id quota.NodeID) {
	c.t.Helper()
	if _, err := c.any().ChangeCluster(c.t.Context(), "test", &quoratev1.ChangeNodeRequest{Node: string(id), Change: quoratev1.NodeChange_NODE_CHANGE_LEAVE, Force: true}); err != nil {
		c.t.Fatal(err)
	}
	select {
	case <-c.nodes[id].Out():
	case <-time.After(2 * patience):
		res, _ := c.any().ChangeCluster(c.t.Context(), "test", &quoratev1.GetPlanRequest{})
		c.t.Fatalf("%s has not left: %v", id, res)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.nodes[id].Close(ctx); err != nil {
		c.t.Error(err)
	}
	delete(c.nodes, id)
	delete(c.addrs, id)
}

// TestGrowth grows a cluster from one node to four and back to one, with limits
// and counts in it.
func TestGrowth(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("runs nodes for many seconds; left out by -short")
	}
	t.Parallel() // it waits most of the time
	c := newOne(t, 4)
	c.apply(limit("daily", 100, quota.Hard))
	k := quota.Key{LimitName: quota.LimitName{Namespace: "test", Limit: "daily"}, Key: "a"}
	use(t, c.nodes["n1"], k, 10)
	token := c.token()
	for i, voters := range []int{1, 3, 3} {
		id := quota.NodeID(fmt.Sprintf("n%d", i+2))
		c.join(id, token)
		c.settled(40*time.Second, voters)
		t.Logf("%s has joined", id)
	}
	for _, id := range []quota.NodeID{"n1", "n2", "n3"} {
		c.leave(id)
		t.Logf("%s has left", id)
	}
	c.settled(30*time.Second, 1)
	if got := c.any().Limits().Version; got != 1 {
		t.Errorf("version %d of the limits, want 1", got)
	}
}

// TestRedundancy checks that a node may not leave, without force, if ranges would have fewer voters
// than replicas asks for, and that no status calls a cluster healthy that the loss of one more
// node would stop.
func TestRedundancy(t *testing.T) {
	testspeed.Full(t)
	t.Parallel()
	c := newThreeNodes(t, 2)
	c.seeded()
	verdict := func(word, text string, tolerates uint32) {
		t.Helper()
		c.eventually(patience, word, func() error {
			st := c.any().FullStatus(t.Context())
			if v := health.Of(st); v.Word != word || !strings.Contains(v.Text, text) || st.GetTolerates() != tolerates {
				return fmt.Errorf("%s: %s; tolerates %d", v.Word, v.Text, st.GetTolerates())
			}
			return nil
		})
	}
	change := func(id string, what quoratev1.NodeChange, force bool) (string, error) {
		res, err := c.any().ChangeCluster(t.Context(), "test", &quoratev1.ChangeNodeRequest{Node: id, Change: what, Force: force})
		if err != nil {
			return "", err
		}
		return res.(*quoratev1.ChangeNodeResponse).Warning, nil
	}
	verdict(health.Healthy, "all with 3 voters", 1)
	if got, err := change("n3", quoratev1.NodeChange_NODE_CHANGE_DRAIN, false); err != nil || got != "" {
		t.Errorf("draining one of three: %q, %v", got, err)
	}
	_, err := change("n3", quoratev1.NodeChange_NODE_CHANGE_LEAVE, false)
	if refused, ok := errors.AsType[*membership.Error](err); !ok || refused.Kind != membership.Forbidden || !strings.Contains(err.Error(), "replicas is 3") {
		t.Fatalf("n3 leaves a cluster of three: %v", err)
	}
	if _, err := change("n3", quoratev1.NodeChange_NODE_CHANGE_ACTIVATE, false); err != nil {
		t.Fatal(err)
	}
	verdict(health.Healthy, "all with 3 voters", 1)
	c.join("n5", c.token())
	c.settled(time.Minute, 3)
	c.kill("n5")
	c.eventually(patience, "all know that n5 is away", func() error {
		for _, n := range c.running() {
			if n.routes.up("n5") {
				return errors.New("not yet")
			}
		}
		return nil
	})
	if _, err := change("n3", quoratev1.NodeChange_NODE_CHANGE_LEAVE, false); err == nil || !strings.Contains(err.Error(), "2 live voters") {
		t.Fatalf("n3 leaves three of four that answer: %v", err)
	}
	if _, err := change("n5", quoratev1.NodeChange_NODE_CHANGE_REMOVE, false); err != nil {
		t.Fatal(err)
	}
	verdict(health.Healthy, "all with 3 voters", 1)
	c.leave("n3")
	verdict(health.Degraded, "tolerates the loss of 0 nodes (replicas: 3 needs 3 nodes, the cluster has 2)", 0)
	if got, err := change("n2", quoratev1.NodeChange_NODE_CHANGE_DRAIN, false); err != nil || !strings.Contains(got, "tolerates the loss of 0 nodes") {
		t.Errorf("draining one of two: %q, %v", got, err)
	}
	c.join("n4", c.token())
	verdict(health.Changing, "node n2 is drained", 1)
	c.kill("n4")
	c.eventually(patience, "n4 removed", func() error {
		got, err := change("n4", quoratev1.NodeChange_NODE_CHANGE_REMOVE, false)
		if err == nil && !strings.Contains(got, "join another node") {
			t.Errorf("removing one of three warns %q", got)
		}
		return err
	})
}

// TestOutcast checks that a node that was removed while it was down, and is started again with
// its data, finds out that it was removed.
func TestOutcast(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("waits for half a minute; left out by -short")
	}
	t.Parallel() // it waits most of the time
	c := newThreeNodes(t, 2)
	c.seeded()
	c.join("n4", c.token())
	c.settled(time.Minute, 3)
	c.kill("n4")
	c.eventually(time.Minute, "n4 may be removed", func() error {
		_, err := c.any().ChangeCluster(t.Context(), "test", &quoratev1.ChangeNodeRequest{Node: "n4", Change: quoratev1.NodeChange_NODE_CHANGE_REMOVE})
		return err
	})
	c.eventually(time.Minute, "n4 is no member", func() error {
		if c.any().members.View().Member("n4") != nil {
			return errors.New("it is")
		}
		return nil
	})
	c.start("n4", nil)
	select {
	case <-c.nodes["n4"].Out():
	case <-time.After(membership.RemovedAfter + patience):
		t.Fatal("it does not know that it is out")
	}
}

// TestStatusOfGrowth checks that, while nodes join, no status calls a range complete before its
// replicas are voters: an operator who believes it might take down a node.
func TestStatusOfGrowth(t *testing.T) {
	testspeed.Full(t)
	c := newOne(t, 16)
	n1, token := c.any(), c.token()
	c.join("n2", token)
	c.join("n3", token)
	looks := 0
	c.eventually(time.Minute, "three voters in every range", func() error {
		st := n1.FullStatus(t.Context())
		three := 0
		for _, r := range st.Ranges {
			leader := c.nodes[quota.NodeID(r.Leader)]
			if r.Step != "" || leader == nil {
				continue
			}
			looks++
			have := votersOf(leader, quota.RangeID(r.Id))
			if st.MembersRevision == n1.Status().MembersRevision && !slices.Equal(have, slices.Sorted(slices.Values(r.Replicas))) {
				t.Fatalf("range %d has voters %q, and the status says that nothing is to be done: %v", r.Id, have, r)
			}
			if len(have) != 3 && len(st.Nodes) == 3 {
				t.Fatalf("of three nodes %q have range %d, and the status says that nothing is to be done: %v", have, r.Id, r)
			}
			if len(have) == 3 {
				three++
			}
		}
		if three < len(st.Ranges) {
			return fmt.Errorf("%d of %d", three, len(st.Ranges))
		}
		return nil
	})
	t.Logf("%d ranges seen to be as wanted", looks)
}

// votersOf returns the voters of a range, as its leader knows them.
func votersOf(n *Node, r quota.RangeID) (out []string) {
	for _, m := range n.host.Group(raftgroup.OfRange(r)).Members() {
		if m.Voter {
			out = append(out, string(m.ID))
		}
	}
	slices.Sort(out)
	return out
}
