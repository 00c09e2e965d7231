package aggregator

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Need is an event that could change a refusal.
type Need uint8

const (
	// Nothing means that the decision is final.
	Nothing Need = iota
	// Grant means that the next grant of Call.Key decides.
	Grant
	// Leader means that the leader of Call.Key's range has to decide Call.Ask.
	Leader
)

// Call is one call: limits that must all pass, or none is charged. While Decide leaves a need, nothing is counted,
// and the caller decides the call again: after a grant, after Answer, or with Final set.
//
// A Call serves one goroutine and one call; Reset prepares it for another.
type Call struct {
	Requests []quota.Request
	Out      []quota.Decision // one per request
	// Final decides without waiting for a grant. Leaders may still be asked.
	Final bool
	// Alone means that no leader can be reached: limits that need one follow their when_cut_off.
	Alone bool
	// Acquires means that the tokens will be released or settled: without it, concurrency limits refuse.
	Acquires bool

	Need       Need
	Key        quota.Key // the counter that has the need
	FirstGrant bool      // the needed grant is the key's first: without it the leader is asked
	Ask        quota.Ask
	ackedBack  quota.Units // as in attempt
	pledge     pledge      // of Ask

	several  bool      // more than one counter decides: each charge is undecided until all have admitted the call
	waits    quota.Key // the counter whose want includes this call
	since    granted   // the last grant of that counter before
	answers  []answer
	refused  []refusal
	taken    []taken
	takenBuf [4]taken
	windows  []takenIn // windows that leaders charged in this run of Decide
	counters []counter // counters that this run of Decide charges; only of a call that Acquires
}

// refusal is a cost that was counted as refused, by a counter or by a limit that it exceeds.
type refusal struct {
	s     *limitEntry
	b     *bucket // nil if the cost can never fit
	cost  quota.Units
	epoch quota.Seq
}

// answer is a leader's answer.
type answer struct {
	ask       quota.Ask
	answer    quota.Answer
	ackedBack quota.Units    // as in attempt
	used      bool           // in this run of Decide: one call may ask about a counter twice
	void      bool           // it decided nothing, and the counter waits for a grant instead
	by        *quota.Request // the last request that used it
}

// pledge is the part of the held tokens that a call spends if the leader admits the rest. Other calls may spend them first.
type pledge struct {
	b    *bucket // nil: nothing
	cost quota.Units
}

// pledgeHeld has c.Ask spend what b holds, as far as no other call does.
func (c *Call) pledgeHeld(b *bucket) {
	b.lock()
	defer b.unlock()
	if held := min(c.Ask.Cost, quota.Units(b.hot().held.Load())-b.pledged); held > 0 && !b.dead {
		b.rare().pledged += held
		c.Ask.Held, c.pledge = held, pledge{b, held}
	}
}

// release ends the pledge.
func (p *pledge) release() {
	if p.b != nil {
		p.b.lock()
		p.b.rare().pledged -= p.cost
		p.b.unlock()
		*p = pledge{}
	}
}

// taken is a charge of a counter, kept for undo.
type taken struct {
	b    *bucket
	cost quota.Units
	win  quota.Time   // start of the window
	void uint32       // smallState.voids
	as   *quota.Limit // the limit that applied
	left uint8        // rareState.left

	answered bool // the leader has admitted it: it is counted when the call is confirmed
}

// Reset prepares c for these requests. out has one place for each decision.
func (c *Call) Reset(reqs []quota.Request, out []quota.Decision) {
	c.pledge.release()
	*c = Call{Requests: reqs, Out: out, answers: c.answers[:0], refused: c.refused[:0], windows: c.windows[:0], counters: c.counters[:0]}
	c.taken = c.takenBuf[:0]
}

// Answer adds the leader's answer to c.Ask.
func (c *Call) Answer(a quota.Answer) {
	c.answers = append(c.answers, answer{ask: c.Ask, answer: a, ackedBack: c.ackedBack})
}

// answered returns an answer about that cost of the counter which no charge of this run has used yet, or nil.
func (c *Call) answered(k quota.Key, cost quota.Units) *answer {
	for i := range c.answers {
		if an := &c.answers[i]; an.ask.Key == k && an.ask.Cost == cost && !an.used && !an.void {
			return an
		}
	}
	return nil
}

