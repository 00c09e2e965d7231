package raftgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// Tests that mostly wait run in parallel. Tests that measure time, that depend on which node
// leads, or that change what all hosts share (such as withFullDisk) run alone.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine counts the entries that it applies and detects an entry applied twice.
type machine struct {
	mu    sync.Mutex
	state machineState
	fault string
}

type machineState struct {
	Last, Count uint64
	Hash        uint64 // over all data, in order
}

func (m *machine) Apply(index, term uint64, data []byte) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index <= m.state.Last {
		m.fault = fmt.Sprintf("entry %d applied after %d", index, m.state.Last)
	}
	m.state.Last = index
	if string(data) == "barrier" {
		return nil
	}
	m.state.Count++
	for _, b := range data {
		m.state.Hash = m.state.Hash*1099511628211 + uint64(b)
	}
	return m.state.Count
}

func (m *machine) Snapshot() (func(io.Writer) error, error) {
	s := m.get()
	return func(w io.Writer) error { return json.NewEncoder(w).Encode(s) }, nil
}

func (m *machine) Restore(r io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return json.NewDecoder(r).Decode(&m.state)
}

func (m *machine) get() machineState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// member is one node of a test cluster, across all its restarts.
type member struct {
	id       quota.NodeID
	dir      string
	addr     string
	inc      quota.Incarnation
	net      *transport.Net
	host     *Host
	groups   []*Group // nil for groups that are not open here
	machines []*machine
	joined   bool         // opens its groups with Join
	served   atomic.Int64 // how often it started to serve a group

	mu      sync.Mutex
	leading map[uint32]time.Time // when it started to serve each group
	views   map[uint32]quota.NodeID
}

// files returns the sorted names of the groups of which the node has anything on its disk.
func (m *member) files() (names []string) {
	for g := range uint32(16) {
		var holds bool
		if m.host != nil {
			holds = slices.Contains(m.host.logs.Held(), g)
		} else {
			holds, _ = Holds(m.dir, g)
		}
		if _, err := os.Stat(snapshotDir(m.dir, g)); err == nil || holds {
			names = append(names, GroupName(g))
		}
	}
	return names
}

type cluster struct {
	t       *testing.T
	groups  int
	members []*member
	edit    func(*Config)
	before  func(*cluster) // called before the first node starts
	founded []int          // nodes that have all groups from the start; nil means all
	late    []int          // nodes that do not start at first
	unsure  []atomic.Int64 // by group: number of entries with unknown outcome
}

// steadyTiming is for tests that are not about elections: a leader survives if a busy machine
// leaves a node without a core for a second or more. It does not delay the first election.
func steadyTiming() Timing {
	return Timing{Heartbeat: 2500 * time.Millisecond, Election: 2500 * time.Millisecond, Lease: 2 * time.Second, Commit: time.Second}
}

// quick sets the default timing, for tests that wait for elections.
func quick(c *Config) { c.Timing = DefaultTiming() }

// waitless is for tests that check that nothing waits for an election. Its long timeouts make
// such a wait visible even on a busy machine.
func waitless(c *Config) {
	c.Timing = Timing{Heartbeat: 8 * time.Second, Election: 8 * time.Second, Lease: 6 * time.Second, Commit: time.Second}
}

// newCluster starts three nodes with the given number of groups; group g prefers node g%3.
func newCluster(t *testing.T, groups int, edit func(*Config)) *cluster {
	t.Helper()
	return (&cluster{t: t, groups: groups, edit: edit}).begin(3)
}

// newGrowing starts the given number of nodes with one group that only the first node has; the
// others may join it.
func newGrowing(t *testing.T, nodes int, edit func(*Config)) *cluster {
	t.Helper()
	c := (&cluster{t: t, groups: 1, edit: edit, founded: []int{0}}).begin(nodes)
	c.eventually(5*time.Second, "the first node leads", func() bool { return c.leader(0) == c.members[0] })
	return c
}

func (c *cluster) begin(nodes int) *cluster {
	c.t.Helper()
	t := c.t
	c.unsure = make([]atomic.Int64, c.groups)
	var listeners []net.Listener
	for n := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		c.members = append(c.members, &member{id: quota.NodeID(fmt.Sprintf("n%d", n)), dir: t.TempDir(), addr: l.Addr().String()})
	}
	if c.before != nil {
		c.before(c)
	}
	for n := range c.members {
		if slices.Contains(c.late, n) {
			_ = listeners[n].Close()
			continue
		}
		c.start(n, listeners[n])
	}
	t.Cleanup(c.stop)
	return c
}

