package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// member is the part that one goroutine at a time drives: the leaders, the keys that are due, the idle keys.
type member struct {
	ranges       []route
	wheel        wheel
	soon         []*bucket // urgent, waiting for the spacing
	soonAt       quota.Time
	idle         []idleBucket  // closed and not compact, the longest closed first
	looked       int           // position in idle at which the next sweep continues
	scratch      *bucket       // for reading a compact key; see look
	stopping     bool          // Stop has been called
	neverCompact bool          // compact nothing: for comparison in tests
	compactIn    time.Duration // compactAfter, except in tests

	spare spareLines

	allocationsRecalled []quota.Key // keys with allocations that a leader wants back; see Recalls

	tallies tallies
}

// route is the member's state for one range.
type route struct {
	leader    quota.NodeID // "" when unknown
	term      quota.Term
	clock     clockOffset // of the leader in this term
	seq       quota.Seq   // number of the last report
	needsFull bool        // a new leader needs a full report
	full      fullReport
	open      []*bucket
	sent      sent
	rtt       time.Duration // averaged
	lastTrip  time.Duration // the last round trip
	recovered recovered     // counts of earlier processes, not committed by a leader yet
	asked     quota.Time    // time of the first report since the leader's last answer; 0 without one
	met       bool          // a leader has answered a full report of this process

	absent absence
}

// trip is how long an answer takes if it is not lost: about the average round trip, or the last one if that was shorter.
// After a leader has stood still, the average stays high for long, and a report that is lost then must not wait for it.
func (rt *route) trip() time.Duration { return min(rt.rtt, max(rt.lastTrip, minTrip)) }

// fullReport is a full report that the leader has not answered. It is repeated after reportAgainAfter, and an answer
// to any repetition counts.
type fullReport struct {
	ends  [maxFullReports]quota.Seq // number of the last report of each repetition, for the newest repetitions
	times int
	at    quota.Time // time of the last repetition
}

// maxFullReports bounds the repetitions that may still be answered: those of about ten leases.
const maxFullReports = 16

// last returns the number of the last report of the last repetition; 0 if none waits for an answer.
func (t *fullReport) last() quota.Seq {
	if t.times == 0 {
		return 0
	}
	return t.ends[(t.times-1)%maxFullReports]
}

// recordSent records that the full report was sent, or sent again, and that its last part has the number end.
func (t *fullReport) recordSent(now quota.Time, end quota.Seq) {
	t.ends[t.times%maxFullReports] = end
	t.times++
	t.at = now
}

func (m *member) init(cfg Config) {
	m.ranges = make([]route, cfg.Ranges)
	for i := range m.ranges {
		m.ranges[i].rtt, m.ranges[i].lastTrip = 2*time.Millisecond, 2*time.Millisecond
	}
	m.scratch, m.compactIn = &bucket{state: newState()}, compactAfter
	m.scratch.entryPtr.Store(&hotEntry{})
}

// SetLeader sets the leader of a range and its term. It ignores terms lower than the known one. The next Collect
// sends a full report to the new leader.
func (a *Aggregator) SetLeader(r quota.RangeID, leader quota.NodeID, term quota.Term) {
	rt := &a.ranges[r]
	if term < rt.term || term == rt.term && (leader == rt.leader || leader == "") {
		return
	}
	if term > rt.term {
		rt.clock = clockOffset{} // it may be a new process, with another clock
	}
	rt.leader, rt.term = leader, term
	rt.needsFull, rt.full = leader != "", fullReport{}
	rt.recovered.at, rt.recovered.tries = 0, 0
}

// Leader returns the leader of a range, and its term, as far as the member knows.
func (a *Aggregator) Leader(r quota.RangeID) (quota.NodeID, quota.Term) {
	return a.ranges[r].leader, a.ranges[r].term
}

// SetLimits replaces the limits. Levels stay; keys of removed limits are dropped.
func (a *Aggregator) SetLimits(now quota.Time, limits *quota.Limits) {
	for _, s := range a.table.setLimits(limits) {
		s.keys.Range(a.forget)
		a.tallies.leave(s)
	}
	a.Overridden(now, nil) // it also drops the compact keys of removed limits
}

// Overridden applies changed overrides to these keys of limits (not of their counters); to all keys if keys is nil.
func (a *Aggregator) Overridden(now quota.Time, keys []quota.Key) {
	if keys == nil {
		for _, s := range a.entries() {
			s.keys.Range(func(b *bucket) { a.relimit(now, b) })
		}
		a.relimitCompact(now)
	}
	for _, k := range keys {
		s := a.table.find(k.LimitName)
		if s == nil {
			continue
		}
		for _, c := range s.rule.Load().charges {
			if c.up != 0 {
				continue
			}
			if b := a.table.lookup(c.entry, k.Key); b != nil {
				a.relimit(now, b)
			}
		}
	}
}

func (a *Aggregator) entries() map[quota.LimitName]*limitEntry {
	if m := a.table.entries.Load(); m != nil {
		return *m
	}
	return nil
}

// relimit applies a changed limit to a key. Use so far stays counted.
func (a *Aggregator) relimit(now quota.Time, b *bucket) {
	b.lock()
	defer b.unlock()
	b.relimit(a.table.overrides)
	b.roll(now, b.limit())
	if b.phase != closed {
		a.wheel.add(b, now)
	}
}

// forget drops a bucket, even if it holds tokens.
func (a *Aggregator) forget(b *bucket) {
	b.lock()
	b.tally()
	b.dead, b.phase = true, closed
	b.closeSlot()
	b.expire()
	b.unlock()
	a.unlist(b)
	a.table.drop(b)
}