// Decide decides a call. If it leaves c.Need set, the call is not decided yet.
func (a *Aggregator) Decide(clock Clock, c *Call) bool {
	c.pledge.release()
	c.Need, c.FirstGrant, c.refused, c.windows, c.counters = Nothing, false, c.refused[:0], c.windows[:0], c.counters[:0]
	for i := range c.answers {
		c.answers[i].used = false
	}
	for i := range c.Requests {
		if c.Out[i] = a.decideRequest(clock, c, &c.Requests[i]); !c.Out[i].Allowed {
			c.Need = Nothing // no leader can change that
			c.undo(0)
			a.cancelUnused(clock, c, true)
			return false
		}
	}
	if c.Need != Nothing {
		for i := range c.Out {
			c.Out[i].Allowed = false
		}
		c.undo(0)
		c.undoRefusals()
		return false
	}
	a.confirm(clock, c)
	a.cancelUnused(clock, c, false)
	return true
}

// decideRequest decides one request: it charges the limit that its name resolves to, if that is enforced.
func (a *Aggregator) decideRequest(clock Clock, c *Call, q *quota.Request) quota.Decision {
	s, key := a.table.resolve(q.Key.LimitName, q.Key.Key)
	if s == nil {
		return quota.Decision{Why: quota.WhyNoLimit}
	}
	r := s.rule.Load()
	l := a.effective(s, r, key)
	if d, ok := a.decideFixed(s, r, l, key, q.Cost, c.Acquires); ok {
		c.countUnfit(s, &d, q.Cost)
		return enforced(d, l, key)
	}
	if c.Acquires {
		for _, ch := range r.charges {
			c.counters = append(c.counters, counter{ch.entry, l.Kind == quota.Concurrency})
		}
	}
	mark, need := len(c.taken), c.Need
	c.several = len(c.Requests) > 1 || len(r.charges) > 1
	d := a.chargeAll(clock, c, q, r, key)
	d.Limit = l
	if !d.Allowed {
		c.undo(mark)
		c.releaseAnswers(q)
		c.Need = need
	}
	return enforced(d, l, key)
}

// releaseAnswers gives up leaders' admissions for a request that another counter of it refuses: in shadow, the call
// continues without the request.
func (c *Call) releaseAnswers(q *quota.Request) {
	for i := range c.answers {
		if an := &c.answers[i]; an.by == q && an.answer.Allowed {
			an.used = false
		}
	}
}

// effective returns the limit that applies to a key, without making a bucket.
func (a *Aggregator) effective(s *limitEntry, r *rule, key string) *quota.Limit {
	if b := s.keys.Load(key); b != nil {
		return b.limit()
	}
	return quota.Effective(r.limit, a.table.overrides, key)
}

// decideFixed decides checks that change no counter.
func (a *Aggregator) decideFixed(s *limitEntry, r *rule, l *quota.Limit, key string, cost int64, acquires bool) (quota.Decision, bool) {
	d, ok := fixed(l, cost, acquires)
	if !ok {
		return d, false
	}
	if l.Class != quota.Counted {
		d.Limit = r.limit // not a copy for every banned key
	} else if b := a.table.lookup(s, key); b != nil {
		d.Remaining = b.remaining(l)
	}
	return d, true
}

// countUnfit counts a cost that never fits. It is demand: the tally counts it as refused. Reports do not, because no
// share of the limit would help.
func (s *limitEntry) countUnfit(d *quota.Decision, cost int64) (counted quota.Units) {
	if d.Why == quota.WhyOverBurst || d.Why == quota.WhyOverMaxCost {
		counted = quota.FromTokens(min(cost, quota.MaxTokens))
		addAtomic(&s.sum.unfit, counted)
	}
	return counted
}

// countUnfit is limitEntry.countUnfit for a call that may be decided again.
func (c *Call) countUnfit(s *limitEntry, d *quota.Decision, cost int64) {
	if u := s.countUnfit(d, cost); u > 0 {
		c.refused = append(c.refused, refusal{s: s, cost: u})
	}
}

// fixed decides checks that depend on the limit and the cost alone.
func fixed(l *quota.Limit, cost int64, acquires bool) (quota.Decision, bool) {
	d := quota.Decision{Limit: l, Remaining: l.Burst, RetryAfter: math.MaxInt64, Tier: 1}
	switch {
	case l.Enforcement == quota.Off:
		d.Why, d.Allowed, d.RetryAfter = quota.WhyNotEnforced, true, 0
	case l.Class == quota.Unlimited:
		d.Why, d.Allowed, d.RetryAfter, d.Remaining = quota.WhyUnlimited, true, 0, quota.MaxTokens
	case l.Class == quota.Banned:
		d.Why, d.Remaining = quota.WhyBanned, 0
	case cost < 0:
		d.Why = quota.WhyUnknown
	case l.Kind == quota.Concurrency && !acquires && cost > 0:
		d.Why = quota.WhyUseAcquire
	case l.MaxCost > 0 && cost > l.MaxCost:
		d.Why = quota.WhyOverMaxCost
	case cost > l.MostCost():
		d.Why = quota.WhyOverBurst
	default:
		return d, false
	}
	return d, true
}

