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
	"github.com/quorate/quorate/internal/events"
	"github.com/quorate/quorate/internal/grantwait"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
)

// Node is what decisions need of the node that they are made on. All methods are called concurrently.
type Node interface {
	// Leader returns the leader of a range as far as this node knows it; "" is unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Up reports whether a node is connected.
	Up(id quota.NodeID) bool
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Send queues a frame of reports to another node. What is lost is reported again.
	Send(to quota.NodeID, f *peerv1.Frame)
	// Worked is called by the member loop after it has applied grants and other news.
	Worked()
	// Tick is called by the member loop in each of its rounds.
	Tick(now quota.Time)
}

// Config is what a Decider needs to know.
type Config struct {
	Self      quota.NodeID
	Ranges    int
	Sync      time.Duration // interval of reports, and their span before a slow one is told
	GrantWait time.Duration // how long a check waits for a grant
	AskWait   time.Duration // how long a check waits for a leader
	Now       func() quota.Time
	// Aggregator is the table of keys, but for Created and Removed. Inherited is what earlier
	// processes of this node had counted, and no leader had saved.
	Aggregator aggregator.Config
	Inherited  []quota.RecoveredCounts
	Limits     *quota.Limits // those that it begins with
	Replicas   *replica.Set  // of this node
	Tracer     *tracing.Tracer
	Log        *slog.Logger
	Registry   prometheus.Registerer
}

// Decider decides. All methods are safe for concurrent use.
type Decider struct {
	cfg  Config
	node Node
	log  *slog.Logger
	now  func() quota.Time

	agg *aggregator.Aggregator
	// limits are those that agg decides by.
	limits atomic.Pointer[quota.Limits]

	inbox   chan func(now quota.Time) // of the member loop
	wake    chan struct{}
	waiters grantwait.Waiters
	grants  peerproto.Grants // of the member loop: room for those that came
	slow    slowReports      // of the member loop

	queues   []askQueue // by range
	reserved reservations
	events   events.Hub
	stats    stats

	stop chan struct{}
	done sync.WaitGroup
}

// inboxSize bounds the work that waits for the member loop.
const inboxSize = 4096

// New returns a Decider that decides with what it holds: nothing, before Start.
func New(cfg *Config, node Node) *Decider {
	d := &Decider{
		cfg: *cfg, node: node, log: cfg.Log, now: cfg.Now, queues: make([]askQueue, cfg.Ranges),
		inbox: make(chan func(quota.Time), inboxSize), wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	ac := cfg.Aggregator
	ac.Created = func(k quota.Key) { d.bucketEvent(quota.EventCreated, k) }
	ac.Removed = func(k quota.Key) { d.bucketEvent(quota.EventRemoved, k) }
	d.agg = aggregator.New(ac, d.now())
	d.agg.Afterlife(cfg.Inherited)
	d.limits.Store(cfg.Limits)
	d.slow.init(cfg)
	d.reserved.init()
	d.stats.init(d)
	return d
}

// Start reports, applies grants and gives back what is reserved too long.
func (d *Decider) Start() {
	d.done.Go(d.memberLoop)
	d.done.Go(d.expireLoop)
}

// Close ends what Start began, if it was called, and every wait.
func (d *Decider) Close() {
	close(d.stop)
	d.done.Wait()
}

// AddCalls adds the calls of other nodes that a Decider answers.
func (d *Decider) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallSettle) (*peerv1.CallSettleResult, error) {
		return d.onSettle(c), nil
	})
}

// Aggregator returns the table of keys. Only Decider drives it: see package aggregator for what
// others may call.
func (d *Decider) Aggregator() *aggregator.Aggregator { return d.agg }

// Limits returns the limits that this node decides by.
func (d *Decider) Limits() *quota.Limits { return d.limits.Load() }

// UseLimits has the node decide by limits soon, and calls inForce then.
func (d *Decider) UseLimits(limits *quota.Limits, inForce func()) {
	d.OnMemberLoop(func(now quota.Time) {
		d.agg.SetLimits(now, limits)
		d.limits.Store(limits)
		d.log.Info("limits in force", "version", limits.Version, "limits", len(limits.All()))
		d.events.Publish(quota.Event{At: now, Kind: quota.EventLimitsChanged})
		inForce()
	})
}

// UseOverrides has the node decide by overrides of keys that have changed; nil stands for all keys.
func (d *Decider) UseOverrides(keys []quota.Key) {
	d.OnMemberLoop(func(now quota.Time) { d.agg.Overridden(now, keys) })
}

// UseNodes says how many nodes there are.
func (d *Decider) UseNodes(count int) {
	d.OnMemberLoop(func(quota.Time) { d.agg.SetNodes(count) })
}

// UseLeader has the node report to the leader of ranges, in these terms.
func (d *Decider) UseLeader(id quota.NodeID, terms map[quota.RangeID]quota.Term) {
	d.OnMemberLoop(func(quota.Time) {
		for r, term := range terms {
			d.agg.SetLeader(r, id, term)
		}
	})
}

// LeaderLost says that a range has no leader.
func (d *Decider) LeaderLost(r quota.RangeID) { d.agg.LeaderLost(d.now(), r) }

// ClockSet says that the clock was set, before anything was counted.
func (d *Decider) ClockSet() { d.agg.SetClock(d.now()) }
