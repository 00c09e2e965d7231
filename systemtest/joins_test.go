package systemtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	rpcstatus "google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/testspeed"
)

// refused starts a node that must be refused, and returns its last message.
func (c *joinedCluster) refused(s *server, token string, more ...string) string {
	c.t.Helper()
	file := s.dir + ".token"
	write(c.t, file, token+"\n")
	args := append([]string{"serve", "--data", s.dir, "--join", c.nodes[0].grpc, "--token-file", file}, s.place()...)
	out, msg, code := quorate(c.t, append(args, more...)...)
	if code == 0 {
		c.t.Errorf("%s was let in:\n%s%s", s.id, out, msg)
	}
	_, last, _ := strings.Cut(msg, "quorate: ")
	return last
}

// members returns the IDs of all members, as a node sees them.
func (c *joinedCluster) members(s *server) (out []string, err error) {
	st, err := c.status(s)
	for _, n := range st.GetNodes() {
		out = append(out, n.GetId())
	}
	return out, err
}

// TestJoinRefusals checks that a node that must not join gets the reason, once, and leaves no trace
// in the cluster.
func TestJoinRefusals(t *testing.T) {
	testspeed.Full(t)
	c := newJoinedCluster(t, 4, 3)
	other := newJoinedCluster(t, 4, 2)
	os.Setenv("QUORATE_TLS_DIR", filepath.Join(c.nodes[0].dir, "admin")) //nolint:usetesting // newJoinedCluster has set it for this test
	c.begin(c.nodes[0])
	other.begin(other.nodes[0])
	n2, n3 := c.nodes[1], c.nodes[2]

	good, once := c.token(time.Minute, 1), c.token(time.Minute, 1)
	short, made := c.token(time.Second, 1), time.Now()
	c.joining(n2, once, c.nodes[0].grpc)
	c.serves(n2)
	time.Sleep(time.Until(made.Add(1100 * time.Millisecond))) // until the token has expired
	for _, r := range []struct {
		name, token, want string
		more              []string
	}{
		{"secret", wrongSecret(good), "its secret is wrong", nil},
		{"expired", short, "expired at", nil},
		{"used up", once, "used up", nil},
		{"other cluster", other.token(time.Minute, 1), "another cluster's", nil},
		{"garbage", "open sesame", "token_file: ", nil},
		{"name", good, `"n2"`, []string{"--node", "n2"}},
		{"name in use", good, `"n1"`, []string{"--node", "n1"}},
		{"address", good, "cannot reach the new node", []string{"--host", "192.0.2.1", "--http", n3.httpAddr, "--grpc", n3.grpc, "--peer", n3.peer}},
	} {
		t.Run(r.name, func(t *testing.T) {
			began := time.Now()
			said := c.refused(n3, r.token, r.more...)
			t.Logf("%v: %s", time.Since(began).Round(10*time.Millisecond), said)
			if !strings.Contains(said, r.want) {
				t.Errorf("it says %q; want %q", said, r.want)
			}
			if strings.Contains(said, secretOf(r.token)) {
				t.Error("it shows the secret")
			}
			os.RemoveAll(n3.dir)
		})
	}
	t.Run("level", func(t *testing.T) {
		err := c.try(func(ctx context.Context, s quoratev1.ClusterServiceClient) error {
			_, err := s.Join(ctx, &quoratev1.JoinRequest{Token: good, Node: "n3", PeerAddress: n3.peer, Version: "0.0.1", JoinId: []byte("j")})
			return err
		})
		t.Log(err)
		if rpcstatus.Code(err) != codes.FailedPrecondition && rpcstatus.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "feature level 0; the cluster needs 1") {
			t.Errorf("%v", err)
		}
	})
	ids, err := c.members(c.nodes[0])
	if err != nil || fmt.Sprint(ids) != "[n1 n2]" {
		t.Errorf("members: %v, %v; want n1 and n2", ids, err)
	}
}

// secretOf returns the secret part of a join token.
func secretOf(token string) string {
	if parts := strings.Split(token, "."); len(parts) == 4 {
		return parts[2]
	}
	return "no secret"
}

func wrongSecret(token string) string {
	parts := strings.Split(token, ".")
	swap := map[byte]string{'a': "b"}
	first, ok := swap[parts[2][0]]
	if !ok {
		first = "a"
	}
	parts[2] = first + parts[2][1:]
	return strings.Join(parts, ".")
}

