package aggregator

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// turn is the charging of one counter: how it may be decided, and what came of
// it.
type turn struct {
	at       *bucket // where it is counted, if that has been looked up already
	key      quota.Key
	cost     quota.Units
	maxWait  time.Duration
	needs    bool // as in quota.Request.NeedsBucket
	final    bool // as in Call
	alone    bool
	answered bool // is holds what the leader said
	told     bool // and it has decided
	is       quota.Answer

	need  Need
	ask   quota.Ask
	taken taken // its bucket is nil if nothing was

	window  takenIn // in which a leader has charged it; its slot is nil if none has
	refused refusal // its cost is 0 if nothing was
}

// counter charges one counter of a call. If the leader has to be asked, nothing is charged, and the
// decision allows the cost for now, so that the call's other counters are looked at first.
func (a *Aggregator) counter(clock Clock, c *Call, q *quota.Request, s *slot, key string) quota.Decision {
	t := turn{
		key: quota.Key{LimitName: s.name, Key: key}, cost: quota.FromTokens(q.Cost), maxWait: q.MaxWait, needs: q.NeedsBucket,
		final: c.Final, alone: c.Alone,
	}
	if t.at = a.table.bucketOrOverflow(s, key, t.needs); t.at != nil {
		t.key.Key = t.at.key
	}
	an := c.answered(t.key, t.cost)
	if an != nil {
		t.is, t.answered = an.is, true
	}
	d := a.charge(clock, &t, s)
	if an != nil {
		an.used = t.told
	}
	if t.need != Nothing {
		if c.Need == Nothing {
			c.Need, c.Key, c.Ask = t.need, t.key, t.ask
		}
		d.Allowed = true // unless another counter refuses the call: then nobody is asked
	}
	if t.taken.b != nil {
		c.taken = append(c.taken, t.taken)
	}
	if t.window.slot != nil {
		c.windows = append(c.windows, t.window)
	}
	if t.refused.cost > 0 {
		c.refused = append(c.refused, t.refused)
	}
	return d
}

// charge charges one counter.
func (a *Aggregator) charge(clock Clock, t *turn, s *slot) quota.Decision {
	for {
		if s.gone.Load() {
			if s = a.table.inline.again(s); s == nil {
				return quota.Decision{Why: quota.WhyNoLimit}
			}
			t.at = nil
			continue
		}
		b := t.at
		if t.at = nil; b == nil {
			b = a.table.bucketOrOverflow(s, t.key.Key, t.needs)
		}
		if b == nil {
			l := s.rule.Load().limit
			refused := l.Ceiling == quota.Hard || t.needs && l.MaxKeys > 0 && l.Enforcement == quota.Enforce && l.Fraction == 0
			return quota.Decision{Why: quota.WhyTooManyKeys, Allowed: !refused, Limit: l, RetryAfter: a.cfg.Sync}
		}
		if d, ok := a.decide(clock, t, b); ok {
			return d
		}
	}
}

// decide returns false when the bucket has just been dropped from the table.
// Tokens that are held decide without the clock, unless they are for a window, or
// the leader has been asked in the meantime and has booked the cost.
func (a *Aggregator) decide(clock Clock, t *turn, b *bucket) (quota.Decision, bool) {
	l := b.limit()
	quick := l.Kind == quota.TokenBucket && !l.AsksLeader() && t.cost > 0 && !t.answered
	taken := quick && b.take(int64(t.cost), &a.urgent)
	var now quota.Time
	if !taken {
		now = clock()
	}
	b.lock()
	defer b.unlock()
	if b.dead {
		return quota.Decision{}, false // what was taken here was void
	}
	if taken {
		t.took(b, 0)
		return decision(l, quota.WhyHeld, true, b.hot().lastEstimate(), t.cost), true
	}
	epoch, was := b.epoch, b.refused
	d := a.decideSlow(now, t, b, l)
	if b.epoch != epoch {
		was = 0
	}
	t.refused = refusal{b: b, cost: b.refused - was, epoch: b.epoch}
	return d, true
}

// took notes a charge of b, which is locked. beyond is the part of it that was not held.
func (t *turn) took(b *bucket, beyond quota.Units) {
	t.taken = taken{b, t.cost, beyond, b.epoch, b.win}
	b.note()
	if b.limit().Kind == quota.Concurrency {
		b.inFlight += t.cost
		b.lent += beyond
	}
}

