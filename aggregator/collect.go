package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Collect returns the reports to send now: of keys that are due or run low, and full reports to new leaders. Each
// report has the leader and term that the member knows; reports of ranges without a leader wait. The caller owns
// them.
func (a *Aggregator) Collect(now quota.Time) []quota.Report { return a.CollectInto(now, &Buffer{}) }

// CollectInto is Collect with reused memory: the reports are valid until buf is used again.
func (a *Aggregator) CollectInto(now quota.Time, buf *Buffer) []quota.Report {
	buf.reset(len(a.ranges))
	a.noteSilentLeaders(now)
	a.reportAll(now, buf)
	buf.reports = a.reportRecovered(now, buf.reports)
	a.urgent.drain(func(b *bucket) { a.soon = append(a.soon, b) })
	a.collectSoon(now, buf)
	a.wheel.turn(now, func(b *bucket) { a.collect(now, b, buf) })
	for r := range buf.lines {
		if buf.lines[r].begun {
			a.finish(now, quota.RangeID(r), buf, 0)
		}
	}
	return buf.reports
}

// NextWake returns the time at which Collect has something to do if no key becomes urgent before.
func (a *Aggregator) NextWake() quota.Time {
	wake := min(a.wheel.wake(), a.recoveredAt())
	if len(a.soon) > 0 {
		wake = min(wake, a.soonAt)
	}
	return wake
}

// Urgent reports whether a key became urgent since the last Collect.
func (a *Aggregator) Urgent() bool { return a.urgent.wake.Load() }

func (a *Aggregator) find(k quota.Key) (*bucket, bool) {
	s := a.table.find(k.LimitName)
	if s == nil {
		return nil, false
	}
	b := s.keys.Load(k.Key)
	return b, b != nil
}

// reportAll reports all open keys of ranges with a new leader, until it has answered. It backs off: a leader that is
// slow to read a full report would fall further behind if all of it were repeated.
func (a *Aggregator) reportAll(now quota.Time, buf *Buffer) {
	for r := range a.ranges {
		rt := &a.ranges[r]
		if lost := rt.full.times > 0 && now.Sub(rt.full.at) >= a.reportAgainAfter(rt); !rt.needsFull && !lost {
			continue
		}
		first := rt.seq + 1
		for _, b := range rt.open {
			b.lock()
			b.roll(now, b.limit())
			b.accrue(now)
			b.report(now, rt, a.addLine(now, b, buf))
			b.unlock()
		}
		a.finish(now, quota.RangeID(r), buf, first)
		rt.needsFull = false
		rt.full.recordSent(now, rt.seq)
	}
}

// reportAgainAfter returns how long a leader has to answer a full report. The first four waits are equal, because
// messages may have been lost: with 30 % loss, one report in two receives no answer.
func (a *Aggregator) reportAgainAfter(rt *route) time.Duration {
	return min(max(a.retryAfter(), 4*rt.trip())<<min(max(0, rt.full.times-4), 10), max(a.cfg.Lease, a.retryAfter()))
}

// collectSoon reports urgent keys, or keeps them until the spacing has passed.
func (a *Aggregator) collectSoon(now quota.Time, buf *Buffer) {
	waiting := a.soon[:0]
	a.soonAt = now.Add(time.Hour)
	for i, b := range a.soon {
		if i%prefetchBatch == 0 {
			prefetchBuckets(a.soon[i:min(i+prefetchBatch, len(a.soon))])
		}
		if at := a.collectUrgent(now, b, buf); at > now {
			a.soonAt = min(a.soonAt, at)
			waiting = append(waiting, b)
		}
	}
	clear(a.soon[len(waiting):])
	a.soon = waiting
}

// collectUrgent collects an urgent key. If the key has to wait, it returns the time until which.
func (a *Aggregator) collectUrgent(now quota.Time, b *bucket, buf *Buffer) quota.Time {
	b.lock()
	defer b.unlock()
	if b.calm && !b.dead && !a.stopping {
		b.asked.Store(false)
		a.list(b)
		a.wheel.add(b, b.changed.Add(openIntervals*a.cfg.Sync))
		return now
	}
	at := b.nextReportAt(now, a.cfg.Sync)
	if a.stopping {
		at = min(at, b.sentAt.Add(spacing))
	}
	if at > now {
		return at
	}
	b.asked.Store(false)
	a.collectLocked(now, b, buf, true)
	return now
}