// enforced turns a refusal into an admission if the limit, or this key of it, is in shadow.
func enforced(d quota.Decision, l *quota.Limit, key string) quota.Decision {
	if d.Allowed || l.Enforcement == quota.Enforce && inFraction(l, key) {
		return d
	}
	d.Allowed, d.Shadow, d.Wait = true, true, 0
	return d
}

// remaining returns the remaining tokens of the key, as far as known without reading a clock.
func (b *bucket) remaining(l *quota.Limit) int64 {
	return min(max(0, b.hot().lastEstimate().Tokens()), l.Burst)
}

// inFraction reports whether a partly enforced limit applies to the key: always to the same keys, and to more as the
// fraction grows.
func inFraction(l *quota.Limit, key string) bool {
	if l.Fraction == 0 || l.Fraction == quota.Million {
		return true
	}
	h := shard.Hash(quota.Key{LimitName: quota.LimitName{Limit: "fraction"}, Key: key})
	return int64(h%quota.Million) < l.Fraction
}

// chargeAll charges all counters of the limit.
func (a *Aggregator) chargeAll(clock Clock, c *Call, q *quota.Request, r *rule, key string) quota.Decision {
	var d quota.Decision
	i, n := 0, len(r.charges)
	for ; i < n && r.charges[i].up == 0 && !r.charges[i].floor; i++ {
		t := a.counter(clock, c, q, r.charges[i].entry, key)
		t.Tier = i + 1
		d = worse(d, t)
		if !t.Allowed {
			return t
		}
	}
	if i == n {
		return d
	}
	if r.charges[i].floor {
		if a.takeFloor(clock, c, q, r.charges[i].entry, key) {
			return a.overParents(clock, c, q, r.charges[i+1:], key, d)
		}
		i++
	}
	for ; i < n; i++ {
		p := a.parent(clock, c, q, r.charges[i].entry, quota.ParentKey(key, r.charges[i].up))
		if !p.Allowed {
			if p.Why == quota.WhyOverLimit {
				p.Why = quota.WhyParentOverLimit
			}
			return p
		}
		d.Remaining, d.Wait, d.Near = min(d.Remaining, p.Remaining), max(d.Wait, p.Wait), d.Near || p.Near
	}
	return d
}

// parent charges a counter of a parent, if that limit is enforced.
func (a *Aggregator) parent(clock Clock, c *Call, q *quota.Request, s *limitEntry, key string) quota.Decision {
	r := s.rule.Load()
	l := a.effective(s, r, key)
	d, ok := a.decideFixed(s, r, l, key, q.Cost, false)
	if ok {
		c.countUnfit(s, &d, q.Cost)
	} else {
		d = a.counter(clock, c, q, s, key)
	}
	return enforced(d, l, key)
}

// worse returns the admission with fewer tokens left, with the longer wait of both.
func worse(d, t quota.Decision) quota.Decision {
	if d.Tier == 0 {
		return t
	}
	wait, near := max(d.Wait, t.Wait), d.Near || t.Near
	if t.Remaining < d.Remaining {
		d = t
	}
	d.Wait, d.Near = wait, near
	return d
}

// takeFloor charges the floor if enough is held here. It neither asks a leader nor waits for a grant: without the
// floor, the parents decide.
func (a *Aggregator) takeFloor(clock Clock, c *Call, q *quota.Request, s *limitEntry, key string) bool {
	quiet := Call{Final: true, Alone: true, several: c.several, taken: c.taken, refused: c.refused}
	d := a.counter(clock, &quiet, q, s, key)
	c.taken, c.refused = quiet.taken, quiet.refused
	return d.Allowed
}

// overParents charges the parents even beyond their limits: the floor is guaranteed.
func (a *Aggregator) overParents(clock Clock, c *Call, q *quota.Request, up []charge, key string, d quota.Decision) quota.Decision {
	for _, p := range up {
		if l := p.entry.rule.Load().limit; l.Class != quota.Counted || l.Enforcement == quota.Off {
			continue
		}
		b, was := a.forceCharge(clock, p.entry, quota.ParentKey(key, p.up), quota.FromTokens(q.Cost), c)
		if b == nil {
			continue
		}
		if was < quota.FromTokens(q.Cost) {
			d.Why = quota.WhyFloor
		}
	}
	return d
}

