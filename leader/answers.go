package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Under hard, the log must also cover what the leader itself admits, because nobody else could
// report it to the next leader. So a checkpoint contains the leader's promise to itself: what it
// may admit until a given time. The leader admits no more than is committed, and the next leader
// takes all of it out of the pool. The level of one central bucket is below 0 only where mayOwe says
// so. In other buckets the pool is not below 0 either once the promise has ended (endAnswers).

// answers is what the leader may admit of a bucket. Refunds do not reduce given: they may have
// overflowed.
type answers struct {
	given    quota.Units // admitted since the bucket was opened
	short    quota.Units // cost refused since the last checkpoint because no promise covered it
	promised ownPromise  // committed
	pending  []ownPromise

	unwritten bool // asked since the last line: the next checkpoint must state what was admitted

	// Of earlier leaders:
	earlier quota.Units // see bucket.earlier
	until   quota.Time
}

// ownPromise is the promise of one checkpoint: until the given time, given may reach high.
type ownPromise struct {
	seq   quota.Seq
	high  quota.Units
	until quota.Time
}

// answersFor is how long such a promise lasts: the interval and the duration of a checkpoint. After
// the leader's death, callers of an empty bucket wait at most that long.
const answersFor = 1250 * time.Millisecond

// answersLogged reports whether the leader may admit only what is in the log: under hard. A limit
// that has become decide: local is included, since members that do not know it yet still ask.
func (b *bucket) answersLogged() bool {
	return b.limit.Ceiling == quota.Hard && b.endures()
}

// allows reports whether the committed promise, and every pending one, covers the cost: any of the
// pending ones may be committed at any moment.
func (s *answers) allows(now quota.Time, cost quota.Units) bool {
	given := s.given.Plus(cost)
	ok := func(p ownPromise) bool { return given <= p.high && now < p.until }
	return ok(s.promised) && !slices.ContainsFunc(s.pending, func(p ownPromise) bool { return !ok(p) })
}

// awaitsLog reports whether a decide request has to wait for the log, because only the promise is too
// small for it. It asks for a checkpoint with a larger promise at once.
func (l *Ledger) awaitsLog(now quota.Time, b *bucket, q *quota.Ask) bool {
	if !b.answersLogged() || q.Cost <= 0 || b.pool.Level() < q.Booked() {
		return false
	}
	s := &b.editDecided().own
	if s.allows(now, q.Booked()) {
		return false
	}
	s.short, s.unwritten = s.short.Plus(q.Booked()), true
	if b.dirty = true; len(s.pending) == 0 {
		l.requestCheckpoint(b)
	}
	return true
}

// promiseOwn adds the leader's own promise to a line: the expected need until the promise ends, as
// far as the level and its refill cover it.
func (b *bucket) promiseOwn(now quota.Time, seq quota.Seq, kl *quota.KeyLevel) {
	if b.decided == nil { // nothing was asked
		kl.Answers, kl.AnswersUntil = 0, 0
		return
	}
	s := &b.decided.own
	kl.Answers, kl.AnswersUntil = 0, s.until
	if !b.answersLogged() {
		if len(s.pending) > 0 || now < s.promised.until { // the promise ends with this line
			s.pending = append(s.pending, ownPromise{seq: seq, high: s.given, until: now})
		}
		return
	}
	_, admit := b.decided.displayRates(now)
	s.unwritten = false
	need := max(quota.RoundUnits(admit*answersFor.Seconds()), 2*s.short)
	if b.limit.CountsLong() { // the next leader counts all of it as used, so promise only what callers wait for
		need = s.short
	}
	need = min(need, max(0, b.pool.Level()).Plus(accrued(b.gainPerSecond(), answersFor)))
	if need == 0 && len(s.pending) == 0 && (s.given >= s.promised.high || now >= s.promised.until) {
		return // nothing is promised or needed
	}
	p := ownPromise{seq: seq, high: s.given.Plus(need), until: now.Add(answersFor)}
	kl.Answers, kl.AnswersUntil = need, max(s.until, p.until)
	full := b.unusedMeter()
	full.Add(-need)
	kl.FullAt = max(kl.FullAt, p.until.Add(full.ResetAfter(now, &b.tier)+MaxOffset))
	s.short, s.pending = 0, append(s.pending, p)
}

// committed records that the log has the checkpoints up to this one.
func (s *answers) committed(upTo quota.Seq) {
	n := 0
	for n < len(s.pending) && s.pending[n].seq <= upTo {
		s.promised = s.pending[n]
		n++
	}
	s.pending = slices.Delete(s.pending, 0, n)
}

// restoreAnswers takes out of the pool what earlier leaders may have admitted beyond the line, or
// may still admit.
func (b *bucket) restoreAnswers(now quota.Time, kl *quota.KeyLevel) {
	if kl.Answers != 0 || kl.AnswersUntil != 0 {
		s := &b.editDecided().own
		s.earlier, s.until = kl.Answers, kl.AnswersUntil.Add(leaseSlack) // its clock may be slower
	}
	b.mayOwe = b.mayOwe || kl.Level < 0
	b.pool.Add(-kl.Answers)
	b.endAnswers(now)
}

// earlier returns the tokens that earlier leaders may have admitted, or may still admit. They are out of the pool.
func (b *bucket) earlier() quota.Units {
	if b.decided == nil {
		return 0
	}
	return b.decided.own.earlier
}

// pendingAnswers is the number of the leader's own promises that are not known to be committed.
func (b *bucket) pendingAnswers() int {
	if b.decided == nil {
		return 0
	}
	return len(b.decided.own.pending)
}

// endAnswers ends the promises of earlier leaders, in a bucket that has been advanced. These
// leaders admitted no more than the level, so their part cannot push free plus returning tokens
// below 0; what is below goes back to the pool.
func (b *bucket) endAnswers(now quota.Time) {
	if b.earlier() > 0 && now >= b.decided.own.until {
		s := &b.decided.own
		if owed := -b.pool.Level().Plus(b.returnableTokens()); owed > 0 && !b.mayOwe {
			b.pool.Add(min(owed, s.earlier))
		}
		s.earlier = 0
	}
}
