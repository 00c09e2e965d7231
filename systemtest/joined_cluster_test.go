package systemtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/pki"
)

// joinedCluster is a cluster set up as a user does it: with quorate init, join tokens and quorate
// serve --join, and TLS everywhere. Its nodes join and leave.
type joinedCluster struct {
	t     *testing.T
	dir   string
	nodes []*server // every node of the test; process is nil before its first start
	creds credentials.TransportCredentials
	calls map[*server]quoratev1.ClusterServiceClient
}

// newJoinedCluster prepares a cluster of up to room nodes, of which the first is n1. It starts
// none.
func newJoinedCluster(t *testing.T, ranges, room int) *joinedCluster {
	t.Helper()
	needBinary(t)
	c := &joinedCluster{t: t, dir: t.TempDir(), calls: map[*server]quoratev1.ClusterServiceClient{}}
	base := freeBaseOf(t, room)
	for k := 1; k <= room; k++ {
		id := fmt.Sprintf("n%d", k)
		addr := func(p int) string { return fmt.Sprintf("127.0.0.1:%d", base+10*k+p) }
		c.nodes = append(c.nodes, &server{id: id, dir: filepath.Join(c.dir, id), httpAddr: addr(1), grpc: addr(2), peer: addr(3)})
	}
	first := c.nodes[0]
	args := append([]string{"init", "--data", first.dir, "--cluster", "systemtest", "--ranges", strconv.Itoa(ranges)}, first.place()...)
	if out, msg, code := quorate(t, args...); code != 0 {
		t.Fatalf("init: exit code %d\n%s%s", code, out, msg)
	}
	t.Setenv("QUORATE_RAFT_BALANCE_AFTER", "1s") // many nodes join and leave
	t.Setenv("QUORATE_TLS_DIR", filepath.Join(first.dir, "admin"))
	c.creds = c.credentials("admin")
	for _, s := range c.nodes {
		conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(c.creds))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c.calls[s] = quoratev1.NewClusterServiceClient(conn)
	}
	return c
}

// credentials returns the credentials in a directory of the first node.
func (c *joinedCluster) credentials(name string) credentials.TransportCredentials {
	c.t.Helper()
	at := func(file string) string { return filepath.Join(c.nodes[0].dir, name, file) }
	store, err := pki.OpenFiles(pki.Files{CA: at("ca.crt"), Cert: at("client.crt"), Key: at("client.key")}, pki.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	conf := store.ClientConfig(pki.Want{Host: "127.0.0.1"})
	conf.NextProtos = []string{"h2"}
	return credentials.NewTLS(conf)
}

// place returns the flags for the node's ID and addresses.
func (s *server) place() []string {
	return []string{"--node", s.id, "--http", s.httpAddr, "--grpc", s.grpc, "--peer", s.peer}
}

// running returns the nodes whose processes run.
func (c *joinedCluster) running() (out []*server) {
	for _, s := range c.nodes {
		if s.runs() {
			out = append(out, s)
		}
	}
	return out
}

func (s *server) runs() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

func addrsOf(nodes []*server) string {
	var out []string
	for _, s := range nodes {
		out = append(out, s.grpc)
	}
	return strings.Join(out, ",")
}

// begin starts a node that already has data, and waits until it serves.
func (c *joinedCluster) begin(s *server, more ...string) {
	c.t.Helper()
	s.process = start(c.t, nil, append([]string{"serve", "--data", s.dir}, more...)...)
	c.serves(s)
}

// serves waits until a node is ready.
func (c *joinedCluster) serves(s *server) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, s.id+" is ready", func() error {
		if !s.runs() {
			c.t.Fatalf("%s has ended: %v\n%s%s", s.id, s.err, &s.stdout, tail(s.stderr.String(), 20))
		}
		st, err := c.status(s)
		if err == nil && !st.GetReady() {
			err = errors.New(st.GetReason())
		}
		return err
	})
}

// joining starts a node that joins through the given members with a token.
func (c *joinedCluster) joining(s *server, token, through string) {
	c.t.Helper()
	file := s.dir + ".token"
	write(c.t, file, token+"\n")
	s.process = start(c.t, nil, append([]string{"serve", "--data", s.dir, "--join", through, "--token-file", file}, s.place()...)...)
}

// join adds new nodes, all at the same time, and waits until the cluster has settled.
func (c *joinedCluster) join(nodes ...*server) time.Duration {
	c.t.Helper()
	began := time.Now()
	through := addrsOf(c.running())
	token := c.token(time.Minute, len(nodes))
	for _, s := range nodes {
		c.joining(s, token, through)
	}
	for _, s := range nodes {
		c.serves(s)
	}
	c.settle()
	return time.Since(began)
}

// token creates a join token.
func (c *joinedCluster) token(ttl time.Duration, uses int) string {
	c.t.Helper()
	var token string
	c.call("a token", func(ctx context.Context, s quoratev1.ClusterServiceClient) error {
		res, err := s.CreateJoinToken(ctx, &quoratev1.CreateJoinTokenRequest{Ttl: durationpb.New(ttl), Uses: uint32(uses)})
		token = res.GetToken()
		return err
	})
	return token
}

