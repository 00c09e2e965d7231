package replica

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a node whose logs accept entries at once, and whose messages are dropped.
type fakeNode struct {
	set    *Set
	limits atomic.Pointer[quota.Limits]
	closed bool               // the logs reject everything
	gate   func(entry []byte) // called for each entry, before the log accepts it; nil does nothing
}

// newSet returns the replicas of a single node. It closes them when the test ends.
func newSet(t testing.TB, ranges int, change ...func(*Config)) (*Set, *fakeNode) {
	t.Helper()
	n := &fakeNode{}
	n.setLimits(t)
	cfg := Config{
		Self: "n1", Ranges: ranges, Sync: 100 * time.Millisecond, AskWait: time.Second,
		Now: func() quota.Time { return quota.Time(time.Now().UnixNano()) }, Mono: func() time.Duration { return 0 },
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Refused: prometheus.NewCounter(prometheus.CounterOpts{}),
	}
	for _, f := range change {
		f(&cfg)
	}
	n.set = New(&cfg, n)
	t.Cleanup(n.set.Close)
	return n.set, n
}

func (n *fakeNode) setLimits(t testing.TB, limits ...quota.Limit) {
	t.Helper()
	all, err := quota.NewLimits(1, limits)
	if err != nil {
		t.Fatal(err)
	}
	n.limits.Store(all)
	if n.set != nil {
		n.set.SetLimits(all)
	}
}

func (n *fakeNode) Committed() *quota.Limits { return n.limits.Load() }

func (n *fakeNode) Members(time.Time) ([]quota.NodeID, int)  { return []quota.NodeID{"n1"}, 1 }
func (n *fakeNode) Dead() map[quota.NodeID]quota.Incarnation { return nil }
func (n *fakeNode) Suspects() []quota.NodeID                 { return nil }

func (n *fakeNode) Propose(_ context.Context, r quota.RangeID, entry []byte) error {
	if n.closed {
		return errors.New("closed")
	}
	if n.gate != nil {
		n.gate(entry)
	}
	if err, failed := n.set.Of(r).Machine.Apply(1, n.set.Of(r).term.Load(), entry).(error); failed {
		return err
	}
	return nil
}

func (n *fakeNode) Leads(quota.RangeID, quota.Term)                 {}
func (n *fakeNode) LeadsNoMore(quota.RangeID)                       {}
func (n *fakeNode) Ended(quota.Time, quota.RangeID, *leader.Ledger) {}
func (n *fakeNode) Send(quota.NodeID, *peerv1.Frame)                {}
func (n *fakeNode) Deliver(*quota.Grant, bool)                      {}
func (n *fakeNode) Bounds() bound.Cluster                           { return bound.Cluster{} }

// eventually polls until check returns nil, for at most a minute.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
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

// opens reports a first use of a key, and returns whether the ledger knows the key's limit.
func (r *Replica) opens(term quota.Term, seq quota.Seq, k quota.Key) bool {
	_, ok := r.report(&quota.Report{
		Range: r.ID, Term: term, From: "n1", Incarnation: 1, Seq: seq,
		Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token}},
	}, nil)
	return ok
}