// nextReportAt returns the time at which an urgent key may report: shortly after its last report, later if the leader
// had nothing free and nothing was refunded here since. A recall under soft is answered early in any case: the answer is
// urgent. Held by b.mu.
func (b *bucket) nextReportAt(now quota.Time, sync time.Duration) quota.Time {
	switch {
	case b.sentAt == 0:
		return now
	case b.largeOverdraft || b.bound || b.recalled && b.limit().Ceiling == quota.Soft:
		return b.sentAt.Add(spacing)
	case b.noneFree && (b.refunded == b.sent.back || b.limit().Kind == quota.Concurrency):
		return b.sentAt.Add(sync / 2)
	case b.guessing:
		return b.sentAt.Add(spacing / 5)
	}
	return b.sentAt.Add(spacing)
}

// collect reports a key if it has a reason to report.
func (a *Aggregator) collect(now quota.Time, b *bucket, buf *Buffer) {
	b.lock()
	defer b.unlock()
	a.collectLocked(now, b, buf, false)
}

// collectLocked is collect with b locked. urgent is set if the key asked for the report.
func (a *Aggregator) collectLocked(now quota.Time, b *bucket, buf *Buffer, urgent bool) {
	if b.dead || b.phase == closed {
		return
	}
	rt := &a.ranges[b.rng]
	a.list(b)
	b.roll(now, b.limit())
	b.accrue(now)
	b.tally()
	if rt.leader == "" {
		a.wheel.add(b, now.Add(a.cfg.Sync))
		return
	}
	if b.pending != 0 && !b.overdue && now.Sub(b.sentAt) < a.resendAfter(b, rt) {
		b.askAgain = b.askAgain || urgent
		a.wheel.add(b, min(b.sentAt.Add(a.resendAfter(b, rt)), now.Add(a.retryAfter())))
		return
	}
	b.overdue = false
	if b.shouldReport(now, a, rt) {
		a.wheel.add(b, now.Add(a.resendAfter(b, rt)))
		b.report(now, rt, a.addLine(now, b, buf))
		return
	}
	a.wheel.add(b, now.Add(a.cfg.Sync))
}

// resendAfter returns the time after which an unanswered report of a key is repeated: a quarter of an interval, each
// time twice as long, up to three intervals; but at least four round trips, up to a lease. A late answer is not lost,
// and a leader that is late has no time to read a report twice. It waits no longer because a member that holds
// nothing receives nothing until its report arrives. Held by b.mu.
func (a *Aggregator) resendAfter(b *bucket, rt *route) time.Duration {
	most := max(a.cfg.Lease, a.retryAfter())
	if b.pending != 0 && b.pending <= rt.full.last() { // a full report repeats it
		return a.reportAgainAfter(rt)
	}
	first := a.cfg.Sync / 4
	return max(min(first<<min(b.tries, 4), a.retryAfter()), min(4*rt.trip(), most))
}

// shouldReport decides whether a key reports now, what it keeps, and whether it closes. Held by b.mu.
func (b *bucket) shouldReport(now quota.Time, a *Aggregator, rt *route) bool {
	c := b.decidedCounts()
	changed := c != b.sent
	mayClose := b.allocated == 0 && b.undecided == 0
	mustClose := a.stopping && mayClose && b.inFlight == 0
	returns := a.stopping && (b.hot().held.Load() > 0 || b.rate > 0)
	if returns {
		b.stop()
	}
	if (changed || b.want > 0 || b.wantsLevel || b.cancelled.any()) && !b.overfull() {
		b.measure(now, c)
		b.lastUse = now
		if b.phase == closing && b.limit().Endures() { // it waited for the log to save its counts, and is used again
			b.phase = open
		}
		b.returnAbove(max(b.kept(rt.rtt), b.pledged))
		b.recalled = false
		if b.calm && mayClose || mustClose {
			b.beginClose()
		}
		return true
	}
	if b.phase == closing || b.pending != 0 { // without an answer: repeat
		return true
	}
	b.demand = 0
	if b.recalled {
		b.recalled = false
		b.stop()
		return true
	}
	if mayClose && b.overfull() || mustClose {
		b.beginClose()
		return true
	}
	if returns {
		return true
	}
	if b.inFlight > 0 { // report within a lease, or the leader counts it as released
		if now.Sub(b.sentAt) < a.cfg.Lease/3 {
			return false
		}
		b.returnAbove(b.pledged)
		return true
	}
	if mayClose && now.Sub(b.lastUse) >= b.closeAfter(a.cfg.Sync) {
		b.beginClose()
		return true
	}
	if (b.hot().held.Load() > 0 || b.rate > 0) && (b.noneFree || b.limit().Ceiling == quota.Soft && now.Sub(b.lastUse) >= idleIntervals*a.cfg.Sync) {
		b.stop()
		return true
	}
	return false
}

// beginClose ends the epoch: the next report is final.
func (b *bucket) beginClose() {
	b.phase, b.noGrantYet = closing, true
	b.expire()
}

// stop returns held tokens and the rate, because the key is not used.
func (b *bucket) stop() {
	b.rate = 0
	b.returnAbove(b.pledged)
}

