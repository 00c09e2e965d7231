package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testGrantWait and testAskWait are long, so that a busy machine refuses nothing that an
// idle one would admit.
const (
	testGrantWait = time.Second
	testAskWait   = 5 * time.Second
)

// steadyTiming is for tests that are not about elections: a node that gets no CPU for a second or
// more on a busy machine does not lose its leaderships. The first election is as fast as by default.
func steadyTiming() raftgroup.Timing {
	return raftgroup.Timing{Heartbeat: 2500 * time.Millisecond, Election: 2500 * time.Millisecond, Lease: 2 * time.Second, Commit: time.Second}
}

// quick is for tests that wait for elections: nodes detect the loss of a leader as fast as by default.
func quick(cfg *Config) { cfg.Timing = raftgroup.DefaultTiming() }

// threeNodes is a cluster of three nodes in this process.
type threeNodes struct {
	t      testing.TB
	ranges int
	dir    string
	addrs  map[quota.NodeID]string
	nodes  map[quota.NodeID]*Node // the running nodes
	change []func(*Config)        // apply to every node's settings
}

// newThreeNodes starts three nodes and waits until all are ready.
func newThreeNodes(t testing.TB, ranges int, change ...func(*Config)) *threeNodes {
	t.Helper()
	c, listeners := bookThreeNodes(t, ranges)
	c.change = change
	for _, id := range c.ids() {
		c.start(id, listeners[id])
	}
	c.awaitReady(3 * time.Minute) // a busy machine only takes longer, most of all to create many files
	return c
}

// bookThreeNodes reserves addresses for three nodes, and starts none.
func bookThreeNodes(t testing.TB, ranges int) (*threeNodes, map[quota.NodeID]net.Listener) {
	t.Helper()
	c := &threeNodes{t: t, ranges: ranges, dir: t.TempDir(), addrs: map[quota.NodeID]string{}, nodes: map[quota.NodeID]*Node{}}
	listeners := map[quota.NodeID]net.Listener{}
	for _, id := range []quota.NodeID{"n1", "n2", "n3"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[id], c.addrs[id] = l, l.Addr().String()
	}
	t.Cleanup(c.end)
	return c, listeners
}

func (c *threeNodes) ids() []quota.NodeID { return slices.Sorted(maps.Keys(c.addrs)) }

// running returns the running nodes, sorted by id.
func (c *threeNodes) running() []*Node {
	var out []*Node
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		out = append(out, c.nodes[id])
	}
	return out
}

// config returns the settings of a node; with a nil l it listens at its earlier address.
func (c *threeNodes) config(id quota.NodeID, l net.Listener) Config {
	c.t.Helper()
	for end := time.Now().Add(patience); l == nil; time.Sleep(5 * time.Millisecond) {
		var err error
		if l, err = net.Listen("tcp", c.addrs[id]); err != nil && time.Now().After(end) {
			c.t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("QUORATE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", id)
	}
	cfg := Config{
		Cluster: "test", Self: id, Nodes: maps.Clone(c.addrs), Listener: l, Dir: filepath.Join(c.dir, string(id)),
		Ranges: c.ranges, Replicas: 3, Sync: 100 * time.Millisecond, MaxKeys: 10_000, Idle: time.Minute,
		GrantWait: testGrantWait, AskWait: testAskWait, Timing: steadyTiming(), SlowDisk: -1, Logger: log, Registry: prometheus.NewRegistry(), Version: "test",
	}
	for _, change := range c.change {
		change(&cfg)
	}
	return cfg
}

func (c *threeNodes) start(id quota.NodeID, l net.Listener) {
	c.t.Helper()
	n, err := Start(c.config(id, l))
	if err != nil {
		c.t.Fatalf("start %s: %v", id, err)
	}
	c.nodes[id] = n
}

// stop closes the nodes that still run.
func (c *threeNodes) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, n := range c.running() {
		if err := n.Close(ctx); err != nil {
			c.t.Errorf("close %s: %v", n.cfg.Self, err)
		}
	}
	c.nodes = map[quota.NodeID]*Node{}
}

