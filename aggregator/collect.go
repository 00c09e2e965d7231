package aggregator

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// batch gathers the entries of one Collect by range, with their buckets.
type batch map[quota.RangeID]*lines

type lines struct {
	entries []quota.ReportEntry
	buckets []*bucket
}

func (l *lines) add(b *bucket, e quota.ReportEntry) {
	l.entries, l.buckets = append(l.entries, e), append(l.buckets, b)
}

func (bt batch) of(r quota.RangeID) *lines {
	l := bt[r]
	if l == nil {
		l = &lines{}
		bt[r] = l
	}
	return l
}

// Collect returns the reports to send now: of keys that are due, of keys that
// run low, and everything to leaders that are new. Every report has the leader
// and term that the member knows; those of ranges without a leader wait.
func (a *Aggregator) Collect(now quota.Time) []quota.Report {
	out := a.tellAll(now)
	out = a.tellLives(now, out)
	bt := batch{}
	a.urgent.drain(func(b *bucket) { a.soon = append(a.soon, b) })
	a.collectSoon(now, bt)
	a.wheel.turn(now, func(b *bucket) { a.collect(now, b, bt, false) })
	for _, r := range slices.Sorted(maps.Keys(bt)) {
		out = append(out, a.reports(now, r, bt[r], false)...)
	}
	return out
}

// NextWake returns when Collect has something to do if nobody asks before.
func (a *Aggregator) NextWake() quota.Time {
	wake := min(a.wheel.next, a.livesAt())
	if len(a.soon) > 0 {
		wake = min(wake, a.soonAt)
	}
	return wake
}

// Urgent reports whether a key has asked to report since the last Collect.
func (a *Aggregator) Urgent() bool { return a.urgent.wake.Load() }

// reports cuts lines into messages of bounded size, numbers them, and notes in
// each bucket which message carries it.
func (a *Aggregator) reports(now quota.Time, r quota.RangeID, l *lines, full bool) []quota.Report {
	rt := &a.ranges[r]
	var out []quota.Report
	for done := false; !done; {
		n := min(len(l.entries), maxEntries)
		rt.seq++
		for _, b := range l.buckets[:n] {
			b.lock()
			if b.pending != 0 {
				b.tries++
			}
			b.pending = rt.seq
			b.unlock()
		}
		done = n == len(l.entries)
		rt.sent.add(rt.seq, l.buckets[:n], l.entries[:n], &a.spare)
		out = append(out, quota.Report{
			Range: r, Term: rt.term, From: a.cfg.Self, Incarnation: a.cfg.Incarnation, Seq: rt.seq,
			Full: full && done, Age: now.Sub(a.born), Entries: l.entries[:n],
		})
		l.entries, l.buckets = l.entries[n:], l.buckets[n:]
	}
	return out
}

func (a *Aggregator) find(k quota.Key) (*bucket, bool) {
	s := a.table.find(k.LimitName)
	if s == nil {
		return nil, false
	}
	b := s.keys.Load(k.Key)
	return b, b != nil
}

// tellAll reports all open keys of ranges that have a new leader, until it has
// answered.
func (a *Aggregator) tellAll(now quota.Time) []quota.Report {
	var out []quota.Report
	for r := range a.ranges {
		rt := &a.ranges[r]
		lost := rt.told > 0 && now.Sub(rt.toldAt) >= a.retryAfter()
		if !rt.tell && !lost {
			continue
		}
		l := &lines{}
		for _, b := range rt.open {
			b.lock()
			b.roll(now, b.limit())
			b.accrue(now)
			l.add(b, b.entry(now, rt.term))
			b.unlock()
		}
		out = append(out, a.reports(now, quota.RangeID(r), l, true)...)
		rt.tell, rt.told, rt.toldAt = false, rt.seq, now
	}
	return out
}

// collectSoon reports urgent keys, or keeps them until the spacing is over.
func (a *Aggregator) collectSoon(now quota.Time, bt batch) {
	waiting := a.soon[:0]
	a.soonAt = now.Add(time.Hour)
	for _, b := range a.soon {
		if at := a.mayHurry(now, b); at > now {
			a.soonAt = min(a.soonAt, at)
			waiting = append(waiting, b)
			continue
		}
		b.asked.Store(false)
		a.collect(now, b, bt, true)
	}
	clear(a.soon[len(waiting):])
	a.soon = waiting
}

// mayHurry returns when an urgent key may report: a little after its last
// report, later if the last grant brought nothing.
func (a *Aggregator) mayHurry(now quota.Time, b *bucket) quota.Time {
	b.lock()
	defer b.unlock()
	switch {
	case b.sentAt == 0:
		return now
	case b.news || b.bound:
		return b.sentAt.Add(spacing)
	case b.dry:
		return b.sentAt.Add(a.cfg.Sync / 2)
	case b.guessing:
		return b.sentAt.Add(spacing / 5)
	}
	return b.sentAt.Add(spacing)
}

// collect adds a key's entry to the batch if it has something to say.
func (a *Aggregator) collect(now quota.Time, b *bucket, bt batch, urgent bool) {
	rt := &a.ranges[b.rng]
	b.lock()
	defer b.unlock()
	if b.dead || b.phase == closed {
		return
	}
	a.list(b)
	b.roll(now, b.limit())
	b.accrue(now)
	if rt.leader == "" {
		a.wheel.add(b, now.Add(a.cfg.Sync))
		return
	}
	if b.pending != 0 && !b.overdue && now.Sub(b.sentAt) < a.resendAfter(b, rt) {
		b.hurry = b.hurry || urgent
		a.wheel.add(b, b.sentAt.Add(a.resendAfter(b, rt)))
		return
	}
	b.overdue = false
	if b.prepare(now, a, rt) {
		bt.of(b.rng).add(b, b.entry(now, rt.term))
		a.wheel.add(b, now.Add(a.resendAfter(b, rt)))
		return
	}
	a.wheel.add(b, now.Add(a.cfg.Sync))
}