// decideSlow decides with b locked.
func (a *Aggregator) decideSlow(now quota.Time, t *turn, b *bucket, l *quota.Limit) quota.Decision {
	cost := t.cost
	if t.answered && t.is.Why == quota.WhyNoLimit { // it has no room for the key, or other limits
		t.answered, t.alone = false, true
	}
	if l.MayAsk() || t.answered {
		if d, ok := a.toldByLeader(now, t, b, l); ok {
			t.told = true
			return d
		}
	}
	if l.AsksLeader() && !t.alone {
		return a.askLeader(t, b, l)
	}
	if b.phase == closed {
		a.openBucket(now, b, l)
	}
	b.roll(now, l)
	b.accrue(now)
	cut := b.cutOff(now, a.cfg.Lease) || l.Decide == quota.AtLeader
	if cost == 0 {
		return a.peek(now, t, b, l, cut)
	}
	if b.take(int64(cost), &a.urgent) {
		est := b.estimate(now, l, cut)
		t.took(b, 0)
		return b.decided(now, l, quota.WhyHeld, true, est, cost)
	}
	est := b.estimate(now, l, cut)
	wanted := b.want
	b.want = max(b.want, min(cost, l.BurstUnits()))
	if est.Plus(b.ceded) >= cost && !(b.barren && l.MayAsk()) {
		a.urgent.push(b) // the cluster has tokens: ask for them
	}
	if cut {
		return a.decideAlone(now, t, b, l, est)
	}
	return a.decideOpen(now, t, b, l, est, wanted)
}

// decideOpen decides on the estimate, while there is a leader. wanted is what callers before this one wanted.
func (a *Aggregator) decideOpen(now quota.Time, t *turn, b *bucket, l *quota.Limit, est, wanted quota.Units) quota.Decision {
	if l.Ceiling == quota.Soft {
		return a.decideSoft(now, t, b, l, est, wanted)
	}
	cost, left := t.cost, est.Plus(b.ceded)
	if left >= cost && a.mayAsk(now, t, b, l) && (!b.dry || b.rate == 0) {
		return a.askOnce(t, b, l, wanted)
	}
	// Others that are presumed to have used the rest refuse nobody for good: only where the leader had
	// nothing left either is the limit used up.
	absent := a.ranges[b.rng].absent.from() != 0
	b.refused = b.refused.Count(cost)
	if left >= cost {
		b.want = min(wanted.Count(cost), l.BurstUnits()) // of all callers
	}
	switch {
	case left >= cost && (est >= cost || !b.dry || absent):
		d := a.notHeld(now, b, l, left, cost)
		d.RetryAfter = max(d.RetryAfter, b.denied.Sub(now))
		return d
	case b.setAside(est, cost):
		return a.inFailover(now, b, l, est, cost)
	}
	b.shutOut(now, l, est, cost)
	return b.decided(now, l, quota.WhyOverLimit, false, est, cost)
}

// decideSoft admits what the level covers that the leader told, less what was used here since. What the
// others are presumed to have used since is taken off it too, but for the part of the level that each
// node may use without asking: as far as that goes, a presumption refuses nobody.
func (a *Aggregator) decideSoft(now quota.Time, t *turn, b *bucket, l *quota.Limit, est, wanted quota.Units) quota.Decision {
	cost, left := t.cost, est.Plus(b.ceded)
	beyond := cost - min(cost, max(0, quota.Units(b.hot().held.Load())))
	out := b.over - b.ackedOver + beyond
	covered := est >= cost || left >= cost && (est > 0 && b.ceded < quota.Token/2 || out <= b.allowance(l, max(a.nodes(), int(a.peers.Load()))))
	b.bound = covered && !b.mayGuess(now, l, beyond, est, a.peers.Load())
	unsure := left >= cost && (!covered || b.bound || out > b.part(l, a.nodes()))
	switch {
	case unsure && a.mayAsk(now, t, b, l), b.bound && a.mayAskNode(t, b):
		return a.askOnce(t, b, l, wanted)
	case covered && !b.bound:
		if !b.news && out > max(b.part(l, a.nodes()), news) {
			b.news = true
			a.urgent.push(b)
			a.urgent.wake.Store(true) // it may be waiting there for a later moment
		}
		return b.overdraw(now, t, l, quota.WhyEstimate, left)
	case l.MaxDebt > 0:
		return b.reserveAlone(now, t, l, left)
	}
	b.refused = b.refused.Count(cost)
	if left >= cost {
		return a.notHeld(now, b, l, left, cost)
	}
	b.shutOut(now, l, est, cost)
	return b.decided(now, l, quota.WhyOverLimit, false, left, cost)
}

