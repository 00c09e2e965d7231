package dataplane

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/events"
	"github.com/quorate/quorate/internal/grantwait"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

// Node is the interface of the node that a Decider runs on. Its methods must be safe for concurrent use.
type Node interface {
	// Leader returns the leader of a range as far as this node knows; "" if unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Up reports whether a node is connected.
	Up(id quota.NodeID) bool
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Send queues a frame of reports for another node. Lost reports are made again.
	Send(to quota.NodeID, f *peerv1.Frame)
	// Worked is called by the member loop after it has run work from its inbox, such as applying grants.
	Worked()
	// Tick is called by the member loop once per round.
	Tick(now quota.Time)
}

// Config configures a Decider.
type Config struct {
	Self      quota.NodeID
	Ranges    int
	Sync      time.Duration // interval between reports; an answer that takes several of these gets a span
	GrantWait time.Duration // limit on a check's wait for a grant
	AskWait   time.Duration // limit on a check's wait for a leader
	Now       func() quota.Time
	// Aggregator configures the table of keys; New sets Created and Removed. Inherited holds the
	// counts of earlier processes of this node that no leader had saved.
	Aggregator aggregator.Config
	Inherited  []quota.RecoveredCounts
	Limits     *quota.Limits // the initial limits
	Replicas   *replica.Set  // of this node
	Tracer     *tracing.Tracer
	Log        *slog.Logger
	Registry   prometheus.Registerer
}

// Decider decides checks. All methods are safe for concurrent use.
type Decider struct {
	cfg  Config
	node Node
	log  *slog.Logger
	now  func() quota.Time

	agg *aggregator.Aggregator
	// limits holds the limits that agg decides by.
	limits atomic.Pointer[quota.Limits]

	inbox   chan func(now quota.Time) // work for the member loop
	wake    chan struct{}
	waiters grantwait.Waiters
	grants  peerproto.Grants // used by the member loop: memory for unpacked grants
	slow    slowReports      // used by the member loop

	queues   []askQueue // by range
	reserved reservations
	events   events.Hub

	drawMu   sync.Mutex
	draws    func([]quota.Call) // of Draw, until drawsEnd
	drawsEnd quota.Time

	stats stats

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	mu     sync.Mutex // guards the end of ctx against spawn
	done   sync.WaitGroup
}

// inboxSize bounds the work that waits in the member loop's inbox.
const inboxSize = 4096

// New returns a Decider. Until Start it holds no tokens.
func New(cfg *Config, node Node) *Decider {
	d := &Decider{
		cfg: *cfg, node: node, log: cfg.Log, now: cfg.Now, queues: make([]askQueue, cfg.Ranges),
		inbox: make(chan func(quota.Time), inboxSize), wake: make(chan struct{}, 1),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	ac := cfg.Aggregator
	ac.Created = func(k quota.Key) { d.bucketEvent(quota.EventCreated, k) }
	ac.Removed = func(k quota.Key) { d.bucketEvent(quota.EventRemoved, k) }
	d.agg = aggregator.New(ac, d.now())
	d.agg.Recovered(cfg.Inherited)
	d.limits.Store(cfg.Limits)
	d.slow.init(cfg)
	d.reserved.init()
	d.stats.init(d)
	return d
}

// Start starts the goroutines that report, apply grants and expire reservations.
func (d *Decider) Start() {
	d.done.Go(d.memberLoop)
	d.done.Go(d.expireLoop)
}

// Close stops all goroutines, waits for them, and ends every wait.
func (d *Decider) Close() {
	d.mu.Lock()
	d.cancel()
	d.mu.Unlock()
	d.done.Wait()
}

// stopLimit bounds the wait for answers to the last reports of a node that stops.
const stopLimit = 500 * time.Millisecond

// Stop returns the tokens that this node holds to the leaders, and waits until they have answered, at most stopLimit or
// until ctx ends. What does not arrive counts as spent by this process, under hard until the next one reports its journal.
func (d *Decider) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	began, stopped := false, make(chan bool, 1)
	look := func(quota.Time) {
		if !began {
			began = true
			d.agg.Stop()
		}
		stopped <- d.agg.Stopped()
	}
	for {
		select { // the inbox may be full
		case d.inbox <- look:
		case <-ctx.Done():
			return
		}
		select {
		case done := <-stopped:
			if done || backoff.Sleep(ctx, 5*time.Millisecond) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// spawn runs f in a goroutine that Close waits for. It returns false after Close.
func (d *Decider) spawn(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.done.Go(f)
	return true
}

// AddCalls registers the peer calls that a Decider answers.
func (d *Decider) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallSettle) (*peerv1.CallSettleResult, error) {
		return d.onSettle(c), nil
	})
}

// Aggregator returns the table of keys. Only the Decider drives it: package aggregator says which
// methods others may call.
func (d *Decider) Aggregator() *aggregator.Aggregator { return d.agg }

// Limits returns the current limits of this node.
func (d *Decider) Limits() *quota.Limits { return d.limits.Load() }

// UseLimits activates limits on the member loop, and then calls activated. It does not wait for that.
func (d *Decider) UseLimits(limits *quota.Limits, activated func()) {
	d.OnMemberLoop(func(now quota.Time) {
		d.agg.SetLimits(now, limits)
		d.limits.Store(limits)
		d.log.Info("limits active", "version", limits.Version, "limits", len(limits.All()))
		d.events.Publish(quota.Event{At: now, Kind: quota.EventLimitsChanged})
		activated()
	})
}

// UseOverrides applies changed overrides of keys; nil means all keys.
func (d *Decider) UseOverrides(keys []quota.Key) {
	d.OnMemberLoop(func(now quota.Time) { d.agg.Overridden(now, keys) })
}

// UseNodes sets the number of nodes in the cluster.
func (d *Decider) UseNodes(count int) {
	d.OnMemberLoop(func(quota.Time) { d.agg.SetNodes(count) })
}

// UseLeader makes the node report to id as the leader of ranges, in the given terms.
func (d *Decider) UseLeader(id quota.NodeID, terms map[quota.RangeID]quota.Term) {
	d.OnMemberLoop(func(quota.Time) {
		for r, term := range terms {
			d.agg.SetLeader(r, id, term)
		}
	})
}

// LeaderLost records that a range has no leader.
func (d *Decider) LeaderLost(r quota.RangeID) { d.agg.LeaderLost(d.now(), r) }

// ClockSet notifies the aggregator that the clock was set. Call it before anything is counted.
func (d *Decider) ClockSet() { d.agg.SetClock(d.now()) }
