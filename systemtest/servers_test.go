package systemtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// server is one node, run by quorate serve.
type server struct {
	*process
	id                   string
	dir                  string
	httpAddr, grpc, peer string
	prefix               []string // the command that runs it
	program              string   // other than the built one; "" is that one
}

// servers is a cluster of processes.
type servers struct {
	t      *testing.T
	dir    string
	ranges int
	seed   string // first limits, if any
	quick  bool   // a restarted node may lead again after a second
	nodes  []*server
}

// newServers returns three nodes on ports of this machine and starts none of them.
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

// run starts all nodes and applies the limits when the nodes are ready.
func (c *servers) run(limits string) {
	c.t.Helper()
	for _, s := range c.nodes {
		c.start(s)
	}
	for _, s := range c.nodes {
		if st := c.awaitReady(s, 15*time.Second); c.seed != "" && st.Version != 1 {
			c.t.Fatalf("%s is ready with version %d of the limits; want the first", s.id, st.Version)
		}
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
	fmt.Fprintf(&b, "listen: {http: %q, grpc: %q}\nlog: {level: warn}\ntls: {mode: off}\n", s.httpAddr, s.grpc)
	if c.quick {
		b.WriteString("raft: {balance_after: 1s}\n")
	}
	if c.seed != "" {
		seed := filepath.Join(c.dir, "seed.yaml")
		if _, err := os.Stat(seed); err != nil { // write it once: a node may be reading it
			write(c.t, seed, c.seed)
		}
		fmt.Fprintf(&b, "limits: %s\n", seed)
	}
	path := filepath.Join(c.dir, s.id+".yaml")
	write(c.t, path, b.String())
	program := cmp.Or(s.program, binary)
	s.process = startProcess(c.t, append(append([]string{}, s.prefix...), program, "serve", "--config", path))
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

// apply applies a limit file to the cluster.
func (c *servers) apply(limits string) {
	c.t.Helper()
	if err := c.tryApply(c.addrs(), limits); err != nil {
		c.t.Fatal(err)
	}
}

// tryApply applies a limit file through the nodes at addrs.
func (c *servers) tryApply(addrs, limits string) error {
	path := filepath.Join(c.dir, "limits.yaml")
	write(c.t, path, limits)
	if _, msg, code := quorate(c.t, "limits", "apply", path, "--yes", "--addr", addrs); code != 0 {
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

// leaderOf returns the node that leads the range of a key, according to the rates. The key must
// have been used.
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

// keysLedBy returns one key per limit, whose ranges the node leads. It waits until the node leads a
// range: after a stall of the machine the node may have lost all leaderships.
func (c *servers) keysLedBy(id string, limits ...string) (out []quota.Key) {
	c.t.Helper()
	var st status
	eventually(c.t, 10*time.Second, id+" leads a range", func() (err error) {
		if st, err = c.nodes[0].status(); err == nil && !st.leads(id) {
			err = errors.New("it leads none")
		}
		return err
	})
	for _, l := range limits {
		name, err := quota.ParseLimitName(l)
		if err != nil {
			c.t.Fatal(err)
		}
		k := quota.Key{LimitName: name}
		for i := 0; k.Key == "" || st.Ranges[shard.Of(k, c.ranges)].Leader != id; i++ {
			k.Key = fmt.Sprintf("key%d", i)
		}
		out = append(out, k)
	}
	return out
}

// status holds the fields of GET /v1/status that the tests read.
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

// leads reports whether the node leads any range, according to this status.
func (st *status) leads(id string) bool {
	for _, r := range st.Ranges {
		if r.Leader == id {
			return true
		}
	}
	return false
}

// terms returns the term of each range.
func (st *status) terms() (out []int) {
	for _, r := range st.Ranges {
		out = append(out, r.Term)
	}
	return out
}

// status asks a node for its status. It reports Ready only if the node also knows all leaders: a
// node stays ready for some seconds after it has lost sight of a leader.
func (s *server) status() (st status, err error) {
	err = get("http://"+s.httpAddr+"/v1/status", &st)
	for r := range st.Ranges {
		if st.Ready && st.Ranges[r].Leader == "" {
			st.Ready, st.Reason = false, fmt.Sprintf("range %d has no leader", r)
		}
	}
	if st.Ready && st.MetaLeader == "" {
		st.Ready, st.Reason = false, "the meta group has no leader"
	}
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

// decision is the answer of POST /v1/allow.
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
	d, err := tryAllow(addr, k)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// tryAllow calls a node like allow, and returns an error if the node does not answer.
func tryAllow(addr string, k quota.Key) (decision, error) {
	body, _ := json.Marshal(map[string]string{"namespace": k.Namespace, "limit": k.Limit, "key": k.Key})
	res, err := httpClient.Post("http://"+addr+"/v1/allow", "application/json", bytes.NewReader(body))
	if err != nil {
		return decision{}, err
	}
	defer res.Body.Close()
	d := decision{code: res.StatusCode}
	return d, json.NewDecoder(res.Body).Decode(&d)
}

// take uses tokens of a key through a node. It retries, because another node may hold the last
// tokens of a hard limit for a moment.
func take(t *testing.T, s *server, k quota.Key, tokens int) {
	t.Helper()
	for i := range tokens {
		eventuallyEvery(t, 250*time.Millisecond, 3*time.Second, fmt.Sprintf("%s admits request %d of %v", s.id, i, k), func() error {
			d := allow(t, s.httpAddr, k)
			if !d.Allowed {
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
