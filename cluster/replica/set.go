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

// Node is the interface of the node that the replicas run on. Its methods must be safe for concurrent use.
type Node interface {
	// Committed returns the newest limits that the meta group has committed.
	Committed() *quota.Limits
	// Members returns the nodes of the cluster, and how many of them had joined before the given time.
	Members(before time.Time) (ids []quota.NodeID, joined int)
	// Dead returns the nodes with processes that have certainly ended: those before the given incarnation.
	Dead() map[quota.NodeID]quota.Incarnation
	// Suspects returns the nodes whose processes have probably ended.
	Suspects() []quota.NodeID

	// Propose writes an entry to the log of a range that this node leads.
	Propose(ctx context.Context, r quota.RangeID, entry []byte) error
	// Leads is called when this node leads a range and its ledger exists; LeadsNoMore when it has stopped leading it.
	Leads(r quota.RangeID, term quota.Term)
	LeadsNoMore(r quota.RangeID)
	// Ended is called before a ledger is dropped, with the lock of its replica held.
	Ended(now quota.Time, r quota.RangeID, l *leader.Ledger)

	// Send queues a frame of grants for another node. The other node asks again for a lost one.
	Send(to quota.NodeID, f *peerv1.Frame)
	// Deliver passes a grant to this node's own member. If the member's inbox is full it blocks, or without wait drops the grant.
	Deliver(g *quota.Grant, wait bool)

	// Bounds returns the current inputs to the stated bound of the error.
	Bounds() bound.Cluster
}

// Config configures a Set.
type Config struct {
	Self    quota.NodeID
	Ranges  int
	Sync    time.Duration // interval between reports
	MaxKeys int           // bound on the keys of a ledger
	AskWait time.Duration // how long a caller waits for a decide request
	// Now returns the cluster's time. Mono returns how long the process has been running, independent of clock changes.
	Now       func() quota.Time
	Mono      func() time.Duration
	Overrides quota.Overrides
	Log       *slog.Logger
	Registry  prometheus.Registerer
	Series    *series.Guard      // bounds the limits that have series of their own; nil means the default
	TopKeys   int                // number of keys that the metrics name
	Refused   prometheus.Counter // counts reports that a ledger, or the clients' ledger, rejects
}

// Set holds a Replica for each range, whether or not its group is open on this node. All methods are
// safe for concurrent use.
type Set struct {
	cfg      Config
	node     Node
	log      *slog.Logger
	replicas []*Replica // by range
	intakes  intakes
	measured measured
	stats    stats

	urgent chan *Replica   // replicas with a requested checkpoint, each at most once
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a Set that leads no range. Call Start, and Close at the end.
func New(cfg *Config, node Node) *Set {
	s := &Set{cfg: *cfg, node: node, log: cfg.Log, urgent: make(chan *Replica, cfg.Ranges)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for r := range quota.RangeID(cfg.Ranges) {
		s.replicas = append(s.replicas, &Replica{ID: r, Machine: NewMachine(cfg.Mono), set: s})
	}
	s.stats.init(s)
	return s
}

// Start starts the goroutines that sweep ledgers and write checkpoints.
func (s *Set) Start() {
	s.done.Go(s.sweeper)
	s.done.Go(s.checkpointer)
	s.done.Go(s.urgentCheckpointer)
}

// Close stops the goroutines that Start started, if any, and ends every wait.
func (s *Set) Close() {
	s.cancel()
	s.done.Wait()
}

// AddCalls registers the peer calls that the replicas answer.
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

// Of returns the replica of a range, or nil if the range does not exist.
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

// Leads returns the ranges that this node leads. It takes no ledger's lock, so that a busy range does
// not delay a beacon.
func (s *Set) Leads() (out []*peerv1.Lead) {
	for _, r := range s.replicas {
		if term := r.term.Load(); term > 0 {
			out = append(out, &peerv1.Lead{Range: uint32(r.ID), Term: term})
		}
	}
	return out
}

// each runs f on the ledger of every range that this node leads.
func (s *Set) each(f func(l *leader.Ledger, now quota.Time)) {
	for _, r := range s.replicas {
		r.With(f)
	}
}

// SetLimits applies changed limits to the ledgers.
func (s *Set) SetLimits(limits *quota.Limits) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.SetLimits(now, limits) })
}

// Overridden applies changed overrides of keys to the ledgers; nil means all keys.
func (s *Set) Overridden(keys []quota.Key) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.Overridden(now, keys) })
}

// SetNodes sets the nodes of the cluster: their number in the ledgers, and whose reports may wait.
func (s *Set) SetNodes(ids []quota.NodeID) {
	s.each(func(l *leader.Ledger, _ quota.Time) { l.SetNodes(len(ids)) })
	s.intakes.keep(ids)
}

// Suspect notifies the ledgers that a node's process has probably ended.
func (s *Set) Suspect(id quota.NodeID) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.Suspect(now, id) })
}

// MemberGone notifies the ledgers that a node's processes before the given incarnation have ended.
func (s *Set) MemberGone(id quota.NodeID, before quota.Incarnation) {
	s.each(func(l *leader.Ledger, now quota.Time) { l.MemberGone(now, id, before) })
}
