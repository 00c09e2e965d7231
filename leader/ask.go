package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Ask decides here, on the books themselves, what members do not decide on
// their own: limits with decide: leader, and tokens to come. Every question gets an answer;
// WhyNoLimit for keys that have no limit or are too many. Under hard a new leader refuses
// (WhyFailover) until it has learned, and where what earlier ones may have admitted could be
// the reason.
//
// A question that has been answered or abandoned before, by its name, is not
// booked again; one that was answered gets the same answer. That is known of the
// newest 4096 questions of each member. One without a name is booked each time.
//
// Under hard an answer may have to wait for the log (Answer.Unsaved): Wants says so then,
// and the caller has to ask again after Saved. Nothing is booked.
func (l *Ledger) Ask(now quota.Time, asks []quota.Ask) []quota.Answer {
	l.settleLearning(now)
	out := make([]quota.Answer, len(asks))
	for i := range asks {
		out[i] = l.once(now, &asks[i])
		out[i].Term = l.term
	}
	return out
}

func (l *Ledger) answer(now quota.Time, q *quota.Ask) (quota.Answer, booking) {
	a := l.open(now, q.Key)
	if a == nil || q.Cost < -quota.Most || q.Cost > quota.Most {
		return quota.Answer{Why: quota.WhyNoLimit}, booking{}
	}
	defer l.note(now, a)
	a.wakeBy(now.Add(linger))
	a.advance(now)
	if a.limit.Ceiling == quota.Hard && !l.mayGrant(now, a) && q.Cost > 0 && !q.Force {
		return quota.Answer{Why: quota.WhyFailover, Level: a.level(), Aside: l.aside(now, a), RetryAfter: max(l.cfg.Sync, l.started.Add(l.cfg.Learn).Sub(now))}, booking{}
	}
	if l.unsaved(now, a, q) {
		return quota.Answer{Why: quota.WhyNotHeld, Level: a.level(), RetryAfter: l.cfg.Sync, Unsaved: true}, booking{}
	}
	b := booking{life: a.life, at: now, taken: a.pool.Level(), tried: -a.attempted, admitted: -a.admitted}
	out := a.decide(now, q)
	b.taken, b.tried, b.admitted = b.taken-a.pool.Level(), b.tried+a.attempted, b.admitted+a.admitted
	b.window, _ = a.pool.Bounds()
	a.noteAsked(q)
	out.WindowStart = b.window
	out.Level, out.Aside, out.ResetAfter = a.level(), l.aside(now, a), a.resetAfter(now)
	if out.Why == quota.WhyOverLimit && out.Aside > 0 && a.pool.Level().Plus(out.Aside) >= q.Cost {
		out.Why, out.RetryAfter = quota.WhyFailover, min(out.RetryAfter, max(l.cfg.Sync, a.own.until.Sub(now)))
	}
	if out.Why == quota.WhyOverLimit && !a.limit.AsksLeader() && out.Level >= q.Cost { // members hold it
		out.Why, out.RetryAfter = quota.WhyNotHeld, l.cfg.Sync
		l.recall(now, a, a.holderOf(q), inWant)
	}
	return out, b
}

// decide takes the cost out of the pool: what members hold is theirs.
func (a *account) decide(now quota.Time, q *quota.Ask) quota.Answer {
	switch {
	case q.Cost < 0:
		a.pool.Add(-q.Cost)
		a.env.Add(-q.Cost)
		a.dirty = true
		a.advance(now)
		return quota.Answer{Allowed: true, Why: quota.WhyLeader}
	case q.Force:
		booked := a.pool.Charge(now, a.limit, q.Cost)
		a.forced = a.forced || a.pool.Level() < 0
		a.count(now, booked, true)
		return quota.Answer{Allowed: true, Why: quota.WhyLeader}
	}
	unknown := min(max(0, q.Overdrawn), a.limit.BurstUnits())
	a.pool.Add(-unknown)
	v := a.pool.Take(now, a.limit, q.Cost, q.MaxWait)
	if !v.Allowed && a.limit.Ceiling == quota.Soft && !a.limit.AsksLeader() && a.level() >= q.Cost {
		a.pool.Add(-q.Cost) // members hold it: they are granted less until that is paid back
		v = limiter.Verdict{Allowed: true}
	}
	a.pool.Add(unknown) // its report will book it
	a.count(now, q.Cost, v.Allowed)
	out := quota.Answer{Allowed: v.Allowed, Wait: v.Wait, RetryAfter: v.RetryAfter, Why: quota.WhyLeader}
	switch {
	case v.Allowed && v.Wait > 0:
		out.Why = quota.WhyReserved
	case v.Never && q.Cost > quota.FromTokens(a.limit.MostCost()):
		out.Why, out.RetryAfter = quota.WhyOverBurst, math.MaxInt64
	case v.TooLong:
		out.Why = quota.WhyWaitTooLong
	case !v.Allowed:
		out.Why = quota.WhyOverLimit
	}
	return out
}

// noteAsked counts a decide request as demand of the member that made it, where members decide too.
func (a *account) noteAsked(q *quota.Ask) {
	if q.Cost <= 0 || a.limit.AsksLeader() {
		return
	}
	if h := a.holderOf(q); h != nil {
		h.asked = uint16(min(int64(h.asked)+q.Cost.Tokens(), math.MaxUint16))
	}
}

// holderOf returns the record of the member that asks; nil if it has none.
func (a *account) holderOf(q *quota.Ask) *holder {
	for i := range a.holders {
		if h := &a.holders[i]; h.node == q.From && h.inc == q.Incarnation && !h.dead {
			return h
		}
	}
	return nil
}

func (a *account) count(now quota.Time, cost quota.Units, allowed bool) {
	a.attempted, a.lastUse, a.own.unwritten = a.attempted.Plus(cost), now, true
	if allowed {
		a.admitted, a.own.given = a.admitted.Plus(cost), a.own.given.Plus(cost)
		a.dirty = a.dirty || cost > 0
	}
	a.asked.count(now, cost, allowed)
	a.sums.Attempted = a.sums.Attempted.Plus(cost)
	if allowed {
		a.sums.Admitted = a.sums.Admitted.Plus(cost)
		a.env.advance(now, a.limit, &a.tier)
		a.env.Add(-cost)
	}
}

// asked averages what was decided here, for people: rates that decay.
type asked struct {
	at           quota.Time
	tried, admit float64 // Units per second
}

func (s *asked) count(now quota.Time, cost quota.Units, allowed bool) {
	s.tried, s.admit = s.showing(now)
	s.at = now
	per := float64(cost) / shown.Seconds()
	s.tried += per
	if allowed {
		s.admit += per
	}
}

func (s *asked) showing(now quota.Time) (tried, admit float64) {
	fade := math.Exp(-now.Sub(s.at).Seconds() / shown.Seconds())
	return s.tried * fade, s.admit * fade
}

// inFlightLease is how long what a silent member has in flight is kept.
func (a *account) inFlightLease() time.Duration {
	if a.tier.Kind != quota.Concurrency {
		return 0
	}
	return a.limit.LeaseOrDefault()
}
