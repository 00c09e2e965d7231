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
	wanted   quota.Units // what the bucket wanted before
	waits    bool        // its cost is in what the bucket wants already
	answered bool        // is holds what the leader said
	told     bool        // and it has decided
	is       quota.Answer

	need  Need
	ask   quota.Ask
	taken taken // its bucket is nil if nothing was

	window  takenIn // in which a leader has charged it; its slot is nil if none has
	refused refusal // its cost is 0 if nothing was
}

// counter charges one counter of a call.
func (a *Aggregator) counter(clock Clock, c *Call, q *quota.Request, s *slot, key string) quota.Decision {
	t := turn{
		key: quota.Key{LimitName: s.name, Key: key}, cost: quota.FromTokens(q.Cost), maxWait: q.MaxWait, needs: q.NeedsBucket,
		final: c.Final, alone: c.Alone,
	}
	if t.at = a.table.bucketOrOverflow(s, key, t.needs); t.at != nil {
		t.key.Key = t.at.key
	}
	t.waits = c.waits == t.key
	an := c.answered(t.key, t.cost)
	if an != nil {
		t.is, t.answered = an.is, true
	}
	d := a.charge(clock, &t, s)
	if an != nil {
		an.used = t.told
	}
	if c.Need == Nothing && t.need != Nothing {
		c.Need, c.Key, c.Ask = t.need, t.key, t.ask
	}
	if t.need == Grant && t.waits {
		c.waits = t.key
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
	if l.AsksLeader() {
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
	t.wanted = b.want
	b.want = max(b.want, min(cost, l.BurstUnits()))
	if est >= cost {
		a.urgent.push(b) // the cluster has tokens: ask for them
	}
	if cut {
		return a.decideAlone(now, t, b, l, est)
	}
	return a.decideOpen(now, t, b, l, est)
}

// decideOpen decides on the estimate, while there is a leader.
func (a *Aggregator) decideOpen(now quota.Time, t *turn, b *bucket, l *quota.Limit, est quota.Units) quota.Decision {
	cost := t.cost
	beyond := cost - min(cost, max(0, quota.Units(b.hot().held.Load())))
	b.guessing = b.guesses(l, beyond, a.nodes())
	// The others' demand is a guess too: a fraction of a token that they may have
	// used refuses nobody, and what it alone would refuse is asked for.
	if l.Ceiling == quota.Soft && est < cost && est > 0 && b.ceded < quota.Token/2 {
		est = min(cost, est+b.ceded)
	}
	b.bound = l.Ceiling == quota.Soft && est >= cost && !b.mayGuess(now, l, beyond, est, a.peers.Load())
	doubt := est < cost && est+b.ceded >= cost && !b.dry
	if !t.final && (est >= cost && b.guessing || b.bound || doubt) {
		b.want = t.wanted
		if !t.waits { // once for every caller that waits: this much is used at once
			b.want = min(t.wanted+cost, l.BurstUnits())
		}
		t.waits = true
		t.need = Grant
		a.urgent.push(b)
		return b.decided(now, l, quota.WhyNotHeld, false, est, cost)
	}
	if l.Ceiling == quota.Soft && est >= cost {
		if b.bound {
			b.refused = b.refused.Count(cost)
			return a.notHeld(now, b, l, est, cost)
		}
		if !b.news && b.over-b.ackedOver+beyond > max(b.part(l, a.nodes()), news) {
			b.news = true
			a.urgent.push(b)
			a.urgent.wake.Store(true) // it may be waiting there for a later moment
		}
		return b.overdraw(now, t, l, quota.WhyEstimate, est)
	}
	if est >= cost && !t.final { // hard
		t.need = Grant
		return b.decided(now, l, quota.WhyNotHeld, false, est, cost)
	}
	// Nor does such a guess, when nobody has answered in time, say that a hard limit is used
	// up: what others are refused is demand too.
	absent := a.ranges[b.rng].absent.from() != 0
	if (doubt || absent) && l.Ceiling == quota.Hard && l.MaxDebt == 0 {
		est += b.ceded
	}
	if est >= cost {
		b.refused = b.refused.Count(cost)
		return a.notHeld(now, b, l, est, cost)
	}
	if l.MaxDebt > 0 {
		return b.reserveAlone(now, t, l, est)
	}
	b.refused = b.refused.Count(cost)
	if b.setAside(est, cost) {
		return a.inFailover(now, b, l, est, cost)
	}
	b.shutOut(now, l, est, cost)
	return b.decided(now, l, quota.WhyOverLimit, false, est, cost)
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

// peek tells whether a cost of one token would pass, by the rule's own path: out of what is
// held, else on the estimate under soft. Under hard a check waits for a grant then, which a
// leader with tokens left gives, and is decided out of that; the question asks for none. A
// key of which no leader has told anything waits for that.
func (a *Aggregator) peek(now quota.Time, t *turn, b *bucket, l *quota.Limit, cut bool) quota.Decision {
	est := b.estimate(now, l, cut)
	held := quota.Units(b.hot().held.Load()) >= quota.Token
	if cut && !held {
		return a.peekAlone(now, t, b, l, est)
	}
	if !cut && !t.final && (!b.told || now.Sub(b.toldAt) > a.cfg.Sync) { // it may be old news
		b.curious = true
		a.urgent.push(b)
		t.need = Grant
	}
	switch {
	case !held && l.Ceiling == quota.Hard && a.ranges[b.rng].absent.from() != 0 && est.Plus(b.ceded) >= quota.Token:
		return a.inFailover(now, b, l, est.Plus(b.ceded), quota.Token)
	case held, est >= quota.Token && l.Ceiling == quota.Hard:
		return b.decided(now, l, quota.WhyHeld, true, est, 0)
	case est >= quota.Token:
		return b.decided(now, l, quota.WhyEstimate, true, est, 0)
	case b.setAside(est, quota.Token):
		return a.inFailover(now, b, l, est, quota.Token)
	}
	return b.decided(now, l, quota.WhyOverLimit, false, est, quota.Token)
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
	b.est, b.estAt, b.estUsed, b.estBack = an.Level, now, b.acked, b.ackedBack
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