// allowance is what this node may admit beyond what it holds, of the level that the leader told, whatever
// the others may have used since: half of an equal part, if that is a token at least.
// All nodes together never admit more than the level in this way. What has refilled since is no part of it.
func (b *bucket) allowance(l *quota.Limit, nodes int) quota.Units {
	level := l.BurstUnits()
	if b.told {
		level = b.level
	}
	if each := max(0, level) / quota.Units(2*nodes); each >= quota.Token {
		return each
	}
	return 0
}

// mayAsk reports whether the leader may be asked to decide: the limit allows a hop, a leader
// answers, and it has not just refused as much.
func (a *Aggregator) mayAsk(now quota.Time, t *turn, b *bucket, l *quota.Limit) bool {
	return !t.final && !t.alone && !t.answered && l.MayAsk() && a.ranges[b.rng].absent.from() == 0 && (now >= b.denied || t.cost < b.deniedCost)
}

// mayAskNode reports whether the node may be asked, one level above a client process: whatever the limit
// says of hops between nodes, a process that may not guess would refuse what its node admits.
func (a *Aggregator) mayAskNode(t *turn, b *bucket) bool {
	return a.peers.Load() > 0 && !t.final && !t.alone && !t.answered && a.ranges[b.rng].absent.from() == 0
}

// news is how much overdraft is worth a report of its own.
const news = quota.Token

// overdraw admits on the estimate what is more than this node holds. What it holds is a
// part of the estimate, so that goes first: spent later, it would be admitted twice.
func (b *bucket) overdraw(now quota.Time, t *turn, l *quota.Limit, why quota.Why, est quota.Units) quota.Decision {
	cost := t.cost
	beyond := b.spend(cost)
	if why == quota.WhyEstimate {
		b.overdrawn(beyond)
	} else { // the limit's when_cut_off
		b.over, b.unled = b.over.Count(beyond), b.unled.Count(beyond)
	}
	b.est, b.estUsed = b.est.Plus(-cost), b.estUsed.Plus(cost)
	t.took(b, beyond)
	return b.decided(now, l, why, true, est-cost, cost)
}

// peek tells whether a cost of one token would pass, by what is known here. A key of which no leader has
// told anything lately is asked about: by the next report, and where the limit allows a hop at once.
func (a *Aggregator) peek(now quota.Time, t *turn, b *bucket, l *quota.Limit, cut bool) quota.Decision {
	est := b.estimate(now, l, cut)
	held := quota.Units(b.hot().held.Load()) >= quota.Token
	if cut && !held {
		return a.peekAlone(now, t, b, l, est)
	}
	if !cut && (!b.told || now.Sub(b.toldAt) > a.cfg.Sync) { // it may be old news
		b.curious = true
		a.urgent.push(b)
		if !held && a.mayAsk(now, t, b, l) {
			return a.askLeader(t, b, l)
		}
	}
	left := est.Plus(b.ceded)
	switch {
	case !held && l.Ceiling == quota.Hard && a.ranges[b.rng].absent.from() != 0 && left >= quota.Token:
		return a.inFailover(now, b, l, left, quota.Token)
	case held, left >= quota.Token && l.Ceiling == quota.Hard:
		return b.decided(now, l, quota.WhyHeld, true, left, 0)
	case left >= quota.Token:
		return b.decided(now, l, quota.WhyEstimate, true, left, 0)
	case b.setAside(left, quota.Token):
		return a.inFailover(now, b, l, left, quota.Token)
	}
	return b.decided(now, l, quota.WhyOverLimit, false, left, quota.Token)
}

// askOnce leaves this decision to the leader. The next report asks for what the next ones need: a leader
// knows that from what it decides itself, who is one level above a client only if it says so.
func (a *Aggregator) askOnce(t *turn, b *bucket, l *quota.Limit, wanted quota.Units) quota.Decision {
	if b.curious = true; a.peers.Load() == 0 {
		b.want = wanted
	}
	return a.askLeader(t, b, l)
}

// askLeader leaves the decision to the leader.
func (a *Aggregator) askLeader(t *turn, b *bucket, l *quota.Limit) quota.Decision {
	t.need = Leader
	t.ask = quota.Ask{
		From: a.cfg.Self, Incarnation: a.cfg.Incarnation, ID: a.table.nextQuestion(),
		Key: t.key, Cost: t.cost, MaxWait: waitOf(l, t.maxWait), Overdrawn: max(0, b.over-b.ackedOver),
	}
	return quota.Decision{Why: quota.WhyNotHeld, Limit: l, RetryAfter: spacing}
}