// confirm makes the charges of an admitted call part of the next reports.
func (a *Aggregator) confirm(clock Clock, c *Call) {
	if !c.several {
		return
	}
	for _, t := range c.taken {
		b := t.b
		b.lock()
		switch {
		case t.answered:
			if b.phase == closed && !b.dead {
				a.openBucket(clock(), b, b.limit())
			}
			b.countAnswered(t.cost, t.win)
		case t.left == b.left:
			b.undecided -= t.cost
			if !b.sameWindow(b.limit(), t.win) {
				b.decidedLate(t)
			}
		}
		b.unlock()
	}
}

// countAnswered counts what the leader has admitted, in the window that begins at win, as this member's use. The leader's
// level includes it already, and that leader knows it when it is reported (leader.allocation.answered); a later one books it.
func (b *bucket) countAnswered(cost quota.Units, win quota.Time) {
	cost = min(cost, quota.Most-b.in) // as addHeld
	b.in, b.estUsed = b.in+cost, b.estUsed.Plus(cost)
	if l := b.limit(); l.Kind.Windowed() && l.Kind != quota.SlidingWindow && !b.sameWindow(l, win) { // it has ended here
		b.ownWindow().before = b.before.Count(cost)
	}
	b.writeSlot()
}

// decidedLate notes that a charge of an ended window is decided.
func (b *bucket) decidedLate(t taken) {
	b.setBefore(b.before, b.undecidedBefore-min(b.undecidedBefore, t.cost))
}

// undo reverts the charges of the call since the mark.
func (c *Call) undo(mark int) {
	for _, t := range c.taken[mark:] {
		t.b.undo(t)
	}
	c.taken = c.taken[:mark]
}

// undoRefusals reverts the refusals that were counted, because the call is decided again: limits in shadow, and floors,
// count a refusal and let the call continue.
func (c *Call) undoRefusals() {
	for _, r := range c.refused {
		if r.b == nil {
			addAtomic(&r.s.sum.unfit, -r.cost)
		} else {
			r.b.undoRefusal(r)
		}
	}
}

// undoRefusal reverts a refusal, unless it was reported.
func (b *bucket) undoRefusal(r refusal) {
	b.lock()
	defer b.unlock()
	if b.epoch == r.epoch && !b.dead {
		b.refused -= min(r.cost, max(0, b.refused-b.sent.refused))
	}
}

// cancelUnused lets leaders take back admissions of a call that was refused, or that passed without using them: the
// limits have changed since, or the floor has paid.
func (a *Aggregator) cancelUnused(clock Clock, c *Call, refused bool) {
	for i := range c.answers {
		an := &c.answers[i]
		a.tallyAnswer(an, refused)
		if an.ask.Cost > 0 && an.answer.Why != quota.WhyNoLimit && (!an.used || refused && an.answer.Allowed) {
			if !a.Cancel(clock, an.ask) && an.answer.Allowed && !an.answer.Report { // an unreported cost returns when the key closes
				a.refund(clock, an.ask.Key, an.ask.Booked(), &Taken{}) // in which window it was booked is unknown
			}
		}
	}
	c.answers = c.answers[:0]
}

// undo reverts one charge, which no report contains. Tokens of a window that has ended, or of another limit, return to
// the leader; those of a window raise the level of no other window.
func (b *bucket) undo(t taken) {
	b.lock()
	defer b.unlock()
	if b.dead || t.answered || t.left != b.left {
		return
	}
	beyond := min(t.cost, b.over-b.sent.over) // see decidedCounts
	rest := t.cost - beyond
	b.undecided -= t.cost
	b.over, b.unpaid = b.over-beyond, b.unpaid-min(b.unpaid, beyond)
	if b.limit().Kind == quota.Concurrency {
		b.rare().inFlight -= t.cost
		b.payBeyond(beyond)
	}
	same := b.sameWindow(b.limit(), t.win)
	switch {
	case t.as == b.as && (b.limit().Kind == quota.SlidingWindow || same && t.void == b.voids):
		b.hot().held.Add(int64(rest))
	default: // the window has ended here, if not certainly at the leader, or the limit may have been cut
		b.countReturned(rest)
	}
	if !same {
		b.decidedLate(t)
		if b.limit().Kind != quota.SlidingWindow {
			b.setBefore(max(0, b.before-t.cost), b.undecidedBefore)
		}
		b.estUsed = min(b.estUsed, b.counts().spent())
	}
	b.writeSlot() // held tokens of a window are not in the slot
}

// waitOf returns the longest wait that both the request and the limit allow.
func waitOf(l *quota.Limit, max time.Duration) time.Duration {
	if max < 0 || max > l.MaxWait {
		return l.MaxWait
	}
	return max
}
