package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// busy is the retry-after of a concurrency limit: the time of the next release is unknown.
const busy = 100 * time.Millisecond

// firstWindow guesses the window of a key without a level: by the leader's clock if its offset is known, otherwise by
// this node's.
func (b *bucket) firstWindow(now quota.Time, l *quota.Limit) {
	b.setWindow(0, 0, 0)
	b.setSlope(0)
	if l.Kind.Windowed() {
		t := l.First()
		off := quota.Time(b.offset)
		start, end := limiter.Window(&t, now-off)
		b.setWindow(start, start+off, end+off)
	}
}

// roll advances the bucket to now: it follows a change of the limit, and ends a window that is over.
func (b *bucket) roll(now quota.Time, l *quota.Limit) {
	if b.as != l {
		b.adopt(now, l)
	}
	b.endWindow(now, l)
}

// adopt continues under a changed limit: use so far stays counted, as at the leader.
func (b *bucket) adopt(now quota.Time, l *quota.Limit) {
	old := b.as
	b.as = l
	b.setDenied(0, 0)
	if old == nil || old.First() == l.First() {
		return
	}
	b.endWindow(now, old)
	was, is := old.First(), l.First()
	est := b.estimate(now, old, false)
	m, at := b.meter(now, old, est)
	m.Retier(at, &was, &is)
	b.est, b.estAt = m.Level(), now
	b.level += m.Level() - est
	if returnsWhenCut(l) && (l.Burst < old.Burst || l.Rate.PerSecond() < old.Rate.PerSecond()) {
		b.accrue(now)
		b.stop() // others hold tokens and rates too, together more than the new limit allows
		if b.allocated > 0 {
			b.rare().outgrown = true
		}
		if b.beyond != b.inFlight {
			b.rare().beyond = b.inFlight // places that are released go to the leader, not to the next caller
		}
	}
	b.returnAbove(max(0, min(l.BurstUnits(), b.est)))
	if was.Kind != is.Kind || was.Rate.Per != is.Rate.Per && is.Kind.Windowed() || was.Calendar != is.Calendar {
		b.void()
		// A window of another length stays: the leader counts use in it until it has learned of the change.
		if was.Kind != is.Kind || is.Kind == quota.SlidingWindow || b.window() == 0 {
			b.firstWindow(now, l)
		}
	}
}

// returnsWhenCut reports whether members return what they hold when the limit is cut. What others admit beyond it becomes
// debt, which the leader repays by granting less.
func returnsWhenCut(l *quota.Limit) bool {
	return l.Ceiling == quota.Hard || l.Kind == quota.Concurrency
}

// grantedBeforeCut reports whether the leader had not learned of a cut when it made the grant: what all members
// hold of such grants may exceed the limit.
func (b *bucket) grantedBeforeCut(e *quota.GrantEntry) bool {
	l := b.limit()
	return returnsWhenCut(l) && (e.Burst > l.BurstUnits() || l.Kind == quota.TokenBucket && e.Slope > l.Rate.PerSecond())
}

// endWindow ends the window if it is over. Tokens held for it are void, and its use does not count in the next one. For a
// sliding window both continue, and its use returns over the next period.
func (b *bucket) endWindow(now quota.Time, l *quota.Limit) {
	if b.until == 0 || now < b.until {
		return
	}
	spent := b.counts().spent()
	if l.Kind == quota.SlidingWindow {
		b.slide(now, l)
		return
	}
	b.void()
	ended := b.win
	b.firstWindow(now, l)
	if l.Kind == quota.PeriodicRefill && b.sameWindow(l, ended) {
		off := quota.Time(b.offset)
		b.setWindow(ended, ended+off, ended.Add(l.Rate.Per)+off)
	}
	if b.win <= ended { // adoptWindow had ended it early, or windows have become longer: the use so far belongs to it
		b.setWindow(ended, ended+quota.Time(b.offset), b.until)
		return
	}
	b.dropRefunds(b.refunded)
	b.est, b.estAt, b.estUsed = l.BurstUnits(), now, spent
	b.level = l.BurstUnits() // a new leader must not learn the level of the previous window
	b.presumed = 0
	b.setBefore(spent, b.undecided)
	b.setDenied(0, 0)
	b.setAnswered(0)
	b.writeSlot()
}

// dropRefunds subtracts refunds of a window that has ended: they raise the level of no other.
func (b *bucket) dropRefunds(u quota.Units) {
	b.refunded -= u
	b.estBack, b.ackedBack, b.sent.back = max(0, b.estBack-u), max(0, b.ackedBack-u), max(0, b.sent.back-u)
}

