package aggregator

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// attempt is the charge of one counter: the conditions of the decision, and its outcome.
type attempt struct {
	at       *bucket // the bucket, if already looked up
	key      quota.Key
	cost     quota.Units
	maxWait  time.Duration
	needs    bool // as in quota.Request.NeedsBucket
	final    bool // as in Call
	alone    bool
	several  bool    // other counters may refuse the call
	waits    bool    // the bucket's want includes the cost already
	since    granted // as of this grant; zero: as of any
	answered bool    // answer holds the leader's answer
	decided  bool    // the leader's answer was the decision
	answer   quota.Answer
	held     quota.Units // Ask.Held of the answer

	need       Need
	firstGrant bool // it is the first grant
	ask        quota.Ask
	spends     *bucket     // what it holds is spent if the leader admits the rest; nil: nothing
	ackedBack  quota.Units // the bucket's, when the leader was asked
	taken      taken       // its bucket is nil if nothing was taken

	window  takenIn // the window that a leader charged; its limit entry is nil without one
	refused refusal // its cost is 0 without a refusal
}

// granted is the last grant of a counter.
type granted struct{ epoch, applied quota.Seq }

// counter charges one counter of a call. If that needs a grant or the leader's answer, it charges nothing and the
// decision is Allowed, so that the call's other counters are tried before a leader is asked.
func (a *Aggregator) counter(clock Clock, c *Call, q *quota.Request, s *limitEntry, key string) quota.Decision {
	t := attempt{
		key: quota.Key{LimitName: s.name, Key: key}, cost: quota.FromTokens(q.Cost), maxWait: q.MaxWait, needs: q.NeedsBucket,
		final: c.Final, alone: c.Alone, several: c.several,
	}
	if t.at = a.table.bucketOrOverflow(s, key, t.needs); t.at != nil {
		t.key.Key = t.at.key
	}
	t.waits, t.since = c.waits == t.key, c.since
	an := c.answered(t.key, t.cost)
	if an != nil {
		t.answer, t.answered, t.held, t.ackedBack = an.answer, true, an.ask.Held, an.ackedBack
	}
	d := a.charge(clock, &t, s)
	if an != nil {
		an.used, an.by = t.decided, q
		an.void = !t.decided && !an.answer.Allowed && an.answer.Why != quota.WhyNoLimit
	}
	if t.need != Nothing {
		if c.Need == Nothing {
			c.Need, c.Key, c.FirstGrant, c.Ask, c.ackedBack = t.need, t.key, t.firstGrant, t.ask, t.ackedBack
			if t.spends != nil {
				c.pledgeHeld(t.spends)
			}
		}
		d.Allowed = true // unless another counter refuses the call: then no leader is asked
	}
	if t.need == Grant && t.waits {
		c.waits, c.since = t.key, t.since
	}
	if t.taken.b != nil {
		c.taken = append(c.taken, t.taken)
	}
	if t.window.entry != nil {
		c.windows = append(c.windows, t.window)
	}
	if t.refused.cost > 0 {
		c.refused = append(c.refused, t.refused)
	}
	return d
}

