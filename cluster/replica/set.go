package replica

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
	"github.com/quorate/quorate/leader"
)

// Node is what the replicas need of the node that they are on. All methods are called concurrently.
type Node interface {
	// Committed returns the newest limits that the meta group has committed.
	Committed() *quota.Limits
	// Members returns the nodes of the cluster, and how many of them had joined before a moment.
	Members(before time.Time) (ids []quota.NodeID, joined int)
	// Dead returns the nodes whose processes have certainly ended, and before which incarnation.
	Dead() map[quota.NodeID]quota.Incarnation
	// Suspects returns the nodes whose processes have probably ended.
	Suspects() []quota.NodeID

	// Propose writes an entry to the log of a range that this node leads.
	Propose(ctx context.Context, r quota.RangeID, entry []byte) error
	// Leads is told that this node leads a range, once its ledger is there; LeadsNoMore that it does not.
	Leads(r quota.RangeID, term quota.Term)
	LeadsNoMore(r quota.RangeID)
	// Ended is told of a ledger before it is dropped. Its replica is locked.
	Ended(now quota.Time, r quota.RangeID, l *leader.Ledger)

	// Send queues a frame of grants to another node. One that is lost is asked for again.
	Send(to quota.NodeID, f *peerv1.Frame)
	// Deliver hands a grant to this node's own member. If wait is false, and there is no room, it is dropped.
	Deliver(g *quota.Grant, wait bool)

	// Bounds returns what the stated bound of the error depends on, as it is now.
	Bounds() bound.Cluster
}

// Config is what a Set needs to know.
type Config struct {
	Self    quota.NodeID
	Ranges  int
	Sync    time.Duration // interval of reports
	MaxKeys int           // bound on keys of a ledger
	AskWait time.Duration // how long a caller waits for a decide request
	// Now is the cluster's time; Mono is how long the process has been running, whatever clocks were set.
	Now       func() quota.Time
	Mono      func() time.Duration
	Overrides quota.Overrides
	Log       *slog.Logger
	Registry  prometheus.Registerer
	Series    *series.Guard      // bounds the limits that have series of their own; nil is the default
	TopKeys   int                // keys that the metrics name
	Refused   prometheus.Counter // reports that a ledger, or the clients' one, does not take
}

// Set is a Replica for each range, whether its group is open here or not. All methods are safe for
// concurrent use.
type Set struct {
	cfg      Config
	node     Node
	log      *slog.Logger
	replicas []*Replica // by range
	intakes  intakes
	measured measured
	stats    stats

	urgent chan *Replica // whose checkpoint is wanted at once; each at most once
	stop   chan struct{}
	done   sync.WaitGroup
}

// New returns replicas that lead nothing. Start and Close them.
func New(cfg *Config, node Node) *Set {
	s := &Set{cfg: *cfg, node: node, log: cfg.Log, urgent: make(chan *Replica, cfg.Ranges), stop: make(chan struct{})}
	for r := range quota.RangeID(cfg.Ranges) {
		s.replicas = append(s.replicas, &Replica{ID: r, Machine: NewMachine(cfg.Mono), set: s})
	}
	s.stats.init(s)
	return s
}

// Start begins to write checkpoints.
func (s *Set) Start() {
	s.done.Go(s.checkpointer)
	s.done.Go(s.urgentCheckpointer)
}

// Close ends what Start began, if it was called, and every wait.
func (s *Set) Close() {
	close(s.stop)
	s.done.Wait()
}

// AddCalls adds the calls of other nodes that the replicas answer.
func (s *Set) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(_ context.Context, from quota.NodeID, c *peerv1.CallAsk) (*peerv1.CallAskResult, error) {
		return s.onDecide(from, c), nil
	})
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallRates) (*peerv1.CallRatesResult, error) {
		return s.Rates(c), nil
	})
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallKeys) (*peerv1.CallKeysResult, error) {
		return s.Counters(c), nil
	})
}

// Of returns the replica of a range; nil if there is no such range.
func (s *Set) Of(r quota.RangeID) *Replica {
	if int(r) >= len(s.replicas) {
		return nil
	}
	return s.replicas[r]
}

// Accounts returns the accounts of all ranges.
func (s *Set) Accounts() map[quota.RangeID]*accounts.Replica {
	out := make(map[quota.RangeID]*accounts.Replica, len(s.replicas))
	for _, r := range s.replicas {
		out[r.ID] = r.Machine.Accounts
	}
	return out
}

// Leads returns the ranges that this node leads. It waits for no lock of a ledger: a range that is
// busy holds up no beacon.
func (s *Set) Leads() (out []*peerv1.Lead) {
	for _, r := range s.replicas {
		if term := r.term.Load(); term > 0 {
			out = append(out, &peerv1.Lead{Range: uint32(r.ID), Term: term})
		}
	}
	return out
}

// each runs f on the ledger of each range that this node leads.
func (s *Set) each(f func(l *leader.Ledger, now quota.Time)) {
	for _, r := range s.replicas {
		r.With(f)
	}
}

// SetLimits tells the ledgers that the limits have changed.
func (s *Set) SetLimits(limits *quota.Limits) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.SetLimits(now, limits) })
}

// Overridden tells the ledgers that the overrides of keys have changed; nil stands for all keys.
func (s *Set) Overridden(keys []quota.Key) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.Overridden(now, keys) })
}

// SetNodes tells the ledgers how many nodes there are.
func (s *Set) SetNodes(count int) {
	s.each(func(l *leader.Ledger, _ quota.Time) { l.SetNodes(count) })
}

// Suspect tells the ledgers that a node's process has probably ended.
func (s *Set) Suspect(id quota.NodeID) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.Suspect(now, id) })
}

// MemberGone tells the ledgers that the processes of a node before that incarnation have ended.
func (s *Set) MemberGone(id quota.NodeID, before quota.Incarnation) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.MemberGone(now, id, before) })
}
