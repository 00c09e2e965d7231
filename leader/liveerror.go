package leader

import (
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// The live error: how far a limit was from what it says, as reports show it,
// cumulative in this term. Kept for each limit; what it takes to measure it is
// kept with each bucket, most of it only with those that have lately been in debt
// or refused.
//
// # Over-admitted
//
// Each bucket has an envelope: a meter that is charged with what was admitted,
// and with nothing else. By how far that falls below zero is counted, once: a debt
// that is partly paid and made again counts again only as far as it becomes deeper,
// until it has been paid for two sync intervals. Not counted, because it was agreed
// to: debt down to max_debt, and what callers charged after the fact. Not counted,
// because nobody admitted it: what a new leader learns, or an operator changes.
// What belongs to a window that has ended is held against what was left of it.
//
// Use is charged when it is reported, up to a report gap and a one-way delay after
// it happened, and refill continues in between. So the deepest debt that was true
// at any moment, and the deepest that is measured, differ by at most
//
//	rate x (longest report gap + one-way delay)
//
// and the sums by as much for every new debt. What was used before this leader led
// is dated by the log and by the last grant to members, so that it is not held
// against a level that has been full since; of a key that a member opened while it
// heard of no leader neither is known, and too much may be measured.
//
// Members that are cut off under
// when_cut_off: open count nothing, and so does this; what a member that died had
// not reported is not known. Debt of less than a hundredth of a token is rounding.
//
// # Needless refusals
//
// Imagine a bucket that is charged with all that was admitted, and with every
// refused cost that it covers at the moment of the refusal. What was refused and
// covered was refused needlessly: it could have been served on top of everything
// else. Because it is charged, no idle token is counted twice.
//
// A leader knows of a refusal by a report, so it knows when it was only to two or
// three sync intervals. In these, and two more, the true level was at least the
// lowest free pool, and at most the highest level of the envelope. The first, less
// the largest cost, bounds the count from below; the second, with what a full
// envelope refilled in the meantime, bounds it from above. What a report that
// looks back further says was refused counts as perhaps needless, up to the burst.
//
// TestLiveError of internal/sim holds all of this to what really happened.
type liveKey struct {
	excused quota.Units // part of the debt that is no error
	peak    quota.Units // deepest other debt since it was last 0
	fine    quota.Time  // since when that debt is 0; 0 while it is not

	low, high quota.Units // charged for needless refusals: at least, at most
	full      bool        // the level was full after the last event
	level     quota.Units // and it was that, with this much of it free
	free      quota.Units
	at        quota.Time

	slot  int64 // number of the current sync interval
	slots [liveSlots]liveSlot
}

// liveSlot is what was seen in one sync interval.
type liveSlot struct {
	free, level quota.Units // lowest free pool, highest level
	refused     quota.Units // by reports that cover no more than an interval
	older       quota.Units // by others
	gap         time.Duration
	cost        quota.Units // the largest that was refused
}

const (
	liveBefore = 3 // intervals before that of the booking
	liveAfter  = 2 // and after it
	liveSlots  = liveBefore + liveAfter + 2
	// liveRounding is the debt that counts as none.
	liveRounding = quota.Token / 100
)

// LiveErrors calls f for every limit that has had a report in this term.
func (l *Ledger) LiveErrors(f func(quota.LimitName, *quota.LiveError)) {
	for n, e := range l.live {
		f(n, e)
	}
}

// liveOf returns the counters of the limit that a counter belongs to. There are
// at most as many as limits.
func (l *Ledger) liveOf(n quota.LimitName) *quota.LiveError {
	if n.IsInline() { // of their names there is no end: nobody adds them up
		return &quota.LiveError{}
	}
	base, _ := n.Base()
	e := l.live[base]
	if e == nil {
		e = &quota.LiveError{}
		l.live[base] = e
	}
	return e
}

// dropLive forgets the counters of limits that are gone.
func (l *Ledger) dropLive() {
	for n := range l.live {
		if _, ok := l.limits.Find(n); !ok {
			delete(l.live, n)
		}
	}
}

// highest is the most that the true level can be: the envelope, which is charged
// with nothing but what was admitted. The books themselves are more careful:
// what overflows at a member, or is lost with it, is lost there.
func (b *bucket) highest() quota.Units {
	if b.tier.Kind == quota.Concurrency {
		return b.level()
	}
	return b.env.Level()
}

// debt is by how much that is below what the limit agrees to.
func (b *bucket) debt() quota.Units {
	return max(0, (-b.highest()).Plus(-b.limit.DebtUnits()).Plus(-liveRounding))
}

// liveBefore is called when a report is about to be booked, with the bucket
// advanced. It returns the debt.
func (l *Ledger) liveBefore(now quota.Time, b *bucket) quota.Units {
	b.env.advance(now, b.limit, &b.tier)
	debt := b.debt()
	if b.live == nil && debt > 0 {
		b.live = newLiveKey(now, b, l.cfg.Sync)
	}
	if b.live != nil {
		b.live.settle(debt)
		b.live.paid(now, b, l.cfg.Sync)
		b.live.advance(now, b, l.cfg.Sync)
	}
	return debt
}

// liveAfter is called when it has been booked. gap is how long the report looks
// back. It returns what of the use had overflowed before it was known.
func (l *Ledger) liveAfter(now quota.Time, b *bucket, gap time.Duration, cost, was quota.Units, d *delta) (back quota.Units) {
	sums := b.sums
	sums.Attempted = sums.Attempted.Plus(d.attempted())
	sums.Admitted = sums.Admitted.Plus(d.used + d.over)
	if gap != unknownGap && d.attempted() > 0 {
		sums.Gap = max(sums.Gap, gap)
	}
	if b.tier.Kind == quota.Concurrency {
		b.advance(now) // what is in flight is not booked, but counted
	}
	since := now // of an opening nobody knew: it is reported at once
	if gap != unknownGap {
		since = now.Add(-l.cfg.Sync / 2).Add(-gap) // a report covers the time since the last one was sent
	}
	if d.alone > 0 {
		since = min(since, d.away)
	}
	back = b.env.charge(since, d.used+d.over-d.late, d.refunded, b.limit)
	debt := b.debt()
	if b.live == nil && (debt > was || d.refused > 0 || d.late > b.left) {
		b.live = newLiveKey(now, b, l.cfg.Sync)
		b.live.settle(was)
	}
	if b.live == nil {
		b.left -= d.late
		return back
	}
	b.live.deepen(b, was, debt, d)
	b.live.paid(now, b, l.cfg.Sync)
	b.live.refuse(gap <= (liveBefore-1)*l.cfg.Sync, min(gap, l.cfg.Lease)+l.cfg.Sync, cost, d.refused)
	b.live.see(b)
	b.live.at, b.live.full = now, b.level() >= b.limit.BurstUnits()
	return back
}

// envelope is the level of a key that is charged with nothing but what was
// admitted, at the time of the booking. So it may be full, and overflow, while use
// is not known yet: between from and to it has overflowed all the time, and none
// of that has been put back.
type envelope struct {
	limiter.Meter
	at, from, to quota.Time
}

func newEnvelope(m limiter.Meter, now quota.Time) envelope { return envelope{m, now, now, now} }

// opened says since when the envelope of a key that is opened has overflowed: what
// members used while there was no leader is reported to this one, with the time
// that they look back. The key is full since it had refilled what the log says it
// lacked; if the log says nothing of it, it has always been full. A hard limit has
// no debt: where the log says so, it sets aside what may have been lost.
func (v *envelope) opened(now quota.Time, l *quota.Limit, kl *quota.KeyLevel, saved bool) {
	switch {
	case l.Ceiling == quota.Hard && v.Level() < 0:
		v.Add(-v.Level())
	case v.Level() < l.BurstUnits():
	case saved:
		v.from = min(now, kl.At.Add(l.Rate.TimeFor(max(0, l.BurstUnits()-kl.Level))))
	default:
		v.from = 0
	}
}

// advance lets the envelope refill.
func (v *envelope) advance(now quota.Time, l *quota.Limit, t *quota.Tier) {
	burst, was := l.BurstUnits(), v.Level()
	v.Advance(now, t)
	if v.Level() >= burst && now > v.at {
		full := min(now, v.at.Add(l.Rate.TimeFor(burst-was)))
		if full > v.to { // what is left of an earlier time counts as if it had been just before
			v.from = full.Add(-v.to.Sub(v.from))
		}
		v.to = now
	}
	v.at = max(v.at, now)
}

// charge charges use that was later than since, and puts back what has overflowed
// since then. It returns how much that was.
func (v *envelope) charge(since quota.Time, use, refunded quota.Units, l *quota.Limit) (back quota.Units) {
	v.Add(refunded - use)
	if from := max(v.from, since); use > 0 && v.to > from && l.Kind == quota.TokenBucket {
		back = min(use, refill(l.Rate, v.to.Sub(from)))
		v.Add(back)
		v.to = v.to.Add(-l.Rate.TimeFor(back))
	}
	v.Cap(l.BurstUnits())
	return back
}

// learned takes over the level that an earlier leader told: the key was no fuller
// then, so it has not overflowed.
func (v *envelope) learned(now quota.Time, level quota.Units) {
	if level < v.Level() {
		v.Cap(level)
		v.from, v.to = now, now
	}
}

// unknownGap is that of the first report of an opening that no leader knew.
const unknownGap = time.Duration(1<<63 - 1)

// firstGap is how long the first report about a key looks back: to the last grant
// that the member received, if it says so.
func firstGap(e *quota.ReportEntry) time.Duration {
	if e.Learn == nil || !e.Learn.HasLevel || e.Learn.Age < 0 {
		return unknownGap
	}
	return e.Learn.Age
}

// settle takes note of the debt before a report: what has lowered the level
// since the last one was no admission.
func (e *liveKey) settle(debt quota.Units) {
	e.excused = min(e.excused, debt)
	if wrong := debt - e.excused; wrong > e.peak {
		e.excused += wrong - e.peak
	}
}

// paid notes that the key is out of debt: when it has been so for two sync
// intervals, by more than refills in that time or full, another debt is a new one.
// Before, use that has not been reported yet may still be part of this one.
func (e *liveKey) paid(now quota.Time, b *bucket, sync time.Duration) {
	if b.highest().Plus(b.limit.DebtUnits()) < min(b.limit.BurstUnits(), max(quota.Token, b.refill(2*sync))) {
		e.fine = 0
		return
	}
	if e.fine == 0 {
		e.fine = now
	}
	if now.Sub(e.fine) >= 2*sync {
		e.peak = 0
	}
}

// deepen counts what a report adds to the debt, and to that of the window before.
func (e *liveKey) deepen(b *bucket, was, debt quota.Units, d *delta) {
	e.excused = min(e.excused.Plus(min(max(0, debt-was), d.owed)), debt)
	if deeper := debt - e.excused - e.peak; deeper > 0 {
		e.peak += deeper
		b.overAdmitted(deeper, e.peak, d.alone)
	}
	if d.late > 0 {
		before := max(0, -b.left)
		b.left -= d.late
		if deeper := max(0, -b.left) - before - d.owed; deeper > 0 {
			b.overAdmitted(deeper, -b.left, d.alone)
		}
	}
}

// overAdmitted counts tokens beyond the envelope; depth is how far beyond the key
// is now, and alone what the member admitted while it was cut off.
func (b *bucket) overAdmitted(u, depth, alone quota.Units) {
	cut := min(u, alone)
	b.sums.CutOff = b.sums.CutOff.Plus(cut)
	b.sums.OverAdmitted = b.sums.OverAdmitted.Plus(u - cut)
	b.sums.Worst = max(b.sums.Worst, depth)
	if burst := b.limit.BurstUnits(); burst > 0 {
		b.sums.WorstBurst = max(b.sums.WorstBurst, float64(depth)/float64(burst))
	}
	b.over = b.over.Plus(u)
}

// newLiveKey begins to watch a key without earlier observations.
func newLiveKey(now quota.Time, b *bucket, sync time.Duration) *liveKey {
	e := &liveKey{slot: int64(now) / int64(sync), at: now}
	for i := range e.slots {
		e.slots[i] = liveSlot{level: b.limit.BurstUnits()}
	}
	e.see(b)
	return e
}

func (e *liveKey) of(slot int64) *liveSlot { return &e.slots[uint64(slot)%liveSlots] }

// see notes the level of now in the current slot.
func (e *liveKey) see(b *bucket) {
	e.level, e.free = b.highest(), b.pool.Level()
	s := e.of(e.slot)
	s.free, s.level = min(s.free, e.free), max(s.level, e.level)
}

// refuse notes what a report says was refused.
func (e *liveKey) refuse(recent bool, gap time.Duration, cost, refused quota.Units) {
	s := e.of(e.slot)
	if refused > 0 {
		s.gap = max(s.gap, gap)
	}
	if recent {
		s.refused, s.cost = s.refused.Plus(refused), max(s.cost, cost, min(refused, quota.Token))
	} else {
		s.older = s.older.Plus(refused)
	}
}

// advance moves to the slot of now. Between two events the level and the pool go
// one way, so the slots between have seen what both ends saw.
func (e *liveKey) advance(now quota.Time, b *bucket, sync time.Duration) {
	level, free := b.highest(), b.pool.Level()
	if dt := now.Sub(e.at); dt > 0 && level >= b.limit.BurstUnits() {
		back := b.refill(dt)
		e.high = max(0, e.high-back)
		if e.full && b.level() >= b.limit.BurstUnits() {
			e.low = max(0, e.low-back)
		}
	}
	slot := int64(now) / int64(sync)
	for range min(slot-e.slot, 2*liveSlots) {
		e.slot++
		*e.of(e.slot) = liveSlot{free: min(e.free, free), level: max(e.level, level)}
		e.count(b, e.slot-liveAfter-1)
	}
	e.slot, e.at = max(e.slot, slot), max(e.at, now)
	e.see(b)
}

// count counts the refusals of a slot.
func (e *liveKey) count(b *bucket, slot int64) {
	s := e.of(slot)
	if s.refused == 0 && s.older == 0 {
		return
	}
	free, level := s.free, s.level
	for i := slot - liveBefore; i <= slot+liveAfter; i++ {
		free, level = min(free, e.of(i).free), max(level, e.of(i).level)
	}
	if s.older > 0 {
		level = b.limit.BurstUnits()
	}
	if n := min(s.refused, free-e.low-s.cost); n > 0 {
		e.low += n
		b.needless = b.needless.Plus(n)
		b.sums.Needless = b.sums.Needless.Plus(n)
	}
	if level >= b.limit.BurstUnits() { // what refilled in that time may have been refused as well
		level = level.Plus(b.refill(s.gap))
	}
	if n := min(s.refused.Plus(s.older), level-e.high); n > 0 {
		e.high += n
		b.needlessAtMost = b.needlessAtMost.Plus(n)
		b.sums.NeedlessAtMost = b.sums.NeedlessAtMost.Plus(n)
	}
	s.refused, s.older = 0, 0
}

// liveRoll notes what is left of a window that ends: what was used in it may be
// reported later.
func (b *bucket) liveRoll() {
	b.left = b.highest()
	if b.live != nil {
		b.live.low, b.live.high = 0, 0
	}
}

// liveSweep counts what is due, and stops watching keys that are full again.
func (l *Ledger) liveSweep(now quota.Time, b *bucket) {
	if b.live == nil {
		return
	}
	b.live.settle(b.debt())
	b.live.paid(now, b, l.cfg.Sync)
	b.live.advance(now, b, l.cfg.Sync)
	if b.live.high == 0 && b.live.low == 0 && b.live.level >= b.limit.BurstUnits() && !b.live.refusals() {
		b.live = nil
	}
}

func (e *liveKey) refusals() bool {
	for i := range e.slots {
		if e.slots[i].refused > 0 || e.slots[i].older > 0 {
			return true
		}
	}
	return false
}