// end ends a test. It closes one node in order and the others at once, because the remaining nodes
// would wait for each other.
func (c *threeNodes) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for i, n := range c.running() {
		if i == 0 {
			if err := n.Close(ctx); err != nil {
				c.t.Errorf("close %s: %v", n.cfg.Self, err)
			}
			continue
		}
		wg.Go(func() {
			if err := n.Kill(); err != nil {
				c.t.Errorf("kill %s: %v", n.cfg.Self, err)
			}
		})
	}
	wg.Wait()
	c.nodes = map[quota.NodeID]*Node{}
}

// kill stops a node as a crash would.
func (c *threeNodes) kill(id quota.NodeID) {
	c.t.Helper()
	n := c.nodes[id]
	delete(c.nodes, id)
	if err := n.Kill(); err != nil {
		c.t.Fatalf("kill %s: %v", id, err)
	}
}

func (c *threeNodes) awaitReady(within time.Duration) {
	c.t.Helper()
	c.eventually(within, "all nodes are ready", func() error {
		for _, n := range c.running() {
			if err := led(n.Status()); err != nil {
				return fmt.Errorf("%s: %w", n.cfg.Self, err)
			}
		}
		return nil
	})
}

// led returns an error unless a node is ready and knows the leaders of all groups. A node may be ready
// without knowing them.
func led(st *quoratev1.GetStatusResponse) error {
	if !st.Ready {
		return errors.New(st.Reason)
	}
	for _, r := range st.Ranges {
		if r.Leader == "" {
			return fmt.Errorf("range %d has no leader", r.Id)
		}
	}
	if st.MetaLeader == "" {
		return errors.New("the meta group has no leader")
	}
	return nil
}

// patience is the timeout for what should happen soon: a busy machine only takes longer.
const patience = time.Minute

// eventually polls until check returns nil, and fails the test after within, or after a minute if
// within is shorter.
func (c *threeNodes) eventually(within time.Duration, what string, check func() error) {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if took := time.Since(began); took > max(within, patience) {
			c.t.Fatalf("not after %v; wanted within %v: %s: %v", took, within, what, err)
		}
	}
}

// apply sets the limits through any node.
func (c *threeNodes) apply(limits ...quota.Limit) {
	c.t.Helper()
	c.eventually(patience, "limits are applied", func() error {
		_, _, err := c.running()[0].SetLimits(c.t.Context(), limits)
		if err != nil && !withoutLeader(err) {
			c.t.Fatalf("limits: %v", err)
		}
		return err
	})
}

// withoutLeader reports whether err is that of a change for want of a leader: it was not made or, if a
// node had begun with it, may have been made.
func withoutLeader(err error) bool {
	var none *quota.NoLeaderError
	var unknown *quota.UnknownOutcomeError
	return errors.As(err, &none) || errors.As(err, &unknown)
}

// leaderOf returns the node that leads the range of a key.
func (c *threeNodes) leaderOf(k quota.Key) quota.NodeID {
	return quota.NodeID(c.running()[0].Status().Ranges[shard.Of(k, c.ranges)].Leader)
}

// keyLedBy returns a key of the limit whose range that node leads.
func (c *threeNodes) keyLedBy(l quota.LimitName, id quota.NodeID, prefix string) quota.Key {
	c.t.Helper()
	var k quota.Key
	c.eventually(patience, fmt.Sprintf("a key is led by %s", id), func() error { // ranges that it lost on a busy machine come back to it
		for i := range 10_000 {
			if k = (quota.Key{LimitName: l, Key: fmt.Sprintf("%s%d", prefix, i)}); c.leaderOf(k) == id {
				return nil
			}
		}
		return errors.New("none is")
	})
	return k
}

// rate returns what the leaders report of a key.
func (c *threeNodes) rate(k quota.Key) (*quoratev1.KeyRate, error) {
	res, err := c.running()[0].TopRates(c.t.Context(), &quoratev1.TopRatesRequest{Top: apiproto.MaxTop, Namespace: k.Namespace, Limit: k.Limit})
	if err != nil {
		return nil, err
	}
	for _, r := range res.Keys {
		if r.Key == k.Key {
			return r, nil
		}
	}
	return nil, fmt.Errorf("no leader reports %v; %d of %d ranges were heard", k, res.RangesCovered, res.RangesTotal)
}