// closeAfter returns how long an unused key stays open.
func (b *bucket) closeAfter(sync time.Duration) time.Duration {
	if b.limit().Ceiling == quota.Hard && !b.noneFree {
		return 25 * sync
	}
	return openIntervals * sync
}

// fullCounters is the count at which a key begins a new epoch, with counters from 0: far from overflow, and rarely
// reached.
const fullCounters = quota.Most / 2

// overfull reports whether a counter is so large that the key has to begin a new epoch. Until then, counters stop at
// quota.Most.
func (b *bucket) overfull() bool {
	return max(b.counts().attempted(), b.refunded) > fullCounters
}

// measure updates the key's own demand.
func (b *bucket) measure(now quota.Time, c counts) {
	since := b.sentAt
	if since == 0 {
		since = b.changed
	}
	dt := max(now.Sub(since), time.Millisecond)
	b.demand = quota.Units(quota.MulDiv(int64(c.attempted()-b.sent.attempted()), int64(time.Second), int64(dt)))
}

// reserve returns the tokens that a reporting member keeps until the answer arrives.
func (b *bucket) reserve(rtt time.Duration) quota.Units {
	return accrued(b.demand, 2*rtt) + quota.Token
}

// kept returns the tokens that stay here after a report. Without a rate, nothing completes a fraction of a token: it
// would stay here unused, and the rest of its token at the leader.
func (b *bucket) kept(rtt time.Duration) quota.Units {
	keep := b.reserve(rtt)
	if b.limit().Kind != quota.TokenBucket || b.rate == 0 && b.limit().Ceiling == quota.Hard {
		keep = min(keep, max(0, quota.Units(b.hot().held.Load())))
		keep -= keep % quota.Token
	}
	return keep
}

func accrued(rate quota.Units, d time.Duration) quota.Units {
	return quota.Units(quota.MulDiv(int64(rate), int64(d), int64(time.Second)))
}

// report fills in the key's line of the range's report in progress. Held by b.mu.
func (b *bucket) report(now quota.Time, rt *route, e *quota.ReportEntry) {
	b.fillEntry(e, now, rt)
	if b.pending != 0 {
		b.rare().tries++
	}
	b.pending = rt.seq
}

// fillEntry writes the key's line in a report to the leader of the range. For a leader that has not granted yet, the
// line contains the grants of an earlier one (Learn), or since when callers gave tokens back. Held by b.mu.
func (b *bucket) fillEntry(e *quota.ReportEntry, now quota.Time, rt *route) {
	c := b.decidedCounts()
	held := b.in - b.allocated - c.used // undecided tokens are neither used nor returned yet
	if b.until != 0 && !b.hasLevel {    // a leader has to report its window first
		c.back = 0
	}
	*e = quota.ReportEntry{}
	e.Key.LimitName, e.Key.Key, e.Epoch = b.entry.name, b.key, b.epoch
	e.Charged, e.Alone = min(b.charged, c.over), min(b.overCutOff, c.over) // undo may have reduced over
	e.Used, e.Overdrawn, e.Refused, e.Refunded = c.used, c.over, c.refused, c.back
	if e.InFlight = b.inFlight; b.limit().Kind == quota.Concurrency {
		e.InFlight -= b.undecided
	}
	e.Held, e.Want, e.Window, e.Before = max(0, held).Count(b.allocated), b.wants(), b.window(), min(b.before-min(b.before, b.undecidedBefore), quota.Most)
	e.Unreported, e.Returned, e.Saved = min(c.spent()-b.acked, quota.Most), b.returned, min(b.saved, quota.Most)
	e.Final, e.Cancelled, e.Cost = b.phase == closing, b.cancelled.send(), b.largest
	switch {
	case b.term == rt.term && b.applied > 0:
		e.Ref, e.Applied, e.AccruedTo, e.Stopped = b.ref, b.applied, b.from-quota.Time(b.offset), b.rate == 0
	case b.term != rt.term && b.hasLevel:
		e.Learn = &quota.Learn{HasLevel: true, Level: min(max(b.level, -quota.Most), quota.Most), Age: now.Sub(b.levelAt), Rate: b.rate, Cap: b.cap, LeaseLeft: b.lease.Sub(now), WindowEnd: b.until}
	case b.refundedFrom > 0:
		e.AccruedTo = rt.clock.leaderTime(b.refundedFrom)
	}
	b.sent, b.sentAt, b.askAgain, b.unpaid, b.sentBack = c, now, false, min(b.unpaid, b.undecided), b.returned
	b.wanted, b.want, b.wantsLevel, b.largeOverdraft, b.calm = b.want, 0, false, false, false
	if b.largest != 0 {
		b.rare().largest = 0
	}
	if low := &b.hot().low; low.Load() != 0 {
		low.Store(0) // no more until the next grant sets it
	}
}