// slide advances a sliding window, one window at a time. A key that was idle for two is full.
func (b *bucket) slide(now quota.Time, l *quota.Limit) {
	full, per := l.BurstUnits(), l.Rate.Per
	for range 2 {
		if now < b.until {
			return
		}
		b.estimate(b.until, l, false)
		b.setSlope(accrued(quota.Units(quota.MulDiv(int64(full-min(full, b.est)), int64(time.Second), int64(per))), time.Second))
		b.setWindow(b.win.Add(per), b.until, b.until.Add(per))
		b.dropRefunds(b.refunded)
	}
	if now >= b.until {
		b.est, b.estAt = full, now
		b.firstWindow(now, l)
	}
}

// gains returns the gain of the global level per second without demand.
func (b *bucket) gains(l *quota.Limit) quota.Units {
	switch l.Kind {
	case quota.TokenBucket:
		return l.Rate.PerSecond()
	case quota.SlidingWindow:
		return b.slope
	}
	return 0
}

// meter returns a meter with the estimate as its level, and the time on its clock. With a window that is the leader's
// clock, by which the window begins and ends.
func (b *bucket) meter(now quota.Time, l *quota.Limit, est quota.Units) (limiter.Meter, quota.Time) {
	t, at := l.First(), now
	if b.until != 0 {
		at = now - (b.since - b.win)
	}
	from := max(at, b.win)
	return limiter.RestoreMeter(&t, est, from, b.win, b.slope, from), at
}

// window returns the start of the bucket's window on the leader's clock; 0 without a window, or without a level.
func (b *bucket) window() quota.Time {
	if b.until == 0 || !b.hasLevel {
		return 0
	}
	return b.win
}

// adoptWindow adopts the window of a grant. It returns false for a grant of a window that has ended here. Under hard it
// ends the window at the earliest time at which the leader's clock may end it, so no token of it is spent in the next.
func (b *bucket) adoptWindow(now quota.Time, off clockOffset, e *quota.GrantEntry) bool {
	if b.windowState != &noWindow || e.WindowEnd != 0 {
		b.setSlope(e.Slope)
	}
	if e.WindowEnd == 0 {
		b.setWindow(0, 0, 0)
		return true
	}
	l := b.limit()
	since, until := e.WindowStart+quota.Time(off.high), e.WindowEnd+quota.Time(off.high)
	if l.Ceiling == quota.Hard {
		until = until.Add(-off.lag())
		if l.Kind != quota.SlidingWindow { // until its lease ends, the leader's clock may drift
			until = until.Add(-max(0, min(until.Sub(now), max(e.Lease, b.lease.Sub(now)))) / maxDrift)
		}
		until = max(since+1, until)
	}
	if l.Kind == quota.SlidingWindow {
		if e.WindowStart > b.win {
			b.dropRefunds(b.refunded)
		}
		b.setWindow(e.WindowStart, since, until)
		return true
	}
	if now >= until || b.hasLevel && e.WindowEnd <= b.win && l.Kind != quota.PeriodicRefill {
		return false
	}
	switch same := b.sameWindow(l, e.WindowStart); {
	case e.WindowStart < b.win: // ended too early here, or begun elsewhere: unacknowledged counts may belong to it
		b.setBefore(min(b.before, b.acked), 0)
	case b.hasLevel && !same:
		spent := b.counts().spent()
		b.void()
		b.dropRefunds(b.refunded)
		b.setBefore(spent, b.undecided)
		b.estUsed = spent
	case !same:
		b.dropRefunds(b.refunded)
	case b.hasLevel && e.WindowStart > b.win: // no use in it yet: drop the refunds that the leader has booked
		b.dropRefunds(b.ackedBack)
	}
	b.setWindow(e.WindowStart, since, until)
	b.writeSlot()
	return true
}

// sameWindow reports whether a window that began at start, on the leader's clock, is the bucket's. The leader moves
// the start of a periodic window until it receives a use in it: held tokens of that window stay, and use since any of
// the starts belongs to it. The next window begins at least a period after the last start.
func (b *bucket) sameWindow(l *quota.Limit, start quota.Time) bool {
	if l.Kind != quota.PeriodicRefill {
		return start == b.win
	}
	return max(start, b.win) < min(start, b.win).Add(l.Rate.Per)
}
