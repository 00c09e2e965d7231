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
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Group is this node's replica of a range's Raft group; *raftgroup.Group implements it.
type Group interface {
	Apply(ctx context.Context, data []byte) (any, error)
	ConfirmLeadership(ctx context.Context) error
	Leader() (id quota.NodeID, term uint64, serving bool)
}

// Node is the part of its node that a Service uses. Its methods must be safe for concurrent use.
type Node interface {
	// Group returns the replica of a range's group, or nil if this node has none or has not opened
	// it.
	Group(r quota.RangeID) Group
	// Current reports whether this node has a replica of the range that is kept up to date. A
	// replica that no leader has reached yet is not current.
	Current(r quota.RangeID) bool
	// Leader returns the leader of a range as far as this node knows, or "" if unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Holders returns the nodes that have a replica of the range.
	Holders(r quota.RangeID) []quota.NodeID
	// Call sends a request to another node. It returns the errors of package wire.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Policies returns the content of policies, with nil for each that is not loaded.
	Policies(ctx context.Context, refs []account.PolicyRef) ([]*account.Policy, error)
	// Now returns the time of the node's clock.
	Now() quota.Time
	// ClockAgreed reports whether that clock agrees with those of most nodes.
	ClockAgreed() bool
}

// Config configures a Service.
type Config struct {
	Self     quota.NodeID
	Ranges   int
	Replicas map[quota.RangeID]*Replica // the replicas on this node
	Node     Node
	Logger   *slog.Logger
	Registry prometheus.Registerer // nil to register no metrics
}

// Bounds; see the package documentation.
const (
	maxQueue       = 4096
	maxBatch       = 512
	maxBatchBytes  = 1 << 20
	maxAnswerBytes = 12 << 20 // for the outcomes of a batch, below transport.MaxFrame
	maxEntries     = 1        // in flight; with 2, there are half as many commands in each (TestWork)
	maxMessages    = 4        // in flight
	maxEnding      = 256
	maxPage        = account.MaxPage
	maxReadings    = 10
)

// Durations.
const (
	callLimit   = 10 * time.Second // for a call without a deadline
	tryLimit    = 3 * time.Second  // for one try at one leader
	minPause    = 4 * time.Millisecond
	maxPause    = 250 * time.Millisecond
	finishEvery = time.Second
	abandoned   = 3 * time.Second // age at which an undecided transaction is aborted
	endLimit    = 10 * time.Second
	leftAlone   = time.Second // age up to which a transaction is left to its coordinator
)

// Service serves the accounts on one node. All methods are safe for concurrent use.
type Service struct {
	cfg    Config
	node   Node
	log    *slog.Logger
	queues []queue // by range
	stats  stats
	tally  tally

	ctx         context.Context // canceled by Close
	cancel      context.CancelFunc
	mu          sync.Mutex
	closed      bool
	wg          sync.WaitGroup
	ending      chan struct{} // a slot per transaction being finished
	learning    chan struct{} // a slot per transaction whose decision got no answer
	resolutions sync.Map      // claimed -> *claim
	owned       owned
	lines       lines
	turns       turns
	hot         hot
	bundles     bundles
	apart       hot // accounts whose bundles could not commit: for hotLimit, their calls join none

	stopping atomic.Pointer[func(step string, home quota.RangeID) bool]
}

// StopAt is for tests. It makes a coordinator on this node stop, as if its process had died, before
// each step for which stop returns true: "begin", "prepare", "decide", "decided" (before it informs
// any other node), "finish" (each), "forget". A nil stop never stops it.
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

// New returns a Service. It does no background work before Start.
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
		s.queues[r].service, s.queues[r].id, s.queues[r].places = s, quota.RangeID(r), fairshare.NewPerFree(maxQueue)
	}
	for _, r := range cfg.Replicas {
		r.countInto(&s.tally)
	}
	s.stats.init(s, cfg.Registry)
	return s
}

// Start starts the once-a-second look for transactions that coordinators left behind.
func (s *Service) Start() { s.spawn(s.finishLeftovers) }

// drainLook is how often Drain checks.
const drainLook = 5 * time.Millisecond

// Drain rejects further commands and waits for those on their way into a log, until ctx ends or for
// at most two seconds, so that the tally counts them. The caller must call Close afterwards.
func (s *Service) Drain(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for s.busy() {
		if backoff.Sleep(ctx, drainLook) != nil {
			return
		}
	}
}

const drainLimit = 2 * time.Second

// busy reports whether any goroutine is carrying commands to a log.
func (s *Service) busy() bool {
	for i := range s.queues {
		q := &s.queues[i]
		q.mu.Lock()
		busy := q.committers[entry]+q.committers[message] > 0
		q.mu.Unlock()
		if busy {
			return true
		}
	}
	return false
}

// Close cancels all work in progress and waits for it to end. Later calls fail.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// spawn runs f in a goroutine; f must end with s.ctx. It returns false if the service is closed.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// limited adds the default deadline to a call without one, and cancels the call when the service
// closes.
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

// maxRanges bounds the ranges that have accounts. Each entry of a log costs CPU on all replicas,
// however few commands it holds, and commands share entries only within a range: with 512 callers,
// 16 ranges carry out 1.6 times as many operations as 64.
const maxRanges = 16

// withAccounts returns how many ranges have accounts.
func withAccounts(ranges int) int { return min(ranges, maxRanges) }

// nthWithAccounts returns the nth of these. They are spread evenly over all ranges, as leaders are.
func nthWithAccounts(n, ranges int) quota.RangeID {
	return quota.RangeID(n * ranges / withAccounts(ranges))
}

// RangeOf returns the range of an account in a cluster with the given number of ranges. The mapping
// must never change for an existing cluster.
func RangeOf(id account.ID, ranges int) quota.RangeID {
	key := quota.Key{LimitName: quota.LimitName{Namespace: quota.AccountNamespace}, Key: id.Placement()}
	return nthWithAccounts(int(shard.Of(key, withAccounts(ranges))), ranges)
}

// now returns the time for the next entry of a replica's log, and for reads of the replica.
func (s *Service) now(r *Replica) quota.Time { return r.now(s.node.Now(), s.node.ClockAgreed()) }

func (s *Service) rangeOf(id account.ID) quota.RangeID { return RangeOf(id, s.cfg.Ranges) }

// pause waits before the next try, with exponential backoff and jitter. It returns false if ctx
// ends first.
func pause(ctx context.Context, try int) bool {
	d := backoff.Bound(minPause, maxPause, try)
	return backoff.Sleep(ctx, d/2+rand.N(d)) == nil
}