// toldByLeader is what the leader has answered to this call. The key is open
// from then on, so that the next leader is told of the level.
func (a *Aggregator) toldByLeader(now quota.Time, t *turn, b *bucket, l *quota.Limit) (quota.Decision, bool) {
	if !t.answered {
		return quota.Decision{}, false
	}
	an := &t.is
	if b.phase == closed {
		a.openBucket(now, b, l)
	}
	if an.WindowStart != 0 {
		if l.Kind == quota.PeriodicRefill { // the window begins with a use: only the leader knows when
			b.reframe(now, b.offset, b.lag, &quota.GrantEntry{WindowStart: an.WindowStart, WindowEnd: an.WindowStart.Add(l.Rate.Per)})
		}
		if an.Allowed && t.cost > 0 {
			t.window = takenIn{b.slot, b.key, an.WindowStart}
		}
	}
	// A new leader has to be told what the last one said, until it has granted.
	if an.Term == b.term || !b.told {
		b.term, b.told, b.level, b.toldAt = an.Term, true, an.Level, now
	}
	b.lastUse = now
	// The leader does not know yet what was used here since the last report.
	b.est, b.estAt, b.estUsed, b.estBack, b.ceded = an.Level, now, b.acked, b.ackedBack, 0
	if b.denied = 0; !an.Allowed && t.cost > 0 && !l.AsksLeader() && an.RetryAfter > 0 {
		b.denied, b.deniedCost = now.Add(min(an.RetryAfter, a.cfg.Lease)), t.cost
	}
	b.publish()
	d := decision(l, an.Why, an.Allowed, b.hot().lastEstimate(), t.cost)
	d.Wait, d.RetryAfter, d.ResetAfter = an.Wait, an.RetryAfter, an.ResetAfter
	if !an.Allowed && an.Why == quota.WhyLeader {
		d.Why = quota.WhyOverLimit
	}
	if an.Why == quota.WhyFailover {
		d.Remaining = min(max(0, an.Level.Plus(an.Aside).Tokens()), l.Burst)
	}
	return d, true
}

// reserveAlone reserves tokens to come on this node's estimate: when the leader
// cannot be asked.
func (b *bucket) reserveAlone(now quota.Time, t *turn, l *quota.Limit, est quota.Units) quota.Decision {
	cost := t.cost
	m := limiter.RestoreMeter(&quota.Tier{Rate: l.Rate, Burst: l.Burst}, est, now, 0, 0, now)
	v := m.Take(now, l, cost, waitOf(l, t.maxWait))
	if !v.Allowed {
		b.refused = b.refused.Count(cost)
		d := b.decided(now, l, quota.WhyOverLimit, false, est, cost)
		if v.TooLong {
			d.Why = quota.WhyWaitTooLong
		}
		d.RetryAfter = v.RetryAfter
		return d
	}
	d := b.overdraw(now, t, l, quota.WhyEstimate, est)
	if d.Wait = v.Wait; v.Wait > 0 {
		d.Why = quota.WhyReserved
	}
	return d
}

// decision is the answer without a clock: of a token bucket.
func decision(l *quota.Limit, why quota.Why, allowed bool, est, cost quota.Units) quota.Decision {
	d := quota.Decision{
		Allowed: allowed, Why: why, Limit: l, Tier: 1,
		Remaining: min(max(0, est.Tokens()), l.Burst), Near: est <= l.NearUnits(),
	}
	if l.Kind == quota.TokenBucket {
		d.ResetAfter = l.Rate.TimeFor(l.BurstUnits() - est)
	}
	if !allowed {
		d.RetryAfter = max(l.Rate.TimeFor(cost-est), spacing)
	}
	return d
}

// decided is the answer now.
func (b *bucket) decided(now quota.Time, l *quota.Limit, why quota.Why, allowed bool, est, cost quota.Units) quota.Decision {
	d := decision(l, why, allowed, est, cost)
	switch l.Kind {
	case quota.TokenBucket:
	case quota.Concurrency:
		d.RetryAfter = 0
		if !allowed {
			d.RetryAfter = busy
		}
	default:
		m := b.meter(now, l, est)
		t := l.First()
		d.ResetAfter = m.ResetAfter(now, &t)
		if d.RetryAfter = 0; !allowed {
			d.RetryAfter = max(m.TimeFor(now, &t, est, cost), spacing)
		}
	}
	return d
}

// never is what no wait helps against.
const never = math.MaxInt64
