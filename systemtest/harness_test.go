package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

var binary string // the built quorate

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	if args := os.Getenv(clientProcessEnv); args != "" {
		return runAsClient(args)
	}
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "quorate-systemtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "quorate")
	build := exec.Command("go", "build", "-o", binary, "../cmd/quorate")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	return m.Run()
}

func needBinary(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs processes; left out by -short")
	}
}

// freeBase returns a base port whose ports for three nodes are free.
func freeBase(t *testing.T) int { return freeBaseOf(t, 3) }

// freeBaseOf is freeBase for up to nine nodes.
func freeBaseOf(t *testing.T, nodes int) int {
	t.Helper()
	bases.Lock()
	defer bases.Unlock()
	for range 100 {
		base := 10_000 + 100*rand.IntN(200) // below the ports that the system gives out
		if !bases.given[base] && portsFree(base, nodes) {
			bases.given[base] = true
			t.Cleanup(func() {
				bases.Lock()
				defer bases.Unlock()
				delete(bases.given, base)
			})
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

// bases are those of tests that run, whose nodes may not have started yet.
var bases = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

func portsFree(base, nodes int) bool {
	for k := 1; k <= nodes; k++ {
		for p := 1; p <= 3; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+10*k+p))
			if err != nil {
				return false
			}
			l.Close()
		}
	}
	return true
}

// output is what a process prints, read while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a quorate that runs until it is told to end.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout output
	stderr output
	ended  chan struct{}
	err    error // of Wait, after ended
}

// start runs quorate; prefix is what runs it, such as ip netns exec.
func start(t *testing.T, prefix []string, args ...string) *process {
	t.Helper()
	return startProcess(t, append(append(append([]string{}, prefix...), binary), args...))
}

func startProcess(t *testing.T, argv []string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s\n%s\n%s", strings.Join(argv, " "), &p.stdout, tail(p.stderr.String(), 60))
		}
	})
	return p
}

