package cluster

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// loneNode returns a node that is not started.
func loneNode(change ...func(*Config)) *Node {
	cfg := Config{Self: "n1", Nodes: map[quota.NodeID]string{"n1": ""}, Ranges: 1, Sync: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}
	cfg.Replicas = 1
	for _, f := range change {
		f(&cfg)
	}
	settings := cfg.membership(starts{})
	v, err := membership.SettingsView(&settings)
	if err != nil {
		panic(err)
	}
	n := newNode(cfg, v, false, nil, starts{inc: 1})
	n.host = &raftgroup.Host{}
	return n
}

// run starts the member loop, and waits until the node decides by the committed limits.
func run(t testing.TB, n *Node) {
	t.Helper()
	n.Decider.Start()
	t.Cleanup(n.Decider.Close)
	for end := time.Now().Add(patience); n.Limits().Version != n.meta.Current().Version; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("the limits are not in force")
		}
	}
}

func setLimits(n *Node, limits ...quota.Limit) {
	n.meta.Apply(1, 1, snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{SetLimits: control.EncodeLimits(limits, time.Now())}}))
}

// TestLimitsInForce checks that a node announces limits only once it decides by them. Requests
// that rely on an early announcement would find no limit, and pass.
func TestLimitsInForce(t *testing.T) {
	n := loneNode()
	l := limit("a", 10, quota.Hard)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	tells := func(want uint64) {
		t.Helper()
		if got := [...]uint64{n.Limits().Version, n.Status().LimitsVersion, n.beacon().LimitsVersion}; got != [...]uint64{want, want, want} {
			t.Errorf("it has version %d of the limits, tells %d, and %d to its peers; want %d", got[0], got[1], got[2], want)
		}
	}
	setLimits(n, l)
	if d := n.Check(k, 0); d.Why != quota.WhyNoLimit {
		t.Fatalf("before the member loop has run: %+v", d)
	}
	tells(0)
	run(t, n)
	if d := n.Check(k, 0); d.Why == quota.WhyNoLimit {
		t.Errorf("after the member loop has run: %+v", d)
	}
	tells(1)
}

// TestBeaconWaitsForNothing checks that, if the member loop is busy and its inbox full, the news of a leader
// waits for it, but the goroutine that reads the connection does not.
func TestBeaconWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := loneNode()
		go func() {
			for range 10_000 { // more than fits into the inbox
				n.OnMemberLoop(func(quota.Time) {})
			}
		}()
		synctest.Wait()
		read := make(chan struct{})
		go func() {
			n.onBeacon("n2", &peerv1.Beacon{Leads: []*peerv1.Lead{{Range: 0, Term: 7}}})
			close(read)
		}()
		synctest.Wait()
		select {
		case <-read:
		default:
			t.Error("it waits for the inbox")
		}
		n.Decider.Start()
		defer n.Decider.Close()
		synctest.Wait()
		if who, term := n.Aggregator().Leader(0); who != "n2" || term != 7 {
			t.Errorf("the member takes %q for the leader in term %d", who, term)
		}
	})
}

// TestGrownJustNow checks the parts of a hard bucket that a new leader sets aside for silent nodes. A node
// may have been granted its part before another node joined, and no log records that. So the leader sets
// aside parts for the size that the cluster had before it grew, by the clock of the cluster and not its own;
// if all nodes joined just now, for a cluster of one node.
func TestGrownJustNow(t *testing.T) {
	l := limit("l", 12, quota.Hard)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	for name, tc := range map[string]struct {
		ahead time.Duration    // how far the wall clock is ahead of those of most nodes
		ago   [3]time.Duration // how long ago each joined; 0 is a first member
		aside int64            // for the two nodes that have not reported
	}{
		"two long ago, one now":      {0, [3]time.Duration{0, time.Hour, time.Second}, 2 * 6},
		"one now, a clock ahead":     {time.Hour, [3]time.Duration{0, 0, time.Second}, 2 * 6},
		"one from the first":         {0, [3]time.Duration{0, time.Second, time.Second}, 2 * 12},
		"all now":                    {0, [3]time.Duration{time.Second, time.Second, time.Second}, 2 * 12},
		"all of them a minute ago":   {0, [3]time.Duration{time.Minute, time.Minute, time.Minute}, 2 * 4},
		"a minute ago, clock behind": {-time.Hour, [3]time.Duration{0, 0, time.Minute}, 2 * 4},
	} {
		n := loneNode(func(cfg *Config) { cfg.wall = func() time.Time { return time.Now().Add(tc.ahead) } })
		n.clock.Correct(-tc.ahead)
		n.clock.Set()
		var stored []*raftlogv1.StoredMember
		for i, ago := range tc.ago {
			m := &raftlogv1.StoredMember{Id: fmt.Sprintf("n%d", i+1), Peer: "h:1", State: uint32(membership.Active)}
			if ago > 0 {
				m.JoinedUnixNanos = time.Now().Add(-ago).UnixNano()
			}
			stored = append(stored, m)
		}
		n.members = membership.NewService(n.cfg.membership(starts{}), membership.ViewOf(membership.New(&raftlogv1.Membership{Members: stored, Revision: 1}), 1), true, memberNode{part{n}})
		setLimits(n, l)
		r := n.ranges.Of(0)
		for term := range uint64(2) { // another node has led before
			r.Machine.Apply(term+1, term+1, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_TermStart{TermStart: &raftlogv1.TermStart{Node: "n1", AtUnixNanos: int64(n.clock.Now())}}}))
		}
		r.Lead(2)
		g, ok := n.ranges.BookOwn(&quota.Report{Term: 2, From: "n1", Incarnation: 1, Seq: 1, Full: true, Age: 365 * 24 * time.Hour, Entries: []quota.ReportEntry{{Key: k, Epoch: 1}}})
		if !ok || len(g.Entries) != 1 || g.Entries[0].Aside.Tokens() != tc.aside {
			t.Errorf("%s: %+v; want %d tokens set aside", name, g.Entries, tc.aside)
		}
	}
}