// charge charges one counter.
func (a *Aggregator) charge(clock Clock, t *attempt, s *limitEntry) quota.Decision {
	for {
		if s.gone.Load() {
			if s = a.table.inline.successor(s); s == nil {
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

// decide decides by the locked bucket b. It returns false if b has just been dropped from the table. Held tokens
// decide without the clock, except for kinds with windows, and where the leader was asked in the meantime and has
// booked the cost.
func (a *Aggregator) decide(clock Clock, t *attempt, b *bucket) (quota.Decision, bool) {
	l := b.limit()
	quick := l.Kind == quota.TokenBucket && !l.AsksLeader() && t.cost > 0 && !t.answered
	if quick && b.takeLocked(t, &a.urgent) {
		return decision(l, quota.WhyHeld, true, b.hot().lastEstimate(), t.cost), true
	}
	now := clock()
	b.lock()
	defer b.unlock()
	if b.dead {
		return quota.Decision{}, false
	}
	epoch, was := b.epoch, b.refused
	d := a.decideSlow(now, t, b, l)
	if b.epoch != epoch {
		was = 0
	}
	t.refused = refusal{b: b, cost: b.refused - was, epoch: b.epoch}
	return d, true
}

// takeLocked takes the cost if enough is held. With the lock held, no report is made between that and recordTaken.
func (b *bucket) takeLocked(t *attempt, urgent *stack) bool {
	if quota.Units(b.hot().held.Load()) < t.cost {
		return false
	}
	b.lock()
	defer b.unlock()
	if b.dead || !b.take(int64(t.cost), urgent) {
		return false
	}
	t.recordTaken(b, t.cost, 0)
	return true
}

// recordTaken notes a charge of b, which is locked. beyond is the part that was not held.
func (t *attempt) recordTaken(b *bucket, cost, beyond quota.Units) {
	t.taken = taken{b: b, cost: cost, win: b.win, void: b.voids, as: b.as, left: b.left}
	if t.several {
		b.undecided += cost
	}
	b.writeSlot()
	if b.limit().Kind == quota.Concurrency {
		r := b.rare()
		r.inFlight, r.beyond = r.inFlight+cost, r.beyond+beyond
	}
}

// decideSlow decides with b locked.
func (a *Aggregator) decideSlow(now quota.Time, t *attempt, b *bucket, l *quota.Limit) quota.Decision {
	cost := t.cost
	if t.answered && t.answer.Why == quota.WhyNoLimit { // the leader has no room for the key, or other limits
		t.answered, t.alone = false, true
	}
	if l.MayAsk() {
		if d, ok := a.decidedByLeader(now, t, b, l); ok {
			t.decided = true
			return d
		}
	}
	if l.AsksLeader() && !t.alone {
		return a.askLeader(t, b, l)
	}
	if b.phase == closed {
		a.openCalm(now, b, l)
	}
	last := granted{b.epoch, b.applied}
	// A later grant did not suffice: want it again.
	t.waits, t.since = t.waits && (t.since == last || t.since == granted{}), last
	b.roll(now, l)
	b.accrue(now)
	cut := b.cutOff(now, a.cfg.Lease) || l.Decide == quota.AtLeader
	if cost == 0 {
		return a.peek(now, t, b, l, cut)
	}
	if b.take(int64(cost), &a.urgent) {
		est := b.estimate(now, l, cut)
		t.recordTaken(b, cost, 0)
		return b.decided(now, l, quota.WhyHeld, true, est, cost)
	}
	est := b.estimate(now, l, cut)
	if b.calm {
		if !cut && b.staysCalm(now, l, est, cost, a.cfg.Sync, a.nodes()*max(1, int(a.peers.Load()))) {
			return b.overdraw(now, t, l, quota.WhyEstimate, est)
		}
		a.markUrgent(b)
	}
	wanted := b.want
	b.want = max(b.want, min(cost, l.BurstUnits()))
	if cost > max(quota.Token, b.largest) && a.peers.Load() > 0 {
		b.rare().largest = cost
	}
	covers := est
	if l.Ceiling == quota.Hard { // presumed use by others refuses no check of a hard limit
		covers = est.Plus(b.presumed)
	}
	if covers >= cost && !(b.grantedNothing && b.asks(l)) {
		a.markUrgent(b) // the cluster has tokens: request them
	}
	if cut {
		return a.decideAlone(now, t, b, l, est)
	}
	return a.decideOpen(now, t, b, l, est, wanted)
}

// decideOpen decides on the estimate, while there is a leader. wanted is b.want before this check.
func (a *Aggregator) decideOpen(now quota.Time, t *attempt, b *bucket, l *quota.Limit, est, wanted quota.Units) quota.Decision {
	if l.Ceiling == quota.Soft {
		return a.decideSoft(now, t, b, l, est, wanted)
	}
	cost, left := t.cost, est.Plus(b.presumed)
	if left >= cost && a.mayAsk(now, t, b, l) && (!b.noneFree || b.rate == 0) {
		if t.firstGrant = a.awaitsFirstGrant(t, b, l); !t.firstGrant {
			return a.askOnce(t, b, l, wanted)
		}
	}
	if left >= cost && (t.firstGrant || b.mayAwait(t, l, est)) {
		if est < cost { // add up the costs of all waiting callers, each once: they are used at once
			if b.want = wanted; !t.waits {
				b.want = min(wanted+cost, l.BurstUnits())
			}
		}
		if est < cost || l.MayAsk() {
			t.waits = true
			a.markUrgent(b)
		}
		t.need = Grant
		return b.decided(now, l, quota.WhyNotHeld, false, est, cost)
	}
	// Presumed use by others refuses no check for good: the limit counts as used up only if the leader had nothing
	// left either.
	absent := a.ranges[b.rng].absent.from() != 0
	b.refused = b.refused.Count(cost)
	if left >= cost {
		b.want = min(wanted.Count(cost), l.BurstUnits()) // sum of the costs of all callers
	}
	switch {
	case left >= cost && (est >= cost || !b.noneFree || absent):
		d := a.notHeld(now, b, l, left, cost)
		d.RetryAfter = max(d.RetryAfter, b.denied.Sub(now))
		return d
	case b.setAside(est, cost):
		return a.inFailover(now, b, l, est, cost)
	}
	b.cacheDenial(now, l, est, cost)
	return b.decided(now, l, quota.WhyOverLimit, false, est, cost)
}

// decideSoft admits on the estimate: the leader's last level, less own use since, less the others' probable use
// since. If that is a guess, the check waits for the next grant where it may. Where tokens are few, it asks the leader.
func (a *Aggregator) decideSoft(now quota.Time, t *attempt, b *bucket, l *quota.Limit, est, wanted quota.Units) quota.Decision {
	cost := t.cost
	if b.central && l.MayAsk() {
		switch {
		case a.mayAsk(now, t, b, l):
			return a.askOnce(t, b, l, wanted)
		case now < b.denied && cost >= b.deniedCost:
			return b.repeatDenial(now, l, est, cost)
		}
	}
	beyond := cost - min(cost, max(0, quota.Units(b.hot().held.Load())))
	b.guessing = b.guesses(l, beyond, a.nodes())
	// The others' demand is an estimate too. A fraction of a token that they may have used refuses no check; where
	// only presumed use stands against the cost (doubt), the check needs a grant.
	if est < cost && est > 0 && b.presumed < quota.Token/2 {
		est = min(cost, est+b.presumed)
	}
	// Others may hold the level in parts that are smaller than their requests, so that nobody uses it. A client then
	// admits one request of more than a token on what others hold, within its credit, until the node has booked that
	// (TestClientsLargeRequests in internal/sim). What others have demanded since the level counts as used.
	others := accrued(b.others, now.Sub(b.levelAt))
	if est < cost && est+b.presumed-others >= cost && cost > quota.Token && a.peers.Load() > 0 && !b.fresh && b.over == b.ackedOver && beyond <= b.credit {
		est = cost
	}
	b.bound = est >= cost && !b.mayGuess(now, l, beyond, est, a.peers.Load())
	doubt := est < cost && est+b.presumed >= cost && !b.noneFree
	if !t.final && l.MayWait() && (est >= cost && b.guessing || b.bound || doubt) {
		b.want = wanted
		if !t.waits { // add up the costs of all waiting callers, each once: they are used at once
			b.want = min(wanted+cost, l.BurstUnits())
		}
		t.waits = true
		t.need = Grant
		a.markUrgent(b)
		return b.decided(now, l, quota.WhyNotHeld, false, est, cost)
	}
	switch {
	case est >= cost && b.bound:
		b.refused = b.refused.Count(cost)
		return a.notHeld(now, b, l, est, cost)
	case est >= cost:
		if !b.largeOverdraft && b.over-b.ackedOver+beyond > max(b.part(l, a.nodes()), minUrgentOverdraft) {
			b.largeOverdraft = true
			a.markUrgent(b)
			a.urgent.wake.Store(true) // it may be in the queue for a later moment
		}
		return b.overdraw(now, t, l, quota.WhyEstimate, est)
	case l.MaxDebt > 0:
		return b.reserveAlone(now, t, l, est)
	}
	b.refused = b.refused.Count(cost)
	if b.setAside(est, cost) {
		return a.inFailover(now, b, l, est, cost)
	}
	b.cacheDenial(now, l, est, cost)
	return b.decided(now, l, quota.WhyOverLimit, false, est, cost)
}

// mayAsk reports whether the check may ask the leader: the limit allows the hop, the leader answers, and it has not
// just refused the same cost. A call that has already waited for another counter may ask too.
func (a *Aggregator) mayAsk(now quota.Time, t *attempt, b *bucket, l *quota.Limit) bool {
	return !t.alone && !t.answered && l.MayAsk() && a.ranges[b.rng].absent.from() == 0 && (now >= b.denied || t.cost < b.deniedCost)
}

// repeatDenial refuses a cost of a soft limit that the leader has refused, until the time that it named.
func (b *bucket) repeatDenial(now quota.Time, l *quota.Limit, est, cost quota.Units) quota.Decision {
	est = min(est, cost-1)
	b.refused = b.refused.Count(cost)
	b.cacheDenial(now, l, est, cost)
	d := b.decided(now, l, quota.WhyOverLimit, false, est, cost)
	d.RetryAfter = b.denied.Sub(now)
	return d
}

// asks reports whether checks that held tokens do not settle ask the leader, while there is one.
func (b *bucket) asks(l *quota.Limit) bool {
	return l.MayAsk() && (l.Ceiling == quota.Hard || b.central)
}

// awaitsFirstGrant reports whether a check of a hard limit that this node may ask the leader about waits for the key's
// first grant instead. The grant arrives as soon as the answer would; but a leader that answers has to commit a promise
// to itself first, while an equal part of every bucket may be granted without that. So the check waits if that part
// covers manyRequests.
func (a *Aggregator) awaitsFirstGrant(t *attempt, b *bucket, l *quota.Limit) bool {
	return b.noGrantYet && !t.final && !t.answered && a.peers.Load() == 0 && !l.AsksLeader() && l.Kind == quota.TokenBucket &&
		l.BurstUnits()/quota.Units(a.nodes()) >= manyRequests*max(t.cost, 2*quota.Token)
}

// manyRequests is the number of requests that a node's equal part of the burst must cover: with a smaller part, tokens
// that other nodes hold would cause refusals here.
const manyRequests = 4

// mayAwait reports whether a check of a hard limit may wait for the next grant. Checks of limits that wait (MayWait)
// may, unless the estimate is below the cost and the leader has nothing free. Checks of limits that ask the leader
// may only if the leader has answered that the grant will decide (decidedByLeader), or does not know of tokens that
// callers gave back here.
func (b *bucket) mayAwait(t *attempt, l *quota.Limit, est quota.Units) bool {
	switch {
	case t.final:
		return false
	case l.MayWait():
		return est >= t.cost || !b.noneFree
	}
	return l.MayAsk() && (t.answered || t.waits || b.hasUnackedRefunds())
}

// hasUnackedRefunds reports whether callers gave back tokens here that no leader is known to have booked.
func (b *bucket) hasUnackedRefunds() bool { return b.refunded > b.ackedBack }

// minUrgentOverdraft is the least overdraft that is worth a report of its own.
const minUrgentOverdraft = quota.Token

// overdraw admits on the estimate a cost that exceeds the held tokens. It spends the held tokens first: they are a
// part of the estimate, and spent later they would be admitted twice.
func (b *bucket) overdraw(now quota.Time, t *attempt, l *quota.Limit, why quota.Why, est quota.Units) quota.Decision {
	cost := t.cost
	beyond := b.spend(cost)
	if why == quota.WhyEstimate {
		b.countOverdraft(beyond)
	} else { // by the limit's when_cut_off
		b.over = b.over.Count(beyond)
		b.countCutOff(beyond)
	}
	b.est, b.estUsed = b.est.Plus(-cost), b.estUsed.Plus(cost)
	t.recordTaken(b, cost, beyond)
	return b.decided(now, l, why, true, est-cost, cost)
}

// peek reports whether a cost of one token would pass, by local knowledge. Without a recent grant the key is asked
// about: by the next report, for which a soft limit waits, or at once if the leader may be asked.
func (a *Aggregator) peek(now quota.Time, t *attempt, b *bucket, l *quota.Limit, cut bool) quota.Decision {
	est := b.estimate(now, l, cut)
	held := quota.Units(b.hot().held.Load()) >= quota.Token
	if cut && !held {
		return a.peekAlone(now, t, b, l, est)
	}
	if !cut && !t.final && (!b.hasLevel || now.Sub(b.levelAt) > a.cfg.Sync) { // the level may be outdated
		b.wantsLevel = true
		a.markUrgent(b)
		switch {
		case b.asks(l) && !held && a.mayAsk(now, t, b, l):
			return a.askLeader(t, b, l)
		case l.MayWait():
			t.need = Grant
		}
	}
	left := est.Plus(b.presumed)
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

// askOnce leaves this decision to the leader. The next report of a client also requests tokens for later checks: a
// leader derives that demand from its own decisions, a client's node, one level above, does not.
func (a *Aggregator) askOnce(t *attempt, b *bucket, l *quota.Limit, wanted quota.Units) quota.Decision {
	if b.wantsLevel = true; a.peers.Load() == 0 {
		b.want = wanted
	}
	return a.askLeader(t, b, l)
}

// askLeader leaves the decision to the leader. A node spends what it holds of a hard limit first, and asks for the rest:
// what it held otherwise would have to return before the leader could admit the whole cost (TestSpendsHeldFirst). A call
// of several counters asks for all, because it asks one leader after another: until the last one has answered, a report
// may return what the first answer left to this node (TestSeveralAskForAll).
func (a *Aggregator) askLeader(t *attempt, b *bucket, l *quota.Limit) quota.Decision {
	t.need, t.ackedBack = Leader, b.ackedBack
	if l.Ceiling == quota.Hard && l.Kind == quota.TokenBucket && !l.AsksLeader() && !t.several && a.peers.Load() == 0 {
		t.spends = b
	}
	t.ask = quota.Ask{
		From: a.cfg.Self, Incarnation: a.cfg.Incarnation, ID: a.table.nextRequest(),
		Key: t.key, Cost: t.cost, MaxWait: waitOf(l, t.maxWait), Overdrawn: max(0, min(b.charged, b.over-b.ackedOver)),
	}
	return quota.Decision{Why: quota.WhyNotHeld, Limit: l, RetryAfter: spacing}
}

// decidedByLeader returns the decision of the leader's answer. It opens the key, so that reports take the level to
// the next leader. It returns false if the next grant may decide otherwise: members hold the missing tokens and the
// leader recalls them, the leader did not know of tokens that callers refunded here, or what this node wanted to spend of
// its own is gone.
func (a *Aggregator) decidedByLeader(now quota.Time, t *attempt, b *bucket, l *quota.Limit) (quota.Decision, bool) {
	if !t.answered {
		return quota.Decision{}, false
	}
	an := &t.answer
	if b.phase == closed {
		a.openBucket(now, b, l)
	}
	if !an.Allowed && !t.final && t.ackedBack != b.ackedBack && !l.AsksLeader() { // a grant that includes refunds overtook it
		return quota.Decision{}, false
	}
	if an.Allowed && t.held > 0 {
		// Another call has spent it, or the leader decided by another version of the limit.
		if b.accrue(now); an.Report || !b.take(int64(t.held), &a.urgent) {
			return quota.Decision{}, false
		}
		t.recordTaken(b, t.held, 0)
	}
	if an.WindowStart != 0 {
		switch {
		case l.Kind == quota.PeriodicRefill: // the window begins with a use: only the leader knows when
			b.adoptWindow(now, b.clock(), &quota.GrantEntry{WindowStart: an.WindowStart, WindowEnd: an.WindowStart.Add(l.Rate.Per)})
		case an.Report && an.WindowStart > b.win && l.Kind != quota.SlidingWindow: // this member's view of the leader's clock lags
			t := l.First()
			_, end := limiter.Window(&t, an.WindowStart)
			b.adoptWindow(now, b.clock(), &quota.GrantEntry{WindowStart: an.WindowStart, WindowEnd: end})
		}
		if an.Allowed && t.cost > 0 {
			t.window = takenIn{b.entry, b.key, an.WindowStart}
		}
	}
	// A new leader has to receive the last leader's level in reports until it has granted: keep that level.
	if an.Term == b.term || !b.hasLevel {
		b.term, b.hasLevel, b.level, b.levelAt = an.Term, true, an.Level, now
		b.setAnswered(an.At)
	}
	b.lastUse = now
	b.est, b.estAt, b.estUsed, b.estBack, b.presumed = an.Level, now, b.knownUse(l), b.ackedBack, 0
	if l.Kind == quota.TokenBucket && !l.ReportsAnswers() && an.Epoch == b.epoch { // a grant that says so may be on its way
		b.estUsed, b.estBack = max(b.estUsed, min(an.Used, b.counts().spent())), max(b.estBack, min(an.Refunded, b.refunded))
	}
	switch {
	case !an.Report || t.cost == 0:
	case t.several:
		t.taken = taken{b: b, cost: t.cost, win: an.WindowStart, answered: true}
	default:
		b.countAnswered(t.cost, an.WindowStart)
	}
	if b.setDenied(0, 0); !an.Allowed && t.cost > 0 && !l.AsksLeader() && an.RetryAfter > 0 {
		b.setDenied(now.Add(min(an.RetryAfter, a.cfg.Lease)), t.cost)
	}
	b.publish()
	if !an.Allowed && t.cost > 0 && !t.final && !l.AsksLeader() && (an.Why == quota.WhyNotHeld || b.hasUnackedRefunds()) {
		return quota.Decision{}, false
	}
	d := decision(l, an.Why, an.Allowed, b.hot().lastEstimate(), t.cost)
	d.Wait, d.RetryAfter, d.ResetAfter = an.Wait, an.RetryAfter, an.ResetAfter
	if !an.Allowed && an.Why == quota.WhyLeader {
		d.Why = quota.WhyOverLimit
	}
	if d.Why == quota.WhyOverLimit && t.cost > 0 { // the leader keeps the rest for others
		d.Remaining = min(d.Remaining, (t.cost - 1).Tokens())
	}
	if an.Why == quota.WhyFailover {
		d.Remaining = min(max(0, an.Level.Plus(an.Aside).Tokens()), l.Burst)
	}
	return d, true
}

// reserveAlone reserves future tokens on this node's estimate, where the leader cannot be asked.
func (b *bucket) reserveAlone(now quota.Time, t *attempt, l *quota.Limit, est quota.Units) quota.Decision {
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

// decision returns the answer that needs no clock: that of a token bucket.
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

// decided returns the answer at now, for any kind.
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
		m, at := b.meter(now, l, est)
		t := l.First()
		d.ResetAfter = m.ResetAfter(at, &t)
		if l.Kind == quota.SlidingWindow {
			// The slope and each refill are rounded down. What that leaves until the next window counts as returned.
			d.ResetAfter = m.TimeFor(at, &t, est, l.BurstUnits()-max(quota.Token/1000, quota.Units(l.Rate.Per/time.Second)+2))
		}
		if d.RetryAfter = 0; !allowed {
			d.RetryAfter = max(m.TimeFor(at, &t, est, cost), spacing)
		}
	}
	return d
}

// never is the retry-after of a refusal that no wait can change.
const never = math.MaxInt64
