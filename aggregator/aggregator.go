package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Clock returns the current time. It is called only when a decision needs it.
type Clock func() quota.Time

// Aggregator is a member's table of keys. TrySimple, TryHeld, TryHeldAll, Decide, Charge, Refund, Cancel, Release and
// methods whose comment says so may be called by any goroutine; all other methods by one at a time.
type Aggregator struct {
	born   quota.Time
	cfg    Config
	count  nodeCount
	peers  nodeCount
	table  table
	urgent stack
	met    metRanges
	member
}

// New returns an empty table.
func New(cfg Config, now quota.Time) *Aggregator {
	cfg = cfg.WithDefaults()
	a := &Aggregator{cfg: cfg}
	a.count.Store(int64(cfg.Nodes))
	a.table.maxKeys, a.table.ranges, a.table.overrides = int64(cfg.MaxKeys), cfg.Ranges, cfg.Overrides
	a.table.created, a.table.removed = cfg.Created, cfg.Removed
	a.table.inline = newInline()
	a.member.init(cfg)
	a.SetClock(now)
	return a
}

// SetClock notes that the clock was set. Call it before any other method that takes a time.
func (a *Aggregator) SetClock(now quota.Time) {
	a.born, a.table.compact.born = now, now
	a.wheel.init(a.cfg.Sync, now)
}

// SetNodes sets the number of nodes of the cluster, at least 1. The share of a node that is cut off, and the
// overdraft that a node may guess, depend on it. Any goroutine may call it.
func (a *Aggregator) SetNodes(count int) { a.count.Store(int64(max(count, 1))) }

// SetPeers sets the number of members that may meet the same burst. A member with peers is a client of a node, and
// its overdraft by a guess is bounded: by its share before the first grant, later by the credit of the last grant
// (GrantEntry.Credit) and its share of the refill since. 0, the default, means no bound: for nodes, and for clients
// without a node to ask. Any goroutine may call it.
func (a *Aggregator) SetPeers(count int) { a.peers.Store(int64(max(count, 0))) }

func (a *Aggregator) nodes() int { return int(a.count.Load()) }

// Len returns the number of keys in the table.
func (a *Aggregator) Len() int { return int(a.table.size.Load()) }

// TrySimple decides whether a request of that cost may pass, and charges it if so, for limits with one counter. It
// returns ok false, and decides nothing, for all other limits. A cost of 0 charges nothing and reports whether a cost
// of 1 would pass. It blocks on nothing but the lock of this one key.
//
// need is set if the decision depends on a grant, because this node holds too little of a hard limit or would have to
// guess about a soft one, or on the leader, because the leader decides. Then nothing is counted: decide such a
// request with a [Call].
func (a *Aggregator) TrySimple(clock Clock, n quota.LimitName, key string, cost int64) (d quota.Decision, need Need, ok bool) {
	s, key := a.table.resolve(n, key)
	if s == nil {
		return quota.Decision{Why: quota.WhyNoLimit}, Nothing, true
	}
	r := s.rule.Load()
	if !r.simple {
		return d, Nothing, false
	}
	d, need = a.checkSimple(clock, s, r, key, cost, false)
	return d, need, true
}

// TryHeld decides by held tokens alone, for limits with one counter: without lock, clock or allocation. It returns
// false if it has taken and counted nothing, and a [Call] has to decide the request.
func (a *Aggregator) TryHeld(n quota.LimitName, key string, cost int64) (d quota.Decision, ok bool) {
	s, key := a.table.resolve(n, key)
	if s == nil || cost <= 0 || cost > quota.MaxTokens {
		return d, false
	}
	r := s.rule.Load()
	if !r.simple {
		return d, false
	}
	at, b := s.keys.find(key)
	if at == nil || !at.pay(cost, b, &a.urgent) {
		return d, false
	}
	return decision(r.limit, quota.WhyHeld, true, at.lastEstimate(), quota.FromTokens(cost)), true
}

