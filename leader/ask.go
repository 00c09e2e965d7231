package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Ask decides what members do not decide on their own: limits with decide: leader, and future
// tokens. Every decide request gets an answer; WhyNoLimit for keys that have no limit or no room.
// Under hard a new leader refuses with WhyFailover until it has learned, and afterwards where the
// refusal could be due to what earlier leaders may have admitted.
//
// A decide request that was answered or cancelled before, by its name, is not booked again; one
// that was answered gets the same answer. The ledger remembers the newest 4096 decide requests of
// each member. One without a name is booked each time.
//
// Under hard an answer may have to wait for the log (Answer.Unsaved): nothing is booked, Wants
// returns true, and the caller asks again after Saved.
func (l *Ledger) Ask(now quota.Time, asks []quota.Ask) []quota.Answer {
	out := make([]quota.Answer, len(asks))
	for i := range asks {
		out[i] = l.AskOne(now, &asks[i])
	}
	return out
}

// AskOne is Ask for one decide request.
func (l *Ledger) AskOne(now quota.Time, q *quota.Ask) quota.Answer {
	l.settleLearning(now)
	out := l.answerOnce(now, q)
	out.Term, out.At = l.term, now
	return out
}

// answer decides a request, and books it. It returns what it booked, so that a cancellation can reverse it;
// booking.incarnation is 0 if it booked nothing.
func (l *Ledger) answer(now quota.Time, q *quota.Ask) (quota.Answer, booking) {
	b := l.open(now, q.Key)
	if b == nil || q.Cost < -quota.Most || q.Cost > quota.Most || q.Held < 0 || q.Held > max(0, q.Cost) {
		return quota.Answer{Why: quota.WhyNoLimit}, booking{}
	}
	defer l.noteChanged(now, b)
	b.wakeBy(now.Add(linger))
	b.advance(now)
	if b.limit.Ceiling == quota.Hard && !l.mayGrant(now, b) && q.Cost > 0 {
		return quota.Answer{Why: quota.WhyFailover, Level: b.level(), Aside: l.aside(now, b), RetryAfter: max(l.cfg.Sync, l.started.Add(l.cfg.Learn).Sub(now))}, booking{}
	}
	if l.awaitsLog(now, b, q) {
		return quota.Answer{Why: quota.WhyNotHeld, Level: b.level(), RetryAfter: l.cfg.Sync, Unsaved: true}, booking{}
	}
	booked := booking{incarnation: b.incarnation, at: now, taken: b.pool.Level(), tried: -b.attempted, admitted: -b.admitted}
	al := b.allocationOf(q)
	kept := l.keptFromAsker(b, al)
	out := b.decide(now, q, kept)
	if out.Allowed && al != nil && q.Cost > 0 && b.central {
		l.bookDeficit(now, b, al, q.Booked(), b.parts())
	}
	booked.taken, booked.tried, booked.admitted = booked.taken-b.pool.Level(), booked.tried+b.attempted, booked.admitted+b.admitted
	booked.window, _ = b.pool.Bounds()
	b.noteAsked(q, out.Allowed)
	// Wherever this leader's limit has requests decided: the member may learn of a change earlier or later.
	if out.Allowed && q.Cost > 0 && b.limit.Ceiling == quota.Soft && b.endures() {
		if al := b.allocationForAnswer(now, &l.processes, q); al != nil {
			al.addAnswered(q.Booked())
			out.Report, booked.report = true, true
		}
	}
	out.WindowStart = booked.window
	l.addLevel(now, b, q, &out)
	if out.Why == quota.WhyOverLimit && out.Aside > 0 && b.pool.Level().Plus(out.Aside) >= q.Booked() {
		out.Why, out.RetryAfter = quota.WhyFailover, min(out.RetryAfter, max(l.cfg.Sync, b.editDecided().own.until.Sub(now)))
	}
	if out.Why == quota.WhyOverLimit && !b.limit.AsksLeader() && out.Level.Plus(-kept) >= q.Cost { // members hold the tokens
		out.Why, out.RetryAfter = quota.WhyNotHeld, l.cfg.Sync
		l.recall(now, b, al, inWant)
	}
	return out, booked
}

// addLevel adds the level of the bucket, and what it includes of the member's reports, to an answer.
func (l *Ledger) addLevel(now quota.Time, b *bucket, q *quota.Ask, out *quota.Answer) {
	out.Level, out.Aside, out.ResetAfter = b.level(), l.aside(now, b), b.resetAfter(now)
	if al := b.allocationOf(q); al != nil {
		out.Epoch, out.Used, out.Refunded = al.epoch, al.used.Plus(al.over), al.rarely().refunded
	}
}

