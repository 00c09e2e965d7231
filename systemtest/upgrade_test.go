//go:build upgrade

package systemtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	rpcstatus "google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// earlierCommit is the last one before there was a membership: feature level 0.
const earlierCommit = "19c7a02"

const upgradeLimits = `
version: 1
namespaces:
  api:
    limits:
      soft: {rate: 300/s, burst: 300}
      hard: {rate: 300/s, burst: 300, ceiling: hard}
      day:  {limit: 1000000, per: day, window: calendar, ceiling: hard}
      user: {rate: 10/s, burst: 10}
`

// TestUpgrade replaces the binaries of a cluster, one node after the other, while
// decisions are made and money moves between accounts. The order matters: who
// leads the meta group is replaced first, or last. Building the earlier binary takes
// long, and a checkout may not have its commit: go test -tags upgrade asks for it.
func TestUpgrade(t *testing.T) {
	needBinary(t)
	earlier := buildEarlier(t)
	t.Run("LeaderFirst", func(t *testing.T) {
		u := newUpgrade(t, earlier, earlier, earlier, earlier)
		u.replaceAll("n1", "n2", "n3")
		u.afterwards()
	})
	// One node is new from the first day: it makes groups whose other replicas are
	// of the earlier version.
	t.Run("LeaderLast", func(t *testing.T) {
		u := newUpgrade(t, earlier, earlier, earlier, "")
		u.replaceAll("n2", "n1")
		u.finish()
	})
}

// buildEarlier builds the earlier binary out of the checkout's history.
func buildEarlier(t *testing.T) string {
	t.Helper()
	git := func(args ...string) ([]byte, error) {
		return exec.Command("git", append([]string{"-C", ".."}, args...)...).CombinedOutput()
	}
	if out, err := git("cat-file", "-e", earlierCommit+"^{commit}"); err != nil {
		t.Skipf("commit %s is not in this checkout (a shallow clone?): %v: %s", earlierCommit, err, out)
	}
	dir := t.TempDir()
	tree, path := filepath.Join(dir, "tree"), filepath.Join(dir, "quorate-earlier")
	if out, err := git("worktree", "add", "--force", "--detach", tree, earlierCommit); err != nil {
		t.Fatalf("git worktree add: %v: %s", err, out)
	}
	defer func() {
		if out, err := git("worktree", "remove", "--force", tree); err != nil {
			t.Errorf("git worktree remove: %v: %s", err, out)
		}
	}()
	began := time.Now()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, "./cmd/quorate")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build of %s: %v: %s", earlierCommit, err, out)
	}
	t.Logf("built %s in %v", earlierCommit, time.Since(began).Round(time.Second/10))
	return path
}

// upgrade is a cluster whose binaries are replaced under load.
type upgrade struct {
	t       *testing.T
	c       *servers
	earlier string
	load    *load
	bank    *bank
	stop    context.CancelFunc
	keys    []quota.Key
	limits  int           // how often they were changed
	worst   time.Duration // without a decision of a node that stayed
}

// newUpgrade starts three nodes, each with a binary; "" is the present one.
func newUpgrade(t *testing.T, earlier string, binaries ...string) *upgrade {
	t.Helper()
	u := &upgrade{t: t, c: newServers(t, 8), earlier: earlier}
	for i, s := range u.c.nodes {
		s.earlier = binaries[i]
	}
	u.c.run(upgradeLimits)
	u.limits = 1
	u.override("before", 100)
	u.bank = openBank(t, u.c)
	u.keys = u.c.keysLedBy("n1", "api/soft", "api/hard", "api/day")
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	u.stop = cancel
	u.load = startLoad(ctx, t, u.c.nodes, 100, u.keys...)
	u.bank.open(ctx)
	return u
}

