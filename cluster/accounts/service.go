package accounts

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Group is this node's replica of a range's Raft group; *raftgroup.Group is one.
type Group interface {
	Apply(ctx context.Context, data []byte) (any, error)
	ConfirmLeadership(ctx context.Context) error
	Leader() (id quota.NodeID, term uint64, serving bool)
}

// Node is what the accounts need of the node that they are on. All methods are
// called concurrently.
type Node interface {
	// Group returns the replica of a range's group; nil if none is here, or it is
	// not open.
	Group(r quota.RangeID) Group
	// Current reports whether a replica of the range is here that is kept up to date: not one
	// that no leader has reached yet.
	Current(r quota.RangeID) bool
	// Leader returns who leads a range as far as is known here; "" is unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Holders returns the nodes that have a replica of the range.
	Holders(r quota.RangeID) []quota.NodeID
	// Call asks another node. Its errors are those of package wire.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Policies returns the content of policies, nil for those that are not loaded.
	Policies(ctx context.Context, refs []account.PolicyRef) ([]*account.Policy, error)
	// Now is the node's clock.
	Now() quota.Time
	// ClockAgreed reports whether that clock agrees with those of most nodes.
	ClockAgreed() bool
}

// Config is what a Service needs to know.
type Config struct {
	Self     quota.NodeID
	Ranges   int
	Replicas map[quota.RangeID]*Replica // those that are here
	Node     Node
	Logger   *slog.Logger
	Registry prometheus.Registerer // nil for none
}

// Bounds; see the package.
const (
	maxQueue       = 4096
	maxBatch       = 512
	maxBatchBytes  = 1 << 20
	maxAnswerBytes = 12 << 20 // of the outcomes of a batch, below transport.MaxFrame
	maxFlying      = 2
	maxEnding      = 256
	maxPage        = 1000
	maxReadings    = 10
)

// Times.
const (
	callLimit = 10 * time.Second // of a call without a deadline
	tryLimit  = 3 * time.Second  // of one try at one leader
	minPause  = 4 * time.Millisecond
	maxPause  = 250 * time.Millisecond
	tendEvery = time.Second
	abandoned = 3 * time.Second // an undecided transaction is aborted after so long
	endLimit  = 10 * time.Second
	leftAlone = time.Second // what is younger is its coordinator's
)

// Service is the accounts on one node. All methods are safe for concurrent use.
type Service struct {
	cfg    Config
	node   Node
	log    *slog.Logger
	queues []queue // by range
	stats  stats
	tally  tally

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	mu       sync.Mutex
	closed   bool
	wg       sync.WaitGroup
	ending   chan struct{} // a slot per transaction that is brought to its end
	learning chan struct{} // a slot per transaction whose decision was not answered
	claims   sync.Map      // claimed -> *claim
	owned    owned
	lines    lines
	turns    turns
	hot      hot
	bundles  bundles
	apart    hot // accounts whose calls were joined in vain

	stopping atomic.Pointer[func(step string, home quota.RangeID) bool]
}

// StopAt is for tests. A coordinator here ends, as if its process had died, before a step
// for which stop returns true: "begin", "prepare", "decide", "decided" (before anybody is
// told), "finish" (each), "forget". nil is never.
func (s *Service) StopAt(stop func(step string, home quota.RangeID) bool) {
	if stop == nil {
		s.stopping.Store(nil)
		return
	}
	s.stopping.Store(&stop)
}

func (s *Service) stopAt(step string, home quota.RangeID) bool {
	stop := s.stopping.Load()
	return stop != nil && (*stop)(step, home)
}

// New returns a Service that does nothing by itself before Start.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		cfg: cfg, node: cfg.Node, log: cfg.Logger, queues: make([]queue, cfg.Ranges),
		ending: make(chan struct{}, maxEnding), learning: make(chan struct{}, maxEnding), owned: owned{over: map[account.ID]chan struct{}{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for r := range s.queues {
		s.queues[r].service, s.queues[r].id = s, quota.RangeID(r)
	}
	for _, r := range cfg.Replicas {
		r.countInto(&s.tally)
	}
	s.stats.init(s, cfg.Registry)
	return s
}

// Start begins to look after what is left behind.
func (s *Service) Start() { s.spawn(s.tend) }

// drainLook is how often Drain looks.
const drainLook = 5 * time.Millisecond

// Drain takes no more commands and waits, until ctx ends and for two seconds at most, for those that are
// on their way into a log: what is done then is tallied. Close is to follow.
func (s *Service) Drain(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for s.busy() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(drainLook):
		}
	}
}

const drainLimit = 2 * time.Second

// busy reports whether commands are on their way into a log, or wait for it.
func (s *Service) busy() bool {
	for i := range s.queues {
		q := &s.queues[i]
		q.mu.Lock()
		flying := q.flying
		q.mu.Unlock()
		if flying > 0 {
			return true
		}
	}
	return false
}

// Close ends all that is under way and waits for it. Calls that still come are
// answered by an error.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// spawn runs f, which ends with s.ctx; false when the service is closed.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// limited gives a call its deadline, and ends it with the service.
func (s *Service) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errClosing) })
	end := func() { stop(); cancel(nil) }
	if _, ok := ctx.Deadline(); ok {
		return ctx, end
	}
	ctx, release := context.WithTimeout(ctx, callLimit)
	return ctx, func() { release(); end() }
}

// RangeOf returns the range of an account in a cluster of that many ranges. It may
// never change for an existing cluster.
func RangeOf(id account.ID, ranges int) quota.RangeID {
	return shard.Of(quota.Key{LimitName: quota.LimitName{Namespace: quota.AccountNamespace}, Key: id.Placement()}, ranges)
}

// now is the time for the next entry of a replica's log, and for reads of it.
func (s *Service) now(r *Replica) quota.Time { return r.now(s.node.Now(), s.node.ClockAgreed()) }

func (s *Service) rangeOf(id account.ID) quota.RangeID { return RangeOf(id, s.cfg.Ranges) }

// pause waits before the next of several tries, longer every time and never twice
// the same; false when ctx ends meanwhile.
func pause(ctx context.Context, try int) bool {
	d := min(minPause<<min(try, 10), maxPause)
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