func tail(s string, lines int) string {
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// kill ends the process with kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// interrupt sends a signal and returns how long the process took to end, and
// its exit code.
func (p *process) interrupt(sig syscall.Signal, within time.Duration) (time.Duration, int) {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("still runs %v after %v", within, sig)
	}
	return time.Since(began), exitCode(p.err)
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// quorate runs a command to its end.
func quorate(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := cmd.Run()
	if code = exitCode(err); code < 0 {
		t.Fatalf("quorate %v: %v", args, err)
	}
	return out.String(), msg.String(), code
}

// server is one node run by quorate serve.
type server struct {
	*process
	id                   string
	dir                  string
	httpAddr, grpc, peer string
	prefix               []string // what runs it
	earlier              string   // binary of an earlier version that is run instead; it knows no TLS
}

// servers is a cluster of processes.
type servers struct {
	t      *testing.T
	dir    string
	ranges int
	seed   string // first limits, if any
	quick  bool   // who comes back leads again after a second
	nodes  []*server
}

// newServers makes three nodes, not started, on ports of this machine.
func newServers(t *testing.T, ranges int) *servers {
	t.Helper()
	needBinary(t)
	c := &servers{t: t, dir: t.TempDir(), ranges: ranges}
	base := freeBase(t)
	for k := 1; k <= 3; k++ {
		addr := func(p int) string { return fmt.Sprintf("127.0.0.1:%d", base+10*k+p) }
		c.nodes = append(c.nodes, &server{id: fmt.Sprintf("n%d", k), httpAddr: addr(1), grpc: addr(2), peer: addr(3)})
	}
	return c
}

// run starts all nodes and applies the limits when they are ready.
func (c *servers) run(limits string) {
	c.t.Helper()
	for _, s := range c.nodes {
		c.start(s)
	}
	for _, s := range c.nodes {
		eventually(c.t, 15*time.Second, s.id+" has its first limits", func() error {
			if st := c.awaitReady(s, 15*time.Second); c.seed != "" && st.Version != 1 {
				return fmt.Errorf("version %d", st.Version)
			}
			return nil
		})
	}
	c.apply(limits)
}

// start writes the node's settings and starts it.
func (c *servers) start(s *server) {
	c.t.Helper()
	s.dir = filepath.Join(c.dir, s.id)
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: systemtest\nnode: %s\ndata: %s\nranges: %d\nnodes:\n", s.id, s.dir, c.ranges)
	for _, n := range c.nodes {
		fmt.Fprintf(&b, "  - {id: %s, peer: %q}\n", n.id, n.peer)
	}
	fmt.Fprintf(&b, "listen: {http: %q, grpc: %q}\nlog: {level: warn}\n", s.httpAddr, s.grpc)
	if s.earlier == "" {
		b.WriteString("tls: {mode: off}\n")
	}
	if c.quick {
		b.WriteString("raft: {balance_after: 1s}\n")
	}
	if c.seed != "" {
		seed := filepath.Join(c.dir, "seed.yaml")
		if _, err := os.Stat(seed); err != nil { // once: a node may be reading it
			write(c.t, seed, c.seed)
		}
		fmt.Fprintf(&b, "limits: %s\n", seed)
	}
	path := filepath.Join(c.dir, s.id+".yaml")
	write(c.t, path, b.String())
	if s.earlier != "" {
		s.process = startProcess(c.t, []string{s.earlier, "serve", "--config", path})
		return
	}
	s.process = start(c.t, s.prefix, "serve", "--config", path)
}

func (c *servers) node(id string) *server {
	c.t.Helper()
	for _, s := range c.nodes {
		if s.id == id {
			return s
		}
	}
	c.t.Fatalf("no node %q", id)
	return nil
}

func (c *servers) others(s *server) []*server {
	var out []*server
	for _, o := range c.nodes {
		if o != s {
			out = append(out, o)
		}
	}
	return out
}

func (c *servers) addrs() string {
	var out []string
	for _, s := range c.nodes {
		out = append(out, s.grpc)
	}
	return strings.Join(out, ",")
}

// apply gives the cluster a limit file.
func (c *servers) apply(limits string) {
	c.t.Helper()
	if err := c.tryApply(c.addrs(), limits); err != nil {
		c.t.Fatal(err)
	}
}

// tryApply gives it by way of nodes of these addresses.
func (c *servers) tryApply(addrs, limits string) error {
	path := filepath.Join(c.dir, "limits.yaml")
	write(c.t, path, limits)
	if _, msg, code := quorate(c.t, "limits", "apply", path, "--addr", addrs); code != 0 {
		return fmt.Errorf("limits apply: exit code %d\n%s", code, msg)
	}
	return nil
}

func (c *servers) awaitReady(s *server, within time.Duration) status {
	c.t.Helper()
	var st status
	eventually(c.t, within, s.id+" is ready", func() error {
		var err error
		if st, err = s.status(); err == nil && !st.Ready {
			err = errors.New(st.Reason)
		}
		return err
	})
	return st
}

// leaderOf returns the node that leads the range of a key, as the rates say:
// the key must have been used.
func (c *servers) leaderOf(via *server, k quota.Key) *server {
	c.t.Helper()
	var id string
	eventually(c.t, 5*time.Second, "a leader reports "+k.String(), func() error {
		r, err := via.rate(k)
		id = r.Leader
		return err
	})
	return c.node(id)
}

// keysLedBy returns keys whose ranges that node leads, one for each limit.
func (c *servers) keysLedBy(id string, limits ...string) []quota.Key {
	c.t.Helper()
	st, err := c.nodes[0].status()
	if err != nil {
		c.t.Fatal(err)
	}
	var out []quota.Key
	for _, l := range limits {
		name, err := quota.ParseLimitName(l)
		if err != nil {
			c.t.Fatal(err)
		}
		for i := 0; ; i++ {
			k := quota.Key{LimitName: name, Key: fmt.Sprintf("key%d", i)}
			if st.Ranges[shard.Of(k, c.ranges)].Leader == id {
				out = append(out, k)
				break
			}
			if i > 10_000 {
				c.t.Fatalf("%s leads nothing", id)
			}
		}
	}
	return out
}

// status is what GET /v1/status answers, as far as the tests look.
type status struct {
	Ready      bool   `json:"ready"`
	Reason     string `json:"reason"`
	MetaLeader string `json:"meta_leader"`
	Version    int    `json:"limits_version"`
	Ranges     []struct {
		Leader   string   `json:"leader"`
		Term     int      `json:"term"`
		Replicas []string `json:"replicas"`
	} `json:"ranges"`
}

// leads says whether the node leads any range, as this status has it.
func (st *status) leads(id string) bool {
	for _, r := range st.Ranges {
		if r.Leader == id {
			return true
		}
	}
	return false
}

func (s *server) status() (st status, err error) {
	err = get("http://"+s.httpAddr+"/v1/status", &st)
	return st, err
}

// keyRate is one key of GET /v1/rates.
type keyRate struct {
	Key       string `json:"key"`
	Attempted int64  `json:"attempted"`
	Admitted  int64  `json:"admitted"`
	Remaining int64  `json:"remaining"`
	Leader    string `json:"leader"`
}

func (s *server) rate(k quota.Key) (keyRate, error) {
	var res struct {
		Keys []keyRate `json:"keys"`
	}
	if err := get(fmt.Sprintf("http://%s/v1/rates?top=1000&namespace=%s&limit=%s", s.httpAddr, k.Namespace, k.Limit), &res); err != nil {
		return keyRate{}, err
	}
	for _, r := range res.Keys {
		if r.Key == k.Key {
			return r, nil
		}
	}
	return keyRate{}, fmt.Errorf("no leader reports %v", k)
}

// decision is what POST /v1/allow answers.
type decision struct {
	Allowed    bool    `json:"allowed"`
	Remaining  int64   `json:"remaining"`
	Why        string  `json:"why"`
	RetryAfter float64 `json:"retry_after"`
	code       int
}

// allow asks over HTTP, as curl does.
func allow(t *testing.T, addr string, k quota.Key) decision {
	t.Helper()
	body, _ := json.Marshal(map[string]string{"namespace": k.Namespace, "limit": k.Limit, "key": k.Key})
	res, err := httpClient.Post("http://"+addr+"/v1/allow", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	d := decision{code: res.StatusCode}
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// take uses tokens of a key through a node. The last tokens of a hard limit may
// lie with another node for a moment: it asks again.
func take(t *testing.T, s *server, k quota.Key, tokens int) {
	t.Helper()
	for i := range tokens {
		eventually(t, 3*time.Second, fmt.Sprintf("%s admits request %d of %v", s.id, i, k), func() error {
			d := allow(t, s.httpAddr, k)
			if !d.Allowed {
				time.Sleep(250 * time.Millisecond)
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
	}
}

var httpClient = &http.Client{Timeout: 2 * time.Second}

func get(url string, to any) error {
	res, err := httpClient.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, res.Status, body)
	}
	return json.Unmarshal(body, to)
}

// eventually waits for what should be so within that time. Beside others on a machine a
// node may get no processor for seconds, which says nothing of the product: so it waits for a
// minute at least, and tells of what came late. Held to the time itself are only tests that
// have the machine for themselves: make system.
func eventually(t *testing.T, within time.Duration, what string, check func() error) {
	t.Helper()
	began, limit := time.Now(), max(within, leastPatience)
	if soak("SOAK_TARGETS", 0) > 0 {
		limit = within
	}
	for ; ; time.Sleep(10 * time.Millisecond) {
		err := check()
		took := time.Since(began)
		if err == nil {
			if took > within {
				t.Logf("late, after %v instead of %v: %s", took, within, what)
			}
			return
		}
		if took > limit {
			t.Fatalf("not after %v; wanted within %v: %s: %v", took, within, what, err)
		}
	}
}

const leastPatience = time.Minute

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