// awaitRemaining waits until the leader reports that want of a key remains.
func (c *threeNodes) awaitRemaining(k quota.Key, want int64) {
	c.t.Helper()
	c.eventually(30*time.Second, fmt.Sprintf("%v has %d left", k, want), func() error {
		r, err := c.rate(k)
		if err == nil && r.Remaining != want {
			err = fmt.Errorf("it has %d left (%v)", r.Remaining, r)
		}
		return err
	})
}

// awaitLogged waits until the logs of all nodes say that these keys are used up.
func (c *threeNodes) awaitLogged(keys ...quota.Key) {
	c.t.Helper()
	c.eventually(patience, "the logs have what was used", func() error {
		for _, n := range c.running() {
			for _, k := range keys {
				logged := n.ranges.Of(shard.Of(k, c.ranges)).Machine.Levels()
				if !slices.ContainsFunc(logged, func(l quota.KeyLevel) bool { return l.Key == k && l.Level < quota.Token }) {
					return fmt.Errorf("%s has %d levels, and not that %v is used up", n.cfg.Self, len(logged), k)
				}
			}
		}
		return nil
	})
}

// awaitAdmitted waits until the leader has booked want of a key.
func (c *threeNodes) awaitAdmitted(k quota.Key, want int64) {
	c.t.Helper()
	c.eventually(30*time.Second, fmt.Sprintf("%d of %v are booked", want, k), func() error {
		r, err := c.rate(k)
		if err == nil && r.Admitted != want {
			err = fmt.Errorf("it has %d (%v)", r.Admitted, r)
		}
		return err
	})
}

// lateness measures how late a goroutine wakes up, which is delay that the machine causes and not the
// product. end stops the measurement and returns the longest delay.
func lateness() (end func() time.Duration) {
	const pause = time.Millisecond
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				longest <- most
				return
			case <-time.After(pause):
				most = max(most, time.Since(last)-pause)
			}
		}
	}()
	return func() time.Duration { close(stop); return <-longest }
}

// moveMetaLeader moves the leadership of the meta group after each pause, until stop, and counts that in moved. stop
// fails the test if it never moved.
func (c *threeNodes) moveMetaLeader(pause time.Duration) (moved *atomic.Int64, stop func()) {
	moved = new(atomic.Int64)
	ctx, cancel := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; backoff.Sleep(ctx, pause) == nil; i++ {
			for _, n := range c.running() {
				if g := n.host.Group(raftgroup.MetaGroup); g != nil && g.TransferTo(c.t.Context(), c.ids()[i%3]) == nil {
					moved.Add(1)
				}
			}
		}
	})
	return moved, func() {
		cancel()
		wg.Wait()
		c.t.Logf("leadership moved %d times", moved.Load())
		if moved.Load() == 0 {
			c.t.Error("leadership never moved: nothing was tested")
		}
	}
}

// limit returns a limit that refills nothing while a test runs.
func limit(name string, burst int64, ceiling quota.Ceiling) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: name},
		Rate:      quota.Rate{Tokens: 5, Per: time.Hour}, Burst: burst, Ceiling: ceiling,
	}
}

// use takes tokens through a node, one by one. It retries, because the last tokens of a hard limit
// may be spread over several nodes for a moment.
func use(t testing.TB, n *Node, k quota.Key, tokens int) {
	t.Helper()
	for i := range tokens {
		d := n.Check(k, 1)
		for end := time.Now().Add(patience); !d.Allowed && time.Now().Before(end); d = n.Check(k, 1) {
			time.Sleep(300 * time.Millisecond) // lets the nodes report
		}
		if !d.Allowed {
			t.Fatalf("check %d of %v on %s: refused: %v", i, k, n.cfg.Self, d.Why)
		}
	}
}

func key(ns, limit, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: ns, Limit: limit}, Key: k}
}