// start starts a node. If l is nil, it listens at its previous address.
func (c *cluster) start(n int, l net.Listener) {
	c.t.Helper()
	m := c.members[n]
	for end := time.Now().Add(patience); l == nil; time.Sleep(5 * time.Millisecond) {
		var err error
		if l, err = net.Listen("tcp", m.addr); err != nil && time.Now().After(end) {
			c.t.Fatal(err)
		}
	}
	m.inc++
	m.leading, m.views = map[uint32]time.Time{}, map[uint32]quota.NodeID{}
	var host *Host
	peers := map[quota.NodeID]string{}
	for _, p := range c.members {
		if p != m {
			peers[p.id] = p.addr
		}
	}
	var err error
	m.net, err = transport.New(transport.Config{
		Cluster: "test", Self: m.id, Incarnation: m.inc, Ranges: 16, Listener: l, Peers: peers, Logger: testLog(m.id),
		Handle: func(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) {
			if ask := f.GetCall().GetReplica(); ask != nil {
				answer(progress(host, ask.GetGroup()))
				return
			}
			host.HandleFrame(from, f, answer)
		},
		HandleSnapshot: func(from quota.NodeID, f *peerv1.Frame, body io.Reader) *peerv1.Frame {
			return host.HandleSnapshot(from, f, body)
		},
		OnPeer: func(id quota.NodeID, e transport.Event) {
			if e == transport.Dead || e == transport.Refused {
				host.PeerDead(id)
			}
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := Config{Self: m.id, Dir: m.dir, Net: m.net, Timing: steadyTiming(), Logger: testLog(m.id), ReplicaProgress: askProgress(m.net), SlowDisk: -1}
	if c.edit != nil {
		c.edit(&cfg)
	}
	if host, err = New(cfg); err != nil {
		c.t.Fatal(err)
	}
	m.host = host
	m.net.Start()
	m.groups, m.machines = make([]*Group, c.groups), make([]*machine, c.groups)
	for g := range c.groups {
		switch {
		case c.founded == nil || slices.Contains(c.founded, n):
			c.open(m, uint32(g), false)
		case m.joined:
			c.open(m, uint32(g), true)
		}
	}
}

func (c *cluster) open(m *member, id uint32, join bool) {
	c.t.Helper()
	if err := c.tryOpen(m, id, join); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) tryOpen(m *member, id uint32, join bool) error {
	sm := &machine{}
	g, err := m.host.Open(GroupOptions{
		ID: id, Voters: c.voters(id), FSM: sm, Join: join,
		FirstEntry: func() []byte { return []byte("barrier") },
		OnLeading: func(uint64) {
			m.served.Add(1)
			m.mu.Lock()
			m.leading[id] = time.Now()
			m.mu.Unlock()
		},
		OnFollowing: func() {
			m.mu.Lock()
			delete(m.leading, id)
			m.mu.Unlock()
		},
		OnLeader: func(leader quota.NodeID) {
			m.mu.Lock()
			m.views[id] = leader
			m.mu.Unlock()
		},
	})
	if err == nil {
		m.groups[id], m.machines[id] = g, sm
	}
	return err
}

func (c *cluster) voters(g uint32) []quota.NodeID {
	var out []quota.NodeID
	for _, n := range c.founded {
		out = append(out, c.members[n].id)
	}
	if c.founded != nil {
		return out
	}
	for n := range 3 {
		out = append(out, c.members[(int(g)+n)%3].id)
	}
	return out
}

func progress(h *Host, group uint32) *peerv1.Frame {
	g := h.Group(group)
	if g == nil {
		return &peerv1.Frame{Error: "no such group"}
	}
	last, contact := g.Progress()
	return &peerv1.Frame{Body: &peerv1.Frame_Call{Call: &peerv1.Call{Body: &peerv1.Call_ReplicaResult{
		ReplicaResult: &peerv1.CallReplicaResult{LastIndex: last, LastContactMillis: contact.Milliseconds()},
	}}}}
}

func askProgress(n *transport.Net) func(context.Context, quota.NodeID, uint32) (uint64, time.Duration, error) {
	return func(ctx context.Context, to quota.NodeID, group uint32) (uint64, time.Duration, error) {
		a, err := n.Call(ctx, to, peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Call{Call: &peerv1.Call{
			Body: &peerv1.Call_Replica{Replica: &peerv1.CallReplica{Group: group}},
		}}})
		r := a.GetCall().GetReplicaResult()
		return r.GetLastIndex(), time.Duration(r.GetLastContactMillis()) * time.Millisecond, err
	}
}

// crash stops a node without a goodbye: its connections and its listener first.
func (c *cluster) crash(n int) {
	m := c.members[n]
	if m.host == nil {
		return
	}
	_ = m.net.Close()
	if err := m.host.Kill(); err != nil {
		c.t.Error(err)
	}
	m.host = nil
}

func (c *cluster) stop() {
	for n, m := range c.members {
		for g, sm := range m.machines {
			if sm != nil && sm.fault != "" {
				c.t.Errorf("%s group %d: %s", m.id, g, sm.fault)
			}
		}
		c.crash(n)
	}
}

// leader returns the node that serves a group, or nil if none or several do.
func (c *cluster) leader(g int) *member {
	var found *member
	for _, m := range c.members {
		if m.host == nil || m.groups[g] == nil {
			continue
		}
		if _, _, serving := m.groups[g].Leader(); serving {
			if found != nil {
				return nil
			}
			found = m
		}
	}
	return found
}

// allServed reports whether every group has a serving leader.
func (c *cluster) allServed() bool {
	for g := range c.groups {
		if c.leader(g) == nil {
			return false
		}
	}
	return true
}

// preferred reports whether every group is served by its preferred leader.
func (c *cluster) preferred() bool {
	for g := range c.groups {
		if m := c.leader(g); m == nil || m != c.members[g%3] {
			return false
		}
	}
	return true
}

// awaitPreferred waits until every group is served by its preferred leader. On a busy machine
// other nodes may win first, and the balancer takes its time, so awaitPreferred transfers
// leadership itself after two seconds.
func (c *cluster) awaitPreferred() {
	c.t.Helper()
	began := time.Now()
	c.eventually(patience, "all groups are served by their preferred leaders", func() bool {
		for g := 0; g < c.groups && time.Since(began) > 2*time.Second; g++ {
			if m, to := c.leader(g), c.members[g%3]; m != nil && m != to {
				_ = m.groups[g].TransferTo(within(c.t, patience), to.id)
			}
		}
		return c.preferred()
	})
}

// equal reports whether all live replicas of a group have the same state with count entries, and at
// most as many more as had an unknown outcome.
func (c *cluster) equal(g int, count uint64) bool {
	var states []machineState
	for _, m := range c.members {
		if m.host != nil && m.machines[g] != nil {
			states = append(states, m.machines[g].get())
		}
	}
	unsure := uint64(c.unsure[g].Load())
	for _, s := range states {
		if s.Count < count || s.Count > count+unsure || s.Hash != states[0].Hash {
			return false
		}
	}
	return true
}

// apply applies n entries to a group through its leader, some concurrently. A busy machine may
// cost the group its leader meanwhile: apply proposes an entry again whose outcome is unknown.
func (c *cluster) apply(g, n int) {
	c.t.Helper()
	slots := make(chan struct{}, 64)
	var wg sync.WaitGroup
	var unsure atomic.Int64
	for k := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for end := time.Now().Add(patience); ; {
				err := c.applyOne(g, fmt.Appendf(nil, "entry %d", k))
				if errors.Is(err, ErrUncertain) && time.Now().Before(end) {
					unsure.Add(1)
					c.unsure[g].Add(1)
					continue
				}
				if err != nil {
					c.t.Errorf("group %d entry %d: %v", g, k, err)
				}
				return
			}
		})
	}
	wg.Wait()
	if u := unsure.Load(); u > 0 {
		c.t.Logf("group %d: %d outcomes were unknown, of %d entries", g, u, n)
	}
}