// replaceAll replaces the binaries, and looks at what works in between.
func (u *upgrade) replaceAll(order ...string) {
	u.t.Helper()
	for i, id := range order {
		if i == 0 {
			u.mixed() // does nothing while all are of one version
		}
		u.swap(u.c.node(id), "")
		u.mixed()
	}
}

// swap ends a node as an operator does, and starts it with another binary.
func (u *upgrade) swap(s *server, binary string) {
	u.t.Helper()
	others := u.watch(s)
	began := time.Now()
	if _, code := s.interrupt(syscall.SIGTERM, 15*time.Second); code != 0 {
		u.t.Errorf("%s ended with exit code %d", s.id, code)
	}
	s.earlier = binary
	u.c.start(s)
	for _, o := range u.c.nodes {
		u.c.awaitReady(o, 20*time.Second)
	}
	gap := others()
	u.t.Logf("%s replaced and all ready after %v; the others were without a decision for %v at most", s.id, time.Since(began).Round(time.Millisecond), gap.Round(time.Millisecond))
}

// watch looks at the nodes that stay. The function that it returns says how long
// one of them has decided nothing; an error of one of them is one of the test.
func (u *upgrade) watch(leaves *server) func() time.Duration {
	others, l := u.c.others(leaves), u.load
	for _, s := range others { // who was replaced before has its callers back
		eventually(u.t, 10*time.Second, s.id+" answers the load", func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if silent := time.Since(l.nodes[s.grpc].last); silent > 200*time.Millisecond {
				return fmt.Errorf("not for %v", silent)
			}
			return nil
		})
	}
	before := map[string]int64{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range others {
		n := l.nodes[s.grpc]
		before[s.id], n.gap = n.errors, 0
	}
	return func() (gap time.Duration) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, s := range others {
			n := l.nodes[s.grpc]
			if more := n.errors - before[s.id]; more > 0 {
				u.t.Errorf("%s failed %d checks while %s was replaced, the last: %v", s.id, more, leaves.id, n.lastErr)
			}
			gap = max(gap, n.gap)
		}
		u.worst = max(u.worst, gap)
		return gap
	}
}

// mixed looks at a cluster of two versions: all that both know works through each
// node and is known to all, and all that only one knows is refused in words.
func (u *upgrade) mixed() {
	u.t.Helper()
	var old, present []*server
	for _, s := range u.c.nodes {
		if s.earlier != "" {
			old = append(old, s)
		} else {
			present = append(present, s)
		}
	}
	if len(old) == 0 || len(present) == 0 {
		return
	}
	for _, s := range []*server{old[0], present[0]} {
		u.change(s)
		u.override(fmt.Sprintf("through-%s-%d", s.id, u.limits), 100+u.limits)
	}
	st := u.c.awaitReady(present[0], time.Second)
	leads := map[string]int{}
	for _, r := range st.Ranges {
		leads[r.Leader]++
	}
	u.t.Logf("%d of %d nodes are new; the meta group is led by %s, ranges by %v", len(present), len(u.c.nodes), st.MetaLeader, leads)
	u.refused(present[0], old)
}

// change changes the limits through a node, and waits until all have them.
func (u *upgrade) change(s *server) {
	u.t.Helper()
	u.limits++
	text := strings.Replace(upgradeLimits, "user: {rate: 10/s, burst: 10}", fmt.Sprintf("user: {rate: 10/s, burst: %d}", 10+u.limits), 1)
	path := filepath.Join(u.c.dir, "limits.yaml")
	write(u.t, path, text)
	if _, msg, code := quorate(u.t, "limits", "apply", path, "--addr", s.grpc); code != 0 {
		u.t.Errorf("limits apply through %s: exit code %d: %s", s.id, code, msg)
	}
	for _, o := range u.c.nodes {
		eventually(u.t, 10*time.Second, fmt.Sprintf("%s has version %d of the limits", o.id, u.limits), func() error {
			st, err := o.status()
			if err == nil && st.Version != u.limits {
				err = fmt.Errorf("it has version %d", st.Version)
			}
			return err
		})
	}
}