// decide takes the cost out of the pool, without the part that is kept for others. Tokens that
// members hold are not available.
func (b *bucket) decide(now quota.Time, q *quota.Ask, kept quota.Units) quota.Answer {
	if q.Cost < 0 {
		b.pool.Add(-q.Cost)
		b.env.Add(-q.Cost)
		b.dirty = true
		b.advance(now)
		return quota.Answer{Allowed: true, Why: quota.WhyLeader}
	}
	kept = kept.Plus(min(max(0, q.Overdrawn), b.limit.BurstUnits())) // the member's report will book what it overdrew
	b.pool.Add(-kept)
	v := b.pool.Take(now, b.limit, q.Booked(), q.MaxWait)
	if !v.Allowed && b.limit.Ceiling == quota.Soft && !b.limit.AsksLeader() && b.level() >= q.Cost {
		b.pool.Add(-q.Booked()) // members hold the tokens: they are granted less until the debt is paid back
		v = limiter.Decision{Allowed: true}
	}
	b.pool.Add(kept)
	b.count(now, demandOf(q, v.Allowed), v.Allowed)
	out := quota.Answer{Allowed: v.Allowed, Wait: v.Wait, RetryAfter: v.RetryAfter, Why: quota.WhyLeader}
	switch {
	case v.Allowed && v.Wait > 0:
		out.Why = quota.WhyReserved
	case v.Never && q.Cost > quota.FromTokens(b.limit.MostCost()):
		out.Why, out.RetryAfter = quota.WhyOverBurst, math.MaxInt64
	case v.TooLong:
		out.Why = quota.WhyWaitTooLong
	case !v.Allowed:
		out.Why = quota.WhyOverLimit
	}
	return out
}

// demandOf returns the tokens that a decision adds to the demand. The member reports the tokens that it spends itself.
func demandOf(q *quota.Ask, allowed bool) quota.Units {
	if allowed {
		return q.Booked()
	}
	return q.Cost
}

// noteAsked counts a decide request as demand of its member, where members decide too.
func (b *bucket) noteAsked(q *quota.Ask, allowed bool) {
	if q.Cost <= 0 || b.limit.AsksLeader() {
		return
	}
	if al := b.allocationOf(q); al != nil {
		al.setAsked(al.rarely().asked.Plus(demandOf(q, allowed)))
	}
}

// allocationOf returns the allocation of the requesting process; nil if it has none, or counts as dead.
func (b *bucket) allocationOf(q *quota.Ask) *allocation {
	if al := b.allocationOfProcess(q.From, q.Incarnation); al != nil && !al.dead {
		return al
	}
	return nil
}

// allocationOfProcess returns the allocation of a process; nil if it has none.
func (b *bucket) allocationOfProcess(node quota.NodeID, inc quota.Incarnation) *allocation {
	for i := range b.allocations {
		if al := &b.allocations[i]; al.node == node && al.inc == inc {
			return al
		}
	}
	return nil
}

// allocationForAnswer returns the allocation of the requesting process, adding it if necessary; nil for a request
// without a name, and for a process before one that counts as dead. A process that counts as dead itself may live.
func (b *bucket) allocationForAnswer(now quota.Time, ps *processes, q *quota.Ask) *allocation {
	if q.ID == 0 {
		return nil
	}
	for i := range b.allocations {
		switch al := &b.allocations[i]; {
		case al.node != q.From || !al.dead || al.inc < q.Incarnation:
		case al.inc == q.Incarnation:
			al.final = false
			return al
		default:
			return nil
		}
	}
	if al := b.allocation(now, q.From, q.Incarnation); al != nil {
		return al
	}
	return b.addAllocation(allocation{
		openState: openState{process: ps.of(q.From, q.Incarnation), closed: true}, demandState: demandState{reported: now},
	})
}

// count counts a decision of the leader in the use of the key and of its limit.
func (b *bucket) count(now quota.Time, cost quota.Units, allowed bool) {
	s := b.editDecided()
	b.attempted, b.lastUse, s.own.unwritten = b.attempted.Plus(cost), now, true
	if allowed {
		b.admitted, s.own.given = b.admitted.Plus(cost), s.own.given.Plus(cost)
		b.dirty = b.dirty || cost > 0
	}
	s.asked.count(now, cost, allowed)
	b.sums.Attempted = b.sums.Attempted.Plus(cost)
	if allowed {
		b.sums.Admitted = b.sums.Admitted.Plus(cost)
		b.env.advance(now, b.limit, &b.tier)
		b.env.Add(-cost)
	}
}

// asked averages the leader's own decisions for display: rates that decay.
type asked struct {
	at           quota.Time
	tried, admit float64 // Units per second
}

func (s *asked) count(now quota.Time, cost quota.Units, allowed bool) {
	s.tried, s.admit = s.displayRates(now)
	s.at = now
	per := float64(cost) / displayTime.Seconds()
	s.tried += per
	if allowed {
		s.admit += per
	}
}

func (s *asked) displayRates(now quota.Time) (tried, admit float64) {
	fade := math.Exp(-now.Sub(s.at).Seconds() / displayTime.Seconds())
	return s.tried * fade, s.admit * fade
}

// displayRates returns the averages for display.
func (s *decidedState) displayRates(now quota.Time) (tried, admit float64) {
	if s == nil {
		return 0, 0
	}
	return s.asked.displayRates(now)
}

// inFlightLease is how long the requests in flight of a silent member are kept.
func (b *bucket) inFlightLease() time.Duration {
	if b.tier.Kind != quota.Concurrency {
		return 0
	}
	return b.limit.LeaseOrDefault()
}
