package systemtest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/testspeed"
)

const moveLimits = `
version: 1
namespaces:
  api:
    limits:
      slow: {rate: 5/h, burst: 5, ceiling: hard}
`

// threeJoined starts a cluster of three nodes, with room for more.
func threeJoined(t *testing.T, room int) *joinedCluster {
	t.Helper()
	c := newJoinedCluster(t, 8, room)
	c.begin(c.nodes[0])
	path := filepath.Join(c.dir, "limits.yaml")
	write(t, path, moveLimits)
	if _, msg, code := quorate(t, "limits", "apply", path, "--addr", c.nodes[0].grpc); code != 0 {
		t.Fatalf("limits apply: exit code %d\n%s", code, msg)
	}
	t.Logf("three nodes after %v", c.join(c.nodes[1], c.nodes[2]).Round(100*time.Millisecond))
	return c
}

// node returns the status of a node as another node sees it. Its Leads field says how many ranges
// the node leads, and Holds how many it has replicas of.
func (c *joinedCluster) node(via *server, id string) (*quoratev1.NodeStatus, error) {
	st, err := c.status(via)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(st.GetNodes(), func(n *quoratev1.NodeStatus) bool { return n.GetId() == id })
	if i < 0 {
		return nil, fmt.Errorf("%s is no member", id)
	}
	return st.Nodes[i], nil
}

// TestMoves checks the changes that operators make to live nodes.
func TestMoves(t *testing.T) {
	testspeed.Full(t)
	c := threeJoined(t, 4)
	n1, n2, n3 := c.nodes[0], c.nodes[1], c.nodes[2]
	c.balanced()
	c.must(n3, quoratev1.NodeChange_NODE_CHANGE_DRAIN)
	began := time.Now()
	eventually(t, 20*time.Second, "n3 leads nothing", func() error {
		n, err := c.node(n1, "n3")
		if err == nil && (n.GetLeads() > 0 || n.GetReplicas() != 8 || n.GetState() != quoratev1.NodeState_NODE_STATE_DRAINING) {
			err = fmt.Errorf("%v", n)
		}
		return err
	})
	t.Logf("drained after %v", time.Since(began).Round(10*time.Millisecond))
	began = time.Now()
	c.must(n3, quoratev1.NodeChange_NODE_CHANGE_ACTIVATE)
	c.settle()
	t.Logf("active again after %v", time.Since(began).Round(10*time.Millisecond))

	// The node restarts at another node's address, and the others find it there.
	free := c.nodes[3]
	n2.interrupt(syscall.SIGTERM, 20*time.Second)
	n2.httpAddr, n2.grpc, n2.peer = free.httpAddr, free.grpc, free.peer
	c.calls[n2] = c.calls[free]
	began = time.Now()
	c.begin(n2, append([]string{"--host", "127.0.0.1"}, n2.place()...)...)
	c.settle()
	for _, s := range []*server{n1, n3} {
		if n, err := c.node(s, "n2"); err != nil || n.GetPeerAddress() != n2.peer || n.GetGrpcAddress() != n2.grpc || !n.GetConnected() {
			t.Errorf("%s: n2 is %v, %v; want it at %s", s.id, n, err, n2.peer)
		}
	}
	t.Logf("at another address, and all as before %v after its start", time.Since(began).Round(10*time.Millisecond))

	lead, _ := c.most(n1)
	to := n2
	if lead == n2 {
		to = n1
	}
	c.transfer(lead, to)
}

// most returns the node that leads the most ranges.
func (c *joinedCluster) most(via *server) (*server, error) {
	st, err := c.status(via)
	best := slices.MaxFunc(st.GetNodes(), func(a, b *quoratev1.NodeStatus) int { return cmp.Compare(a.GetLeads(), b.GetLeads()) })
	return c.server(best.GetId()), err
}

// transfer moves all leaderships of one node to another, and waits until the balance is restored.
func (c *joinedCluster) transfer(from, to *server) {
	c.t.Helper()
	var res *quoratev1.TransferLeadershipResponse
	c.call("transfer", func(ctx context.Context, s quoratev1.ClusterServiceClient) (err error) {
		res, err = s.TransferLeadership(ctx, &quoratev1.TransferLeadershipRequest{From: from.id, To: to.id})
		return err
	})
	if res.GetMoved() == 0 || len(res.GetFaults()) > 0 {
		c.t.Errorf("transfer: %v", res)
	}
	c.t.Logf("%d ranges handed from %s to %s", res.GetMoved(), from.id, to.id)
}

func (c *joinedCluster) must(s *server, what quoratev1.NodeChange) {
	c.t.Helper()
	if err := c.change(s, what); err != nil {
		c.t.Fatalf("%v of %s: %v", what, s.id, err)
	}
}