// TestJoinTroubles checks that joins complete although the joiner, the members that it asks, or the
// leader of the meta group fail meanwhile.
func TestJoinTroubles(t *testing.T) {
	testspeed.Full(t)
	c := newJoinedCluster(t, 4, 4)
	n1, n2, n3, n4 := c.nodes[0], c.nodes[1], c.nodes[2], c.nodes[3]
	token := c.beginWithToken(n1, 1)

	// The token is used up when the joiner is killed. The joiner may come back with it.
	c.joining(n2, token, n1.grpc)
	eventually(t, 15*time.Second, "n2 is a member", func() error {
		ids, err := c.members(n1)
		if err == nil && len(ids) < 2 {
			err = fmt.Errorf("%v", ids)
		}
		return err
	})
	n2.kill()
	began := time.Now()
	c.joining(n2, token, n1.grpc)
	c.serves(n2)
	t.Logf("killed while it joined, and serves %v after its next start", time.Since(began).Round(10*time.Millisecond))

	// The first member that the joiner asks is down, and the next one is down for a while.
	token = c.token(time.Minute, 2)
	n1.interrupt(syscall.SIGTERM, 20*time.Second)
	n2.kill()
	began = time.Now()
	c.joining(n3, token, n1.grpc+","+n2.grpc)
	time.Sleep(1500 * time.Millisecond) // the joiner tries several times and logs it once
	if !n3.runs() || !strings.Contains(n3.stderr.String(), "not joined yet; retrying") {
		t.Errorf("%s does not wait for a member:\n%s", n3.id, &n3.stderr)
	}
	n2.process = start(t, nil, "serve", "--data", n2.dir)
	c.begin(n1)
	c.serves(n3)
	if lines := strings.Count(n3.stderr.String(), "not joined yet"); lines > 6 { // once per address and reason
		t.Errorf("it said so %d times:\n%s", lines, said(n3, "not joined yet"))
	}
	t.Logf("no member for a while: serves after %v; it said:\n%s", time.Since(began).Round(10*time.Millisecond), said(n3, "not joined yet"))
	c.settle()

	// The leader of the meta group dies while a node joins.
	st, err := c.status(n3)
	if err != nil {
		t.Fatal(err)
	}
	victim := c.server(st.GetMetaLeader())
	through := addrsOf(c.running())
	victim.kill()
	began = time.Now()
	c.joining(n4, token, through)
	c.serves(n4)
	t.Logf("%s, which led the meta group, died: serves after %v", victim.id, time.Since(began).Round(10*time.Millisecond))
	c.begin(victim)
	c.settle()
}

// beginWithToken starts a cluster of one node and creates a token.
func (c *joinedCluster) beginWithToken(s *server, uses int) string {
	c.t.Helper()
	c.begin(s)
	return c.token(time.Minute, uses)
}

func (c *joinedCluster) server(id string) *server {
	c.t.Helper()
	for _, s := range c.nodes {
		if s.id == id {
			return s
		}
	}
	c.t.Fatalf("no node %q", id)
	return nil
}

// said returns the lines of a node's log that contain a text.
func said(s *server, text string) string {
	var out []string
	for line := range strings.Lines(s.stderr.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// TestRemovedNode checks that a removed node cannot come back with its certificate, which is still
// valid, and can come back with a token. It also checks that a joiner cannot claim an address where
// another process listens.
func TestRemovedNode(t *testing.T) {
	testspeed.Full(t)
	c := newJoinedCluster(t, 1, 3)
	n1, n2, n3 := c.nodes[0], c.nodes[1], c.nodes[2]
	c.begin(n1)
	c.join(n2)
	kept := filepath.Join(c.dir, "kept")
	if err := os.CopyFS(kept, os.DirFS(filepath.Join(n2.dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	n2.interrupt(syscall.SIGTERM, 20*time.Second)
	if err := c.change(n2, quoratev1.NodeChange_NODE_CHANGE_REMOVE); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "n2 is out", func() error {
		ids, err := c.members(n1)
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("%v", ids)
		}
		return err
	})
	back := func() {
		t.Helper()
		if err := os.RemoveAll(n2.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(n2.dir, "pki"), os.DirFS(kept)); err != nil {
			t.Fatal(err)
		}
	}
	back()
	_, msg, code := quorate(t, append([]string{"serve", "--data", n2.dir, "--join", n1.grpc}, n2.place()...)...)
	if code == 0 || !strings.Contains(msg, "was removed from the cluster at") || !strings.Contains(msg, "join-token create") {
		t.Errorf("with its certificate: exit code %d, %s", code, msg)
	}
	_, csr, err := pki.NewKeyAndCSR(pki.Identity{Cluster: "systemtest", Kind: pki.Node, Name: "n3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = c.try(func(ctx context.Context, s quoratev1.ClusterServiceClient) error {
		_, err := s.Join(ctx, &quoratev1.JoinRequest{Token: c.token(time.Minute, 1), Node: n3.id, PeerAddress: n1.grpc, Csr: csr, Version: "0.0.1", Level: membership.Level, JoinId: []byte("j")})
		return err
	})
	if rpcstatus.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "does not answer there") {
		t.Errorf("an address at which another listens: %v", err)
	}
	back()
	c.joining(n2, c.token(time.Minute, 1), n1.grpc)
	c.serves(n2)
}