// applyOne proposes an entry to the leader of a group until one accepts it.
func (c *cluster) applyOne(g int, data []byte) error {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := ErrNotLeader
		if m := c.leader(g); m != nil {
			_, err = m.groups[g].Apply(within(c.t, patience), data)
		}
		nothing := errors.Is(err, ErrNotLeader) || errors.Is(err, ErrTransferring) || errors.Is(err, ErrOverloaded)
		if !nothing || time.Now().After(end) {
			return err
		}
	}
}

// patience bounds waits for events that should happen at once but take longer on a busy machine.
const patience = time.Minute

// slow bounds an election in these tests, which share a machine with others. make system checks
// the real bound of two seconds.
const slow = 30 * time.Second

// eventually waits until ok returns true, for d or at least a minute, and returns how long that
// took.
func (c *cluster) eventually(d time.Duration, what string, ok func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for ; time.Since(start) < max(d, patience); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return time.Since(start)
		}
	}
	for g := range c.groups {
		for _, m := range c.members {
			if m.host != nil && m.groups[g] != nil {
				leader, term, serving := m.groups[g].Leader()
				c.t.Logf("%s group %d: leader %q term %d serving %v %+v", m.id, g, leader, term, serving, m.machines[g].get())
			}
		}
	}
	c.t.Fatalf("not after %v; wanted within %v: %s", time.Since(start), d, what)
	return 0
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func testLog(id quota.NodeID) *slog.Logger {
	if os.Getenv("QUORATE_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", id)
}
