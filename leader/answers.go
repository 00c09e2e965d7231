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

// answers is what the leader may admit of a bucket. Tokens that are given back
// do not count: they may have overflowed.
type answers struct {
	given    quota.Units // admitted so far, since the bucket was opened
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
func (b *bucket) answersLogged() bool {
	return b.limit.Ceiling == quota.Hard && b.endures()
}

// allows reports whether the cost is covered by what is committed, and by what may
// become so at any moment.
func (s *answers) allows(now quota.Time, cost quota.Units) bool {
	given := s.given.Plus(cost)
	ok := func(p ownPromise) bool { return given <= p.high && now < p.until }
	return ok(s.promised) && !slices.ContainsFunc(s.pending, func(p ownPromise) bool { return !ok(p) })
}

// unsaved reports whether a decide request has to wait for the log: it could be admitted
// if more were promised. The next checkpoint promises that, and is wanted at once.
func (l *Ledger) unsaved(now quota.Time, b *bucket, q *quota.Ask) bool {
	if !b.answersLogged() || q.Cost <= 0 || q.Force || b.pool.Level() < q.Cost || b.own.allows(now, q.Cost) {
		return false
	}
	b.own.short, b.own.unwritten = b.own.short.Plus(q.Cost), true
	if b.dirty = true; len(b.own.pending) == 0 {
		l.want(b)
	}
	return true
}

// promiseOwn adds to a line what the leader may admit beyond it: what it should need
// until the promise ends, as far as there is that much.
func (b *bucket) promiseOwn(now quota.Time, seq quota.Seq, kl *quota.KeyLevel) {
	s := &b.own
	kl.Answers, kl.AnswersUntil = 0, s.until
	if !b.answersLogged() {
		if len(s.pending) > 0 || now < s.promised.until { // what was promised ends with this line
			s.pending = append(s.pending, ownPromise{seq: seq, high: s.given, until: now})
		}
		return
	}
	_, admit := b.asked.showing(now)
	s.unwritten = false
	need := max(quota.RoundUnits(admit*answersFor.Seconds()), 2*s.short)
	if b.limit.CountsLong() { // the next leader counts all of it, so it is only what callers wait for
		need = s.short
	}
	need = min(need, max(0, b.pool.Level()).Plus(perSecond(b.perSecond(), answersFor)))
	if need == 0 && len(s.pending) == 0 && (s.given >= s.promised.high || now >= s.promised.until) {
		return // nothing is promised, and nobody asks
	}
	p := ownPromise{seq: seq, high: s.given.Plus(need), until: now.Add(answersFor)}
	kl.Answers, kl.AnswersUntil = need, max(s.until, p.until)
	full := b.whole()
	full.Add(-need)
	kl.FullAt = max(kl.FullAt, p.until.Add(full.ResetAfter(now, &b.tier)+MaxOffset))
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
func (b *bucket) restoreAnswers(now quota.Time, kl *quota.KeyLevel) {
	b.own.earlier, b.own.until = kl.Answers, kl.AnswersUntil.Add(leaseSlack) // its clock may be slower
	b.forced = kl.Level < 0
	b.pool.Add(-kl.Answers)
	b.endAnswers(now)
}

// endAnswers ends the promises of earlier leaders, in a bucket that has been
// advanced. They admitted no more than there was, so what is free and what may come back from members
// are together not below 0 for what they might have.
func (b *bucket) endAnswers(now quota.Time) {
	if s := &b.own; s.earlier > 0 && now >= s.until {
		if owed := -b.pool.Level().Plus(b.returns()); owed > 0 && !b.forced {
			b.pool.Add(min(owed, s.earlier))
		}
		s.earlier = 0
	}
}