// resendAfter is how long an unanswered report of a key waits before the next: a
// quarter of an interval, unless answers take longer, and each time twice as long.
// Who has nothing gets nothing until it is heard. Held by b.mu.
func (a *Aggregator) resendAfter(b *bucket, rt *route) time.Duration {
	if rt.told > 0 { // as a part of everything
		return a.retryAfter()
	}
	first := a.cfg.Sync / 4
	return min(max(first<<min(b.tries, 4), 4*rt.rtt), a.retryAfter())
}

// prepare decides whether a key reports now, what it keeps, and whether it
// lets go. Held by b.mu.
func (b *bucket) prepare(now quota.Time, a *Aggregator, rt *route) bool {
	c := b.counts()
	changed := c != b.sent
	if (changed || b.want > 0 || b.curious || b.abandoned.any()) && c.attempted() <= fullCounters {
		b.measure(now, c)
		b.lastUse = now
		if b.phase == closing && b.limit().Endures() { // it waited for the log, and is used again
			b.phase = open
		}
		b.keep(b.kept(rt.rtt))
		b.recalled = false
		return true
	}
	if b.phase == closing || b.pending != 0 { // not answered: say it again
		return true
	}
	b.demand = 0
	if b.recalled {
		b.recalled = false
		b.stop()
		return true
	}
	if b.inFlight > 0 { // or the leader takes it for released
		if now.Sub(b.sentAt) < a.cfg.Lease/3 {
			return false
		}
		b.keep(0)
		return true
	}
	if b.loans == 0 && (now.Sub(b.lastUse) >= b.patience(a.cfg.Sync) || c.attempted() > fullCounters) {
		b.phase = closing
		b.expire()
		return true
	}
	if (b.hot().held.Load() > 0 || b.rate > 0) && (b.dry || b.limit().Ceiling == quota.Soft && now.Sub(b.lastUse) >= lull*a.cfg.Sync) {
		b.stop()
		return true
	}
	return false
}

// stop gives back what is held and the rate: nobody asks for it.
func (b *bucket) stop() {
	b.rate = 0
	b.keep(0)
}

// patience is how long the key stays open when nobody uses it.
func (b *bucket) patience(sync time.Duration) time.Duration {
	if b.limit().Ceiling == quota.Hard && !b.dry {
		return 25 * sync
	}
	return patience * sync
}

// fullCounters is where a key begins a new epoch, with counters from 0: far
// enough from overflow, and rarely reached.
const fullCounters = quota.Most / 2

// measure updates the key's own demand.
func (b *bucket) measure(now quota.Time, c counts) {
	since := b.sentAt
	if since == 0 {
		since = b.opened
	}
	dt := max(now.Sub(since), time.Millisecond)
	b.demand = quota.Units(quota.MulDiv(int64(c.attempted()-b.sent.attempted()), int64(time.Second), int64(dt)))
}

// reserve is what a reporting member keeps until the answer is there.
func (b *bucket) reserve(rtt time.Duration) quota.Units {
	return perSecond(b.demand, 2*rtt) + quota.Token
}

// kept is what a report leaves here. Where there are no rates nothing completes
// a fraction: it would lie here unused, and the rest of its token with the leader.
func (b *bucket) kept(rtt time.Duration) quota.Units {
	keep := b.reserve(rtt)
	if b.limit().Kind != quota.TokenBucket || b.rate == 0 && b.limit().Ceiling == quota.Hard {
		keep -= keep % quota.Token
	}
	return keep
}

func perSecond(rate quota.Units, d time.Duration) quota.Units {
	return quota.Units(quota.MulDiv(int64(rate), int64(d), int64(time.Second)))
}

// entry is the key's line in a report to the leader of that term. One that has
// not granted yet is told what an earlier one has. Held by b.mu.
func (b *bucket) entry(now quota.Time, term quota.Term) quota.ReportEntry {
	held := quota.Units(b.hot().held.Load())
	c := counts{b.in - held - b.loans, b.over, b.refused, b.refunded}
	e := quota.ReportEntry{
		Key: quota.Key{LimitName: b.slot.name, Key: b.key}, Epoch: b.epoch,
		Charged: min(b.charged, c.over), Alone: min(b.unled, c.over), // a call that was refused may have taken some of it back
		Used: c.used, Overdrawn: c.over, Refused: c.refused, Refunded: c.back, InFlight: b.inFlight,
		Held: max(0, held) + b.loans, Want: b.wants(), Window: b.window(), Before: b.before,
		Unreported: c.spent() - b.acked, Returned: b.returned, Saved: b.saved,
		Final: b.phase == closing, Abandoned: b.abandoned.send(),
	}
	switch {
	case b.term == term && b.applied > 0:
		e.Ref, e.Applied, e.AccruedTo, e.Stopped = b.ref, b.applied, b.from-quota.Time(b.offset), b.rate == 0
	case b.term != term && b.told:
		e.Learn = &quota.Learn{Told: true, Level: b.level, Age: now.Sub(b.toldAt), Rate: b.rate, Cap: b.cap, LeaseLeft: b.lease.Sub(now), WindowEnd: b.until}
	}
	b.sent, b.sentAt, b.hurry = c, now, false
	b.wanted, b.want, b.curious, b.news = b.want, 0, false, false
	b.hot().low.Store(0) // one report at a time
	return e
}