// checkNow decides by local knowledge: it needs neither a grant nor a leader.
func (a *Aggregator) checkNow(clock Clock, n quota.LimitName, key string, cost int64) quota.Decision {
	if s, key := a.table.resolve(n, key); s != nil {
		if r := s.rule.Load(); r.simple {
			d, _ := a.checkSimple(clock, s, r, key, cost, true)
			return d
		}
	}
	var c Call
	c.Reset([]quota.Request{{Key: quota.Key{LimitName: n, Key: key}, Cost: cost, MaxWait: quota.LimitsWait}}, make([]quota.Decision, 1))
	c.Final, c.Alone = true, true
	a.Decide(clock, &c)
	return c.Out[0]
}

// checkSimple is Decide for one limit with one counter, without allocation. If it is not final, it may return a need,
// and the request is decided again as a [Call].
func (a *Aggregator) checkSimple(clock Clock, s *limitEntry, r *rule, key string, cost int64, final bool) (quota.Decision, Need) {
	at, b := s.keys.find(key)
	if at != nil && at.pay(cost, b, &a.urgent) {
		return decision(r.limit, quota.WhyHeld, true, at.lastEstimate(), quota.FromTokens(cost)), Nothing
	}
	l := r.limit
	if b != nil {
		l = b.limit()
	} else {
		l = quota.Effective(l, a.table.overrides, key)
	}
	if d, ok := a.decideFixed(s, r, l, key, cost, false); ok {
		s.countUnfit(&d, cost)
		return enforced(d, l, key), Nothing
	}
	t := attempt{
		key: quota.Key{LimitName: s.name, Key: key}, cost: quota.FromTokens(cost), maxWait: quota.LimitsWait,
		final: final, alone: final, at: b,
		waits: !final, // the Call adds the cost to want
	}
	d := a.charge(clock, &t, s)
	d.Limit = l
	if t.need != Nothing {
		return d, t.need
	}
	return enforced(d, l, key), Nothing
}

// openBucket starts an epoch, which reports at once.
func (a *Aggregator) openBucket(now quota.Time, b *bucket, l *quota.Limit) {
	a.startEpoch(now, b, l)
	a.markUrgent(b)
}

// startEpoch starts an epoch. The estimate continues: a key that was idle for an hour has refilled, one that was idle
// for a second has not.
func (a *Aggregator) startEpoch(now quota.Time, b *bucket, l *quota.Limit) {
	b.tally()
	b.tallied = tallied{}
	b.phase, b.changed, b.epoch = open, now, a.table.nextEpoch()
	b.in, b.over, b.refused, b.want, b.refunded = 0, 0, 0, 0, 0
	b.unpaid, b.voids = 0, 0
	b.resetRare()
	b.hot().held.Store(0)
	b.applied, b.pending, b.sent, b.acked, b.ackedOver, b.ackedBack = 0, 0, counts{}, 0, 0, 0
	b.cancelled.unsend()
	b.rate, b.cap, b.base, b.from, b.lease = 0, 0, 0, now, now.Add(a.cfg.Lease)
	b.grantedNothing, b.noGrantYet, b.calm = false, true, false
	b.estUsed, b.estBack, b.lastUse, b.noneFree = 0, 0, now, false
	b.setBefore(0, 0)
	b.returned, b.unconfirmed, b.sentBack, b.ref = 0, 0, 0, 0
	a.openSlot(b, l)
	b.initEstimate(now, l)
	b.others, b.presumed = 0, 0
}

// initEstimate initializes the estimate of a key that is new to this member: it starts full.
func (b *bucket) initEstimate(now quota.Time, l *quota.Limit) {
	if b.estAt == 0 {
		b.est, b.estAt, b.as = l.BurstUnits(), now, l
		b.firstWindow(now, l)
	}
}

// retryAfter returns the least time that a leader has to answer the first full reports.
func (a *Aggregator) retryAfter() time.Duration { return fullRetryIntervals * a.cfg.Sync }
