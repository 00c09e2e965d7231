package leader

import (
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// The live error measures how far a limit was from its definition, as reports show it, cumulative
// in this term. The results are kept for each limit. The state of the measurement is kept with each
// bucket, most of it only for buckets that have lately been in debt or refused.
//
// # Over-admitted
//
// Each bucket has an envelope: a meter that is charged with admitted tokens only. Its depth below
// zero is counted once: if a debt is partly paid and grows again, only the part that makes it
// deeper than before counts, until it has been paid for two sync intervals. Not counted, because it
// is allowed, is debt down to max_debt and what callers charged after the fact. Not counted,
// because nothing was admitted, are changes by the learning of a new leader or by an operator. Use
// that belongs to a window that has ended is charged to what was left of that window.
//
// Use is charged when it is reported, up to a report gap and a one-way delay after it happened, and
// refill continues in between. So the deepest true debt and the deepest measured debt differ by at
// most
//
//	rate x (longest report gap + one-way delay)
//
// and the sums by as much for every new debt. Use before this leader's term is dated by the log and
// by the last grant to members, so that it is not charged to a level that has been full since. For
// a key that a member opened while it heard from no leader both are unknown, and the measured debt
// may be too large.
//
// Members that are cut off under when_cut_off: open count nothing, and so does this measurement.
// The unreported use by a member that died is unknown. Debt of less than a hundredth of a token is
// rounding.
//
// # Needless refusals
//
// Imagine a bucket that is charged with all that was admitted, and with every refused cost that it
// covers at the moment of the refusal. The refused and covered cost was refused needlessly: it
// could have been served on top of everything else. Because it is charged, no idle token is counted
// twice.
//
// A leader knows of a refusal by a report, so it knows its time only to two or three sync
// intervals. In these, and two more, the true level was at least the lowest free pool, and at most
// the highest level of the envelope. The first, less the largest cost, bounds the count from below.
// The second, with the refill of a full envelope in that time, bounds it from above. Refusals in a
// report that looks back further count as perhaps needless, up to the burst.
//
// TestLiveError of internal/sim compares all of this with what really happened.
type liveKey struct {
	excused        quota.Units // part of the debt that is not an error
	peak           quota.Units // deepest other debt since that was last 0
	outOfDebtSince quota.Time  // when that debt became 0; 0 while it is not

	low, high quota.Units // charged for needless refusals: lower and upper bound
	full      bool        // after the last event, at time at: the level was full
	level     quota.Units // and its highest level and free pool
	free      quota.Units
	at        quota.Time

	slot  int64 // number of the current sync interval
	slots [liveSlots]liveSlot
}

// liveSlot holds the observations of one sync interval.
type liveSlot struct {
	free, level quota.Units // lowest free pool, highest level
	refused     quota.Units // in reports that look back two intervals at most
	older       quota.Units // in others
	gap         time.Duration
	cost        quota.Units // largest refused cost
}

const (
	liveBefore = 3 // intervals before that of the booking
	liveAfter  = 2 // intervals after it
	liveSlots  = liveBefore + liveAfter + 2
	// liveRounding is the debt that counts as zero.
	liveRounding = quota.Token / 100
)

// LiveErrors calls f for every limit that has had a report in this term.
func (l *Ledger) LiveErrors(f func(quota.LimitName, *quota.LiveError)) {
	for n, e := range l.live {
		f(n, e)
	}
}

// liveOf returns the live error of the limit that a counter belongs to. There are at most as many
// as limits.
func (l *Ledger) liveOf(n quota.LimitName) *quota.LiveError {
	if n.IsInline() { // their names are unbounded, and nothing adds them up
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

// dropLive drops the live errors of removed limits.
func (l *Ledger) dropLive() {
	for n := range l.live {
		if _, ok := l.limits.Find(n); !ok {
			delete(l.live, n)
		}
	}
}

// highest is an upper bound of the true level: the envelope, which is charged with admitted tokens
// only. The level of the bucket is lower, because tokens that overflow at a member, or are lost
// with it, count as spent.
func (b *bucket) highest() quota.Units {
	if b.tier.Kind == quota.Concurrency {
		return b.level()
	}
	return b.env.Level()
}

// debt is how far highest is below the debt that the limit allows.
func (b *bucket) debt() quota.Units {
	return max(0, (-b.highest()).Plus(-b.limit.DebtUnits()).Plus(-liveRounding))
}

// liveBefore is called before a report is booked, with the bucket advanced. It returns the debt.
func (l *Ledger) liveBefore(now quota.Time, b *bucket) quota.Units {
	b.env.advance(now, b.limit, &b.tier)
	debt := b.debt()
	if b.live == nil && debt > 0 {
		b.live = newLiveKey(now, b, l.cfg.Sync)
	}
	if b.live != nil {
		b.live.settle(debt)
		b.live.recordPaid(now, b, l.cfg.Sync)
		b.live.advance(now, b, l.cfg.Sync)
	}
	return debt
}

// liveAfter is called after the report is booked. gap is how long the report looks back. It returns
// the part of the use that had overflowed before it was known.
func (l *Ledger) liveAfter(now quota.Time, b *bucket, gap time.Duration, cost, was quota.Units, d *delta) (back quota.Units) {
	sums := b.sums
	sums.Attempted = sums.Attempted.Plus(d.attempted())
	sums.Admitted = sums.Admitted.Plus(d.used + d.over)
	if gap != unknownGap && d.attempted() > 0 {
		sums.Gap = max(sums.Gap, gap)
	}
	if b.tier.Kind == quota.Concurrency {
		b.advance(now) // requests in flight are counted, not booked
	}
	since := now // a new opening is reported at once
	if gap != unknownGap {
		since = now.Add(-l.cfg.Sync / 2).Add(-gap) // a report covers the time since the last one was sent
	}
	if d.alone > 0 {
		since = min(since, d.cutOffSince)
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
	b.live.countDebt(b, was, debt, d)
	b.live.recordPaid(now, b, l.cfg.Sync)
	b.live.refuse(gap <= (liveBefore-1)*l.cfg.Sync, min(gap, l.cfg.Lease)+l.cfg.Sync, cost, d.refused)
	b.live.recordLevel(b)
	b.live.at, b.live.full = now, b.level() >= b.limit.BurstUnits()
	return back
}

// envelope is the level of a key when only admitted tokens are charged, at the time of the booking.
// It may be full, and overflow, while use is still unreported: between from and to it has
// overflowed all the time, and none of that has been put back.
type envelope struct {
	limiter.Meter
	at, from, to quota.Time
}

func newEnvelope(m limiter.Meter, now quota.Time) envelope { return envelope{m, now, now, now} }

// opened sets since when the envelope of a newly opened key has overflowed, because members also
// report what they used before this leader, with the time that they look back. The key is full
// since it refilled what it lacked by the log, or has always been full if the log has no line of
// it. A hard limit has no debt: a negative level in the log is set aside for tokens that may have
// been lost.
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

// advance refills the envelope.
func (v *envelope) advance(now quota.Time, l *quota.Limit, t *quota.Tier) {
	burst, was := l.BurstUnits(), v.Level()
	v.Advance(now, t)
	if v.Level() >= burst && now > v.at {
		full := min(now, v.at.Add(l.Rate.TimeFor(burst-was)))
		if full > v.to { // what remains of an earlier period counts as if it ended just before
			v.from = full.Add(-v.to.Sub(v.from))
		}
		v.to = now
	}
	v.at = max(v.at, now)
}

// charge charges use that happened later than since, and puts back what has overflowed since then.
// It returns that amount.
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

// learned takes over the level that an earlier leader reported: the key was not fuller then, so it
// has not overflowed.
func (v *envelope) learned(now quota.Time, level quota.Units) {
	if level < v.Level() {
		v.Cap(level)
		v.from, v.to = now, now
	}
}

// unknownGap is the gap of the first report of an opening that no leader knew.
const unknownGap = time.Duration(1<<63 - 1)

// firstGap is how long the first report of a key looks back: to the last grant that the member
// received, if the report states it.
func firstGap(e *quota.ReportEntry) time.Duration {
	if e.Learn == nil || !e.Learn.HasLevel || e.Learn.Age < 0 {
		return unknownGap
	}
	return e.Learn.Age
}

// settle records the debt before a report: whatever lowered the level since the last report was not
// an admission.
func (e *liveKey) settle(debt quota.Units) {
	e.excused = min(e.excused, debt)
	if wrong := debt - e.excused; wrong > e.peak {
		e.excused += wrong - e.peak
	}
}

// recordPaid records that the key is out of debt. When it has been so for two sync intervals, by more
// than the refill in that time or full, the next debt is a new one. Earlier, unreported use may
// still belong to the old one.
func (e *liveKey) recordPaid(now quota.Time, b *bucket, sync time.Duration) {
	if b.highest().Plus(b.limit.DebtUnits()) < min(b.limit.BurstUnits(), max(quota.Token, b.maxRefill(2*sync))) {
		e.outOfDebtSince = 0
		return
	}
	if e.outOfDebtSince == 0 {
		e.outOfDebtSince = now
	}
	if now.Sub(e.outOfDebtSince) >= 2*sync {
		e.peak = 0
	}
}

// countDebt counts what a report adds to the debt, and to the debt of the window before.
func (e *liveKey) countDebt(b *bucket, was, debt quota.Units, d *delta) {
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

// overAdmitted counts tokens beyond the envelope. depth is how far the key is beyond it now; alone
// is what the member admitted while it was cut off.
func (b *bucket) overAdmitted(u, depth, alone quota.Units) {
	cut := min(u, alone)
	b.sums.CutOff = b.sums.CutOff.Plus(cut)
	b.sums.OverAdmitted = b.sums.OverAdmitted.Plus(u - cut)
	b.sums.Worst = max(b.sums.Worst, depth)
	if burst := b.limit.BurstUnits(); burst > 0 {
		b.sums.WorstBurst = max(b.sums.WorstBurst, float64(depth)/float64(burst))
	}
	s := b.editUnusual()
	s.over = s.over.Plus(u)
}

// newLiveKey begins to measure a key without earlier observations.
func newLiveKey(now quota.Time, b *bucket, sync time.Duration) *liveKey {
	e := &liveKey{slot: int64(now) / int64(sync), at: now}
	for i := range e.slots {
		e.slots[i] = liveSlot{level: b.limit.BurstUnits()}
	}
	e.recordLevel(b)
	return e
}

func (e *liveKey) slotAt(slot int64) *liveSlot { return &e.slots[uint64(slot)%liveSlots] }

// recordLevel records the present level in the current slot.
func (e *liveKey) recordLevel(b *bucket) {
	e.level, e.free = b.highest(), b.pool.Level()
	s := e.slotAt(e.slot)
	s.free, s.level = min(s.free, e.free), max(s.level, e.level)
}

// refuse records the refusals in a report.
func (e *liveKey) refuse(recent bool, gap time.Duration, cost, refused quota.Units) {
	s := e.slotAt(e.slot)
	if refused > 0 {
		s.gap = max(s.gap, gap)
	}
	if recent {
		s.refused, s.cost = s.refused.Plus(refused), max(s.cost, cost, min(refused, quota.Token))
	} else {
		s.older = s.older.Plus(refused)
	}
}

// advance moves to the current slot. The level and the pool are monotonic between two events, so
// the slots in between get the extremes of both ends.
func (e *liveKey) advance(now quota.Time, b *bucket, sync time.Duration) {
	level, free := b.highest(), b.pool.Level()
	if dt := now.Sub(e.at); dt > 0 && level >= b.limit.BurstUnits() {
		back := b.maxRefill(dt)
		e.high = max(0, e.high-back)
		if e.full && b.level() >= b.limit.BurstUnits() {
			e.low = max(0, e.low-back)
		}
	}
	slot := int64(now) / int64(sync)
	for range min(slot-e.slot, 2*liveSlots) {
		e.slot++
		*e.slotAt(e.slot) = liveSlot{free: min(e.free, free), level: max(e.level, level)}
		e.count(b, e.slot-liveAfter-1)
	}
	e.slot, e.at = max(e.slot, slot), max(e.at, now)
	e.recordLevel(b)
}

// count counts the refusals of a slot.
func (e *liveKey) count(b *bucket, slot int64) {
	s := e.slotAt(slot)
	if s.refused == 0 && s.older == 0 {
		return
	}
	free, level := s.free, s.level
	for i := slot - liveBefore; i <= slot+liveAfter; i++ {
		free, level = min(free, e.slotAt(i).free), max(level, e.slotAt(i).level)
	}
	if s.older > 0 {
		level = b.limit.BurstUnits()
	}
	if n := min(s.refused, free-e.low-s.cost); n > 0 {
		e.low += n
		u := b.editUnusual()
		u.needless = u.needless.Plus(n)
		b.sums.Needless = b.sums.Needless.Plus(n)
	}
	if level >= b.limit.BurstUnits() { // the refill of that time may have been refused as well
		level = level.Plus(b.maxRefill(s.gap))
	}
	if n := min(s.refused.Plus(s.older), level-e.high); n > 0 {
		e.high += n
		u := b.editUnusual()
		u.needlessAtMost = u.needlessAtMost.Plus(n)
		b.sums.NeedlessAtMost = b.sums.NeedlessAtMost.Plus(n)
	}
	s.refused, s.older = 0, 0
}

// liveRoll records what is left of a window that ends: its use may be reported later.
func (b *bucket) liveRoll() {
	b.left = b.highest()
	if b.live != nil {
		b.live.low, b.live.high = 0, 0
	}
}

// liveSweep counts complete slots, and stops measuring keys that are full again.
func (l *Ledger) liveSweep(now quota.Time, b *bucket) {
	if b.live == nil {
		return
	}
	b.live.settle(b.debt())
	b.live.recordPaid(now, b, l.cfg.Sync)
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