// call makes a call through the first running node; the call must succeed.
func (c *joinedCluster) call(what string, f func(context.Context, quoratev1.ClusterServiceClient) error) {
	c.t.Helper()
	if err := c.try(f); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func (c *joinedCluster) try(f func(context.Context, quoratev1.ClusterServiceClient) error) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 15*time.Second)
	defer cancel()
	return f(ctx, c.calls[c.running()[0]])
}

// change requests a change of a node.
func (c *joinedCluster) change(s *server, what quoratev1.NodeChange) error {
	c.t.Helper()
	return c.try(func(ctx context.Context, cs quoratev1.ClusterServiceClient) error {
		_, err := cs.ChangeNode(ctx, &quoratev1.ChangeNodeRequest{Node: s.id, Change: what})
		return err
	})
}

// leave makes nodes leave, and waits until their processes have exited by themselves and the
// cluster has settled.
func (c *joinedCluster) leave(nodes ...*server) time.Duration {
	c.t.Helper()
	began := time.Now()
	for _, s := range nodes {
		if err := c.change(s, quoratev1.NodeChange_NODE_CHANGE_LEAVE); err != nil {
			c.t.Fatalf("leave %s: %v", s.id, err)
		}
	}
	for _, s := range nodes {
		c.ends(s, 60*time.Second)
	}
	c.settle()
	return time.Since(began)
}

// ends waits until a process has exited by itself, without an error.
func (c *joinedCluster) ends(s *server, within time.Duration) {
	c.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(within):
		c.t.Fatalf("%s still runs %v later; %v", s.id, within, c.unsettled())
	}
	if code := exitCode(s.err); code != 0 {
		c.t.Errorf("%s ended with exit code %d", s.id, code)
	}
}

func (c *joinedCluster) status(s *server) (*quoratev1.GetStatusResponse, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	return c.calls[s].GetStatus(ctx, &quoratev1.GetStatusRequest{})
}

// settle waits until the members of the cluster are exactly the running nodes, and every range has
// its voters and a leader. It does not wait for a fair share of leaderships, which takes until all
// nodes have been members for ten seconds; balanced does.
func (c *joinedCluster) settle() {
	c.t.Helper()
	eventually(c.t, 60*time.Second, "all is where it should be", c.unsettled)
}

func (c *joinedCluster) balanced() {
	c.t.Helper()
	eventuallyEvery(c.t, 50*time.Millisecond, 60*time.Second, "leaderships are shared fairly", func() error {
		st, err := c.status(c.running()[0])
		if err != nil {
			return err
		}
		var low, high int32 = 1 << 20, 0
		for _, n := range st.GetNodes() {
			low, high = min(low, n.GetLeads()), max(high, n.GetLeads())
		}
		if high-low > 2 {
			return fmt.Errorf("a node leads %d ranges, another %d", low, high)
		}
		return nil
	})
}

// unsettled returns an error that says what has not settled yet.
func (c *joinedCluster) unsettled() error {
	time.Sleep(50 * time.Millisecond) // limits the polling rate
	nodes := c.running()
	for _, s := range nodes {
		st, err := c.status(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
		if err := asWanted(st, nodes); err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
	}
	return c.try(func(ctx context.Context, cs quoratev1.ClusterServiceClient) error {
		p, err := cs.GetPlan(ctx, &quoratev1.GetPlanRequest{})
		if err == nil && len(p.GetGroups()) > 0 {
			err = fmt.Errorf("%d groups are not as wanted, such as %v", len(p.Groups), p.Groups[0])
		}
		return err
	})
}

// asWanted returns an error if the status is not that of a ready cluster of exactly these nodes.
func asWanted(st *quoratev1.GetStatusResponse, nodes []*server) error {
	if !st.GetReady() {
		return errors.New(st.GetReason())
	}
	var ids, have []string
	for _, s := range nodes {
		ids = append(ids, s.id)
	}
	for _, n := range st.GetNodes() {
		have = append(have, n.GetId())
	}
	if !slices.Equal(ids, have) {
		return fmt.Errorf("there are %v, not %v", have, ids)
	}
	for _, r := range st.GetRanges() {
		if len(r.GetReplicas()) != replicasOf(len(ids)) || len(r.GetRemoved()) > 0 || !slices.Contains(r.GetReplicas(), r.GetLeader()) {
			return fmt.Errorf("range %d: %v", r.GetId(), r)
		}
	}
	return nil
}

// replicasOf returns how many replicas a range has in a cluster of that many nodes.
func replicasOf(nodes int) int {
	if nodes >= 3 {
		return 3
	}
	return 1
}

// moved counts the steps that moved replicas, from the logs of the nodes.
func (c *joinedCluster) moved() (steps int) {
	for _, s := range c.nodes {
		if s.process != nil {
			steps += strings.Count(s.stderr.String(), "msg=moves")
		}
	}
	return steps
}