func (a *Aggregator) list(b *bucket) {
	rt := &a.ranges[b.rng]
	if b.openIdx == 0 {
		rt.open = append(rt.open, b)
		b.openIdx = uint32(len(rt.open))
	}
}

func (a *Aggregator) unlist(b *bucket) {
	if b.openIdx == 0 {
		return
	}
	rt := &a.ranges[b.rng]
	last := len(rt.open) - 1
	moved := rt.open[last]
	rt.open[b.openIdx-1], moved.openIdx = moved, b.openIdx
	rt.open[last] = nil
	rt.open, b.openIdx = fitting(rt.open[:last]), 0
}

// clockOffset bounds the difference between the member's clock and a leader's. An answered report shows both bounds: its
// grant was made after the report was sent, and before the grant arrived. They widen with age, because clocks drift.
type clockOffset struct {
	low, high int64 // member's clock less leader's
	at        quota.Time
}

// maxDrift is one over the most that two clocks drift against each other: each is steered by up to 5000 ppm
// (cluster/clock).
const maxDrift = 100

// maxLag is the width of the bounds while no report has been answered.
const maxLag = time.Hour

// observe notes when a grant was made, on the leader's clock, and returns the bounds of the leader's clock. sent is when
// the report was sent that it answers; 0 if it answers none. Bounds that contradict each other are of a clock that was
// set, and only the new ones count.
func (o *clockOffset) observe(made, sent, now quota.Time) clockOffset {
	is := clockOffset{low: int64(now - made - quota.Time(maxLag)), high: int64(now - made), at: now}
	if sent != 0 {
		is.low = int64(sent-made) - int64(now-sent)/maxDrift
	}
	if *o != (clockOffset{}) {
		drift := int64(max(0, now-o.at)) / maxDrift
		if low, high := max(is.low, o.low-drift), min(is.high, o.high+drift); low <= high {
			is.low, is.high = low, high
		}
	}
	*o = is
	return is
}

// leaderTime returns the leader's time at t, or earlier: 0 before the first grant.
func (o *clockOffset) leaderTime(t quota.Time) quota.Time {
	if *o == (clockOffset{}) {
		return 0
	}
	return max(0, t-quota.Time(o.high))
}

// clock returns the bounds of the leader's clock as of the last grant.
func (b *bucket) clock() clockOffset {
	return clockOffset{low: b.offset - int64(b.lag), high: b.offset}
}

// lag returns the most by which a time of the leader's clock is late here, if it is mapped by high.
func (o *clockOffset) lag() time.Duration { return time.Duration(min(o.high-o.low, int64(maxLag))) }

// phases is the number of parts of a sync interval. The keys of a range are due in one of them, so a range reports
// once per interval; but the reports of all ranges are spread over it, so that callers do not wait for the work of
// all at once.
const phases = 8

// wheel holds open buckets by the part of a sync interval in which they are due.
type wheel struct {
	step  time.Duration // duration of a part
	next  quota.Time    // end of the part of slots[pos]
	slots [2 * openIntervals * phases][]*bucket
	pos   int
}

func (w *wheel) init(sync time.Duration, now quota.Time) {
	w.step = max(sync/phases, 1)
	w.next = now.Add(w.step)
}

// add puts a bucket into the first part of its range's phase that ends at or after due. A bucket may be on the wheel
// more than once: only the entry of its due time counts.
func (w *wheel) add(b *bucket, due quota.Time) {
	n := 0
	if wait := due.Sub(w.next); wait > 0 {
		n = min(int((wait+w.step-1)/w.step), len(w.slots)-phases)
	}
	n += (phases - 1 - int(b.rng)%phases - (w.pos+n)%phases + phases) % phases
	at := w.next.Add(time.Duration(n) * w.step)
	if b.due == at {
		return
	}
	b.due = at
	i := (w.pos + n) % len(w.slots)
	w.slots[i] = append(w.slots[i], b)
}

// wake returns the time at which turn has work, or at which the sync interval ends.
func (w *wheel) wake() quota.Time {
	n := 0
	for (w.pos+n)%phases != phases-1 && len(w.slots[(w.pos+n)%len(w.slots)]) == 0 {
		n++
	}
	return w.next.Add(time.Duration(n) * w.step)
}

// turn calls f with every bucket that is due. If no slot of a whole turn had a bucket, the wheel is empty, and turn
// skips the rest of a long pause in whole turns.
func (w *wheel) turn(now quota.Time, f func(*bucket)) {
	empty := 0
	for w.next <= now {
		if empty == len(w.slots) {
			whole := time.Duration(len(w.slots)) * w.step
			w.next = w.next.Add(now.Sub(w.next) / whole * whole)
			empty = 0
			continue
		}
		due, at := w.slots[w.pos], w.next
		if empty++; len(due) > 0 {
			empty = 0
		}
		w.slots[w.pos] = nil
		w.pos = (w.pos + 1) % len(w.slots)
		w.next = w.next.Add(w.step)
		for i, b := range due {
			if i%prefetchBatch == 0 {
				prefetchBuckets(due[i:min(i+prefetchBatch, len(due))])
			}
			if b.due == at {
				b.due = 0
				f(b)
			}
		}
		clear(due) // or dropped keys stay reachable, and with each the table of its time
		if w.slots[(w.pos+len(w.slots)-1)%len(w.slots)] == nil {
			w.slots[(w.pos+len(w.slots)-1)%len(w.slots)] = fitting(due)[:0]
		}
	}
}

func prefetchBuckets(buckets []*bucket) (sum int64) {
	for _, b := range buckets {
		sum += b.prefetch()
	}
	return sum
}
