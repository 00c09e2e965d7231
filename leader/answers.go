package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Under hard, what the leader decides itself has to be in the log as well: nobody
// else could tell the next one what was answered. So the leader promises itself, in
// a checkpoint, what it may admit until a moment, and admits no more than is
// committed. The next leader takes all of that out of the pool. The level of one
// central bucket is never below 0, so when the promise has ended, neither is the pool.

// answers is what the leader may admit of an account. Tokens that are given back
// do not count: they may have overflowed.
type answers struct {
	given    quota.Units // admitted so far, since the account was opened
	short    quota.Units // refused since the last checkpoint, for want of a promise
	promised ownPromise  // committed
	pending  []ownPromise

	unwritten bool // asked since the last line was made: the next checkpoint has to say what was admitted

	// Of leaders before this one:
	earlier quota.Units // may have been admitted, or may yet; it is out of the pool
	until   quota.Time
}

// ownPromise is one of a checkpoint: the leader may come to have given high.
type ownPromise struct {
	seq   quota.Seq
	high  quota.Units
	until quota.Time
}

// answersFor is how long such a promise lasts: a checkpoint and the time that one
// takes. It is what callers wait for at most, where a bucket is empty, after the
// leader's death.
const answersFor = 1250 * time.Millisecond

// answersLogged reports whether the leader may admit only what is in the log: under hard, also where members
// ask that do not know yet that the limit has become decide: local.
func (a *account) answersLogged() bool {
	return a.limit.Ceiling == quota.Hard && a.endures()
}

// allows reports whether the cost is covered by what is committed, and by what may
// become so at any moment.
func (s *answers) allows(now quota.Time, cost quota.Units) bool {
	given := s.given.Plus(cost)
	ok := func(p ownPromise) bool { return given <= p.high && now < p.until }
	return ok(s.promised) && !slices.ContainsFunc(s.pending, func(p ownPromise) bool { return !ok(p) })
}

// unsaved reports whether a question has to wait for the log: it could be admitted
// if more were promised. The next checkpoint promises that, and is wanted at once.
func (l *Ledger) unsaved(now quota.Time, a *account, q *quota.Ask) bool {
	if !a.answersLogged() || q.Cost <= 0 || q.Force || a.pool.Level() < q.Cost || a.own.allows(now, q.Cost) {
		return false
	}
	a.own.short, a.own.unwritten = a.own.short.Plus(q.Cost), true
	if a.dirty = true; len(a.own.pending) == 0 {
		l.want(a)
	}
	return true
}

// promiseOwn adds to a line what the leader may admit beyond it: what it should need
// until the promise ends, as far as there is that much.
func (a *account) promiseOwn(now quota.Time, seq quota.Seq, kl *quota.KeyLevel) {
	s := &a.own
	kl.Answers, kl.AnswersUntil = 0, s.until
	if !a.answersLogged() {
		if len(s.pending) > 0 || now < s.promised.until { // what was promised ends with this line
			s.pending = append(s.pending, ownPromise{seq: seq, high: s.given, until: now})
		}
		return
	}
	_, admit := a.asked.showing(now)
	s.unwritten = false
	need := max(quota.RoundUnits(admit*answersFor.Seconds()), 2*s.short)
	if a.limit.CountsLong() { // the next leader counts all of it, so it is only what callers wait for
		need = s.short
	}
	need = min(need, max(0, a.pool.Level()).Plus(perSecond(a.perSecond(), answersFor)))
	if need == 0 && len(s.pending) == 0 && (s.given >= s.promised.high || now >= s.promised.until) {
		return // nothing is promised, and nobody asks
	}
	p := ownPromise{seq: seq, high: s.given.Plus(need), until: now.Add(answersFor)}
	kl.Answers, kl.AnswersUntil = need, max(s.until, p.until)
	full := a.whole()
	full.Add(-need)
	kl.FullAt = max(kl.FullAt, p.until.Add(full.ResetAfter(now, &a.tier)+MaxOffset))
	s.short, s.pending = 0, append(s.pending, p)
}

// committed notes that the log has the checkpoints up to this one.
func (s *answers) committed(upTo quota.Seq) {
	n := 0
	for n < len(s.pending) && s.pending[n].seq <= upTo {
		s.promised = s.pending[n]
		n++
	}
	s.pending = slices.Delete(s.pending, 0, n)
}

// restoreAnswers takes out of the pool what leaders before this one may have
// admitted beyond the line, or may yet.
func (a *account) restoreAnswers(now quota.Time, kl *quota.KeyLevel) {
	a.own.earlier, a.own.until = kl.Answers, kl.AnswersUntil.Add(leaseSlack) // its clock may be slower
	a.forced = kl.Level < 0
	a.pool.Add(-kl.Answers)
	a.endAnswers(now)
}

// endAnswers ends the promises of earlier leaders, in an account that has been
// advanced. They admitted no more than there was, so what is free and what may come back from members
// are together not below 0 for what they might have.
func (a *account) endAnswers(now quota.Time) {
	if s := &a.own; s.earlier > 0 && now >= s.until {
		if owed := -a.pool.Level().Plus(a.returns()); owed > 0 && !a.forced {
			a.pool.Add(min(owed, s.earlier))
		}
		s.earlier = 0
	}
}