// TestDeadNodes checks that the cluster replaces nodes that do not come back, and keeps those that
// it must not give up.
func TestDeadNodes(t *testing.T) {
	testspeed.Full(t)
	t.Setenv("QUORATE_DEAD_AFTER", "5s")
	c := threeJoined(t, 4)
	n1, n2, n3, n4 := c.nodes[0], c.nodes[1], c.nodes[2], c.nodes[3]
	slow := key("api", "slow", "k")
	c.take(n1, slow.Key, 5)

	// All three replicas are on the three nodes: no node can replace the dead one.
	n3.kill()
	for _, via := range c.running() { // another node may not have noticed the death yet
		eventually(t, 5*time.Second, fmt.Sprintf("%s sees that n3 is dead", via.id), func() error {
			n, err := c.node(via, "n3")
			if err == nil && n.GetConnected() {
				err = fmt.Errorf("%v", n)
			}
			return err
		})
	}
	if err := c.change(n3, quoratev1.NodeChange_NODE_CHANGE_LEAVE); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a dead node leaves: %v", err)
	}
	if err := c.change(n2, quoratev1.NodeChange_NODE_CHANGE_REMOVE); err == nil || !strings.Contains(err.Error(), "is alive") {
		t.Errorf("a live node is removed: %v", err)
	}
	time.Sleep(6500 * time.Millisecond) // longer than QUORATE_DEAD_AFTER
	st, err := c.status(n1)
	if err != nil || len(st.GetNodes()) != 3 {
		t.Fatalf("members: %v, %v", st.GetNodes(), err)
	}
	for _, r := range st.GetRanges() {
		if len(r.GetReplicas()) != 3 {
			t.Errorf("range %d was made smaller: %v", r.GetId(), r)
		}
	}

	// With a fourth node, the cluster gives the dead one up by itself.
	token := c.token(time.Minute, 1)
	c.joining(n4, token, addrsOf(c.running()))
	began := time.Now()
	c.serves(n4)
	c.settle()
	t.Logf("a node joined and the dead one was given up after %v", time.Since(began).Round(100*time.Millisecond))
	c.notTaken(n3)

	// kill -9 of all nodes, and all come back.
	for _, s := range c.running() {
		s.kill()
	}
	began = time.Now()
	for _, s := range []*server{n1, n2, n4} {
		s.process = start(t, nil, "serve", "--data", s.dir)
	}
	for _, s := range []*server{n1, n2, n4} {
		c.serves(s)
	}
	c.settle()
	t.Logf("all killed: all as before %v after the start", time.Since(began).Round(100*time.Millisecond))
	c.refuses(n1, slow.Key)

	// After a wipe of its disk a node finds its name taken; the operator removes the dead node, and
	// a new one replaces it.
	n4.kill()
	if err := os.RemoveAll(n4.dir); err != nil {
		t.Fatal(err)
	}
	token = c.token(time.Minute, 1)
	if said := c.refused(n4, token); !strings.Contains(said, `"n4"`) {
		t.Errorf("a wiped node under its name: %q", said)
	} else {
		t.Log(said)
	}
	os.RemoveAll(n4.dir)
	os.RemoveAll(n3.dir)
	c.must(n4, quoratev1.NodeChange_NODE_CHANGE_REMOVE)
	began = time.Now()
	c.joining(n3, token, addrsOf(c.running()))
	c.serves(n3)
	c.settle()
	t.Logf("removed, and replaced by a new node after %v", time.Since(began).Round(100*time.Millisecond))
	c.refuses(n3, slow.Key)
}

// notTaken starts a node that the cluster has given up, and checks its log: the others no longer
// know it.
func (c *joinedCluster) notTaken(s *server) {
	c.t.Helper()
	s.process = start(c.t, nil, "serve", "--data", s.dir)
	eventually(c.t, 20*time.Second, s.id+" says that nobody knows it", func() error {
		if !strings.Contains(s.stderr.String(), "does not know a node") {
			return fmt.Errorf("it says:\n%s", tail(s.stderr.String(), 5))
		}
		return nil
	})
	s.kill()
	c.settle()
}

// take uses up tokens of a key of api/slow; refuses checks that the key is used up.
func (c *joinedCluster) take(s *server, k string, tokens int) {
	c.t.Helper()
	unsure := 0 // unanswered checks, which may have taken a token on a slow machine
	eventually(c.t, 10*time.Second, "tokens of "+k, func() error {
		out, msg, code := quorate(c.t, "allow", "api/slow", k, "--addr", s.grpc)
		switch {
		case code > 1:
			unsure++
			return fmt.Errorf("exit code %d: %s%s", code, out, msg)
		case code == 0:
			tokens--
		}
		if used := strings.Contains(out, "over_limit"); tokens > 0 && (tokens > unsure || !used) {
			return fmt.Errorf("%d more: exit code %d: %s%s", tokens, code, out, msg)
		}
		return nil
	})
}

func (c *joinedCluster) refuses(s *server, k string) {
	c.t.Helper()
	if out, msg, code := quorate(c.t, "allow", "api/slow", k, "--addr", s.grpc); code != 1 {
		c.t.Errorf("%s was used up; exit code %d: %s%s", k, code, out, msg)
	}
}