// override sets one through the first node, and waits until all have it.
func (u *upgrade) override(name string, burst int) {
	u.t.Helper()
	k := key("api", "user", name)
	a, err := try(u.c.nodes[0], http.MethodPut, "/v1/overrides", fields{"overrides": []fields{in(k, "burst", burst)}})
	if err != nil || a.code != http.StatusOK {
		u.t.Fatalf("override %s: %d %s, %v", name, a.code, a.body, err)
	}
	for _, s := range u.c.nodes {
		u.hasOverride(s, name, burst)
	}
}

func (u *upgrade) hasOverride(s *server, name string, burst int) {
	u.t.Helper()
	k := key("api", "user", name)
	eventually(u.t, 5*time.Second, fmt.Sprintf("%s knows the override of %v", s.id, k), func() error {
		if a := post(u.t, s, "/v1/allow", in(k, "cost", 0)); a.Limit.Burst != int64(burst) {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// refused asks a node for what needs feature level 1.
func (u *upgrade) refused(s *server, old []*server) {
	u.t.Helper()
	conn := dialServer(u.t, s)
	cluster, security := quoratev1.NewClusterServiceClient(conn), quoratev1.NewSecurityServiceClient(conn)
	calls := []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"CreateJoinToken", func(ctx context.Context) error {
			_, err := cluster.CreateJoinToken(ctx, &quoratev1.CreateJoinTokenRequest{})
			return err
		}},
		{"Join", func(ctx context.Context) error {
			_, err := cluster.Join(ctx, &quoratev1.JoinRequest{Node: "n4", PeerAddress: "127.0.0.1:1", Level: 1})
			return err
		}},
		{"ChangeNode", func(ctx context.Context) error {
			_, err := cluster.ChangeNode(ctx, &quoratev1.ChangeNodeRequest{Node: "n3", Change: quoratev1.NodeChange_NODE_CHANGE_DRAIN})
			return err
		}},
		{"SetBinding", func(ctx context.Context) error {
			_, err := security.SetBinding(ctx, &quoratev1.SetBindingRequest{Binding: &quoratev1.Binding{Identity: "client:ci", Role: "checker"}})
			return err
		}},
		{"Backup", func(ctx context.Context) error {
			stream, err := quoratev1.NewBackupServiceClient(conn).Backup(ctx, &quoratev1.BackupRequest{})
			if err == nil {
				for err == nil {
					_, err = stream.Recv()
				}
			}
			return err
		}},
	}
	for i, call := range calls {
		ctx, cancel := context.WithTimeout(u.t.Context(), 3*time.Second)
		err := call.do(ctx)
		cancel()
		if rpcstatus.Code(err) != codes.FailedPrecondition || !strings.Contains(fmt.Sprint(err), old[0].id) || !strings.Contains(fmt.Sprint(err), "upgrade") {
			u.t.Errorf("%s on %s while %s is of the earlier version: %v; want a refusal that says which node to upgrade", call.name, s.id, old[0].id, err)
		}
		if i == 0 && u.limits <= 3 {
			u.t.Logf("%s: %v", call.name, err)
		}
	}
}

func dialServer(t *testing.T, s *server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// afterwards is what works once all are new: joins, and keeping the earlier version out.
func (u *upgrade) afterwards() {
	u.t.Helper()
	token := u.token(u.c.nodes[2])
	u.join(token)
	u.comesBack(u.c.node("n2"))
	u.finish()
}

// token waits for the membership, which the cluster makes by itself.
func (u *upgrade) token(s *server) string {
	u.t.Helper()
	began := time.Now()
	cluster := quoratev1.NewClusterServiceClient(dialServer(u.t, s))
	var token string
	eventually(u.t, 10*time.Second, "there is a membership", func() error {
		res, err := cluster.CreateJoinToken(u.t.Context(), &quoratev1.CreateJoinTokenRequest{})
		token = res.GetToken()
		return err
	})
	u.t.Logf("a membership %v after the last node was replaced", time.Since(began).Round(time.Millisecond))
	return token
}

// join has a fourth node join with the token.
func (u *upgrade) join(token string) {
	u.t.Helper()
	base := freeBase(u.t)
	s := &server{id: "n4", dir: filepath.Join(u.c.dir, "n4"), httpAddr: fmt.Sprintf("127.0.0.1:%d", base+11), grpc: fmt.Sprintf("127.0.0.1:%d", base+12), peer: fmt.Sprintf("127.0.0.1:%d", base+13)}
	path := filepath.Join(u.c.dir, "join.token")
	write(u.t, path, token)
	began := time.Now()
	s.process = start(u.t, nil, "serve", "--data", s.dir, "--node", s.id, "--http", s.httpAddr, "--grpc", s.grpc, "--peer", s.peer,
		"--join", u.c.addrs(), "--token-file", path, "--insecure")
	u.c.awaitReady(s, 20*time.Second)
	u.hasOverride(s, "before", 100)
	u.t.Logf("n4 has joined and is ready after %v", time.Since(began).Round(time.Millisecond))
}

// comesBack starts a node with the earlier version again: nobody takes it, and the
// others go on.
func (u *upgrade) comesBack(s *server) {
	u.t.Helper()
	others := u.watch(s)
	s.interrupt(syscall.SIGTERM, 15*time.Second)
	s.earlier = u.earlier
	u.c.start(s)
	want := fmt.Sprintf(`level: the cluster is at feature level 1, node \"%s\" can do 0: upgrade that node`, s.id)
	eventually(u.t, 10*time.Second, "the log of "+s.id+" says that it is too old", func() error {
		if text := s.stderr.String(); !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, `\`, "")) {
			return fmt.Errorf("%s", tail(text, 5))
		}
		return nil
	})
	for _, o := range u.c.others(s) {
		u.c.awaitReady(o, 10*time.Second)
		if d := allow(u.t, o.httpAddr, key("api", "user", "others")); !d.Allowed {
			u.t.Errorf("%s: %+v", o.id, d)
		}
	}
	u.t.Logf("%s with the earlier version is kept out; the others were without a decision for %v at most", s.id, others().Round(time.Millisecond))
	u.swap(s, "")
	u.hasOverride(s, "before", 100)
}

// finish ends the load, and compares what the nodes hold.
func (u *upgrade) finish() {
	u.t.Helper()
	u.stop()
	u.load.wait()
	u.bank.judge()
	for _, s := range u.c.nodes {
		n := u.load.nodes[s.grpc]
		u.t.Logf("%s: %v", s.id, n)
		if n.answers == 0 {
			u.t.Errorf("%s decided nothing", s.id)
		}
	}
	u.t.Logf("longest time that a node which stayed decided nothing: %v", u.worst.Round(time.Millisecond))
	if u.worst >= time.Second {
		u.t.Errorf("a node which stayed decided nothing for %v", u.worst)
	}
	u.agree()
}

// agree compares what nodes answer out of their own replicas.
func (u *upgrade) agree() {
	u.t.Helper()
	for _, path := range []string{"/v1/limits", "/v1/limits/versions", "/v1/overrides?namespace=api&limit=user"} {
		var first string
		for i, s := range u.c.nodes {
			text, err := page("http://" + s.httpAddr + path)
			if err != nil {
				u.t.Errorf("%s: GET %s: %v", s.id, path, err)
			}
			if i == 0 {
				first = text
			} else if text != first {
				u.t.Errorf("GET %s: %s answers\n%s\n%s answers\n%s", path, u.c.nodes[0].id, first, s.id, text)
			}
		}
	}
}

func page(url string) (string, error) {
	res, err := httpClient.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	return string(b), err
}
