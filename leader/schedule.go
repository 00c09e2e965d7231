package leader

import (
	"container/heap"
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// The cost of upkeep depends on what is due, not on the number of buckets: no method that is called
// periodically visits all buckets.
//
//   - Sweep visits a bucket when its alarm is due (timers). The alarm is never later than the
//     next moment at which time alone changes something that others can see: see Ledger.nextAlarm.
//     It may be earlier: then the visit sets it again.
//   - Sweep also looks, every two seconds, at the buckets that are in memory as a whole, and
//     packs those that were not used since: see pack.go.
//   - Checkpoint reads the list of buckets that have changed since the last one (Ledger.moved),
//     and TopSince that of buckets with new counts (Ledger.counted).
//   - An event that concerns all buckets at once (the death of a member, changed limits) is a
//     change that each bucket applies, as of its moment, before it is used for anything else: see
//     change.

// never is the alarm of a bucket that only a report or a request can change.
const never = quota.Time(math.MaxInt64)

const (
	// sweepEvery is the shortest time between two visits to a bucket that time has changed.
	sweepEvery = 500 * time.Millisecond
	// maxEarly bounds the buckets that one Sweep visits before their alarm, to make room.
	maxEarly = 4096
)

// wakeBy requests a visit at or before t. noteChanged passes it to the timers.
func (b *bucket) wakeBy(t quota.Time) { b.alarm = min(b.alarm, t) }

// noteChanged lists a changed bucket for all that is due: the next checkpoint, the next list of top keys,
// the next visit. Every method that changes a bucket ends with it.
func (l *Ledger) noteChanged(now quota.Time, b *bucket) {
	if b.dirty && !b.queued {
		if b.tier.Kind == quota.Concurrency { // requests in flight die with their nodes
			b.dirty = false
		} else {
			b.queued = true
			l.moved.push(b)
		}
	}
	if b.counted == nil && b.attempted != b.listed.attempted {
		for range 2 { // more than one is removed for each that is added, so empty places do not pile up
			if l.counted.len() > 0 && l.counted.first() == nil {
				l.counted.pop()
				l.topLeft = max(0, l.topLeft-1)
			}
		}
		b.counted = l.counted.push(b)
	}
	if b.live != nil {
		b.wakeBy(now.Add(sweepEvery))
	}
	l.timers.set(b)
	l.announce(now, b)
}

// nextAlarm is the next moment, at least sweepEvery from now, at which time alone changes something
// that a visit has to handle: measurements of the live error are complete, a promise must be
// renewed, an allocation may be forgotten, or the bucket equals a new one. The bucket has been
// visited.
func (l *Ledger) nextAlarm(now quota.Time, b *bucket) quota.Time {
	at := never
	by := func(t quota.Time) { at = min(at, t) }
	if b.live != nil {
		by(now)
	}
	for _, g := range b.rarely().outlived {
		by(g.until)
	}
	for _, c := range b.rarely().outstanding {
		if c.heard {
			by(c.until + 1)
		}
	}
	closed := true
	for i := range b.allocations {
		al := &b.allocations[i]
		closed = closed && al.closed
		by(al.forgottenAt(b))
		if b.promises() {
			by(al.renewAt(l.cfg.Lease))
		}
	}
	if b.earlier() > 0 {
		by(b.decided.own.until)
	}
	if closed && (b.saved || !b.dirty) {
		m := b.pool
		m.Add(b.outstandingTokens())
		full := now
		if m.Level() < b.limit.BurstUnits() {
			full = now.Add(min(m.ResetAfter(now, &b.tier), maxFull))
		}
		by(max(full, b.lastHeard().Add(linger), b.keep))
	}
	if at == never {
		return at
	}
	return max(at, now.Add(sweepEvery))
}

// renewAt is when the promise to a member with a rate must be renewed; never while one is on its
// way to the log. See bucket.late.
func (al *allocation) renewAt(lease time.Duration) quota.Time {
	if al.charged == 0 || al.dead || len(al.log().pending) > 0 {
		return never
	}
	return al.log().promised.until.Add(-lease - promiseTime/4)
}

// promiseEndsSoon reports whether the promise to a member with a rate ends so soon that it must be renewed.
func (b *bucket) promiseEndsSoon(now quota.Time, lease time.Duration) bool {
	if b.promises() {
		for i := range b.allocations {
			if b.allocations[i].renewAt(lease) < now {
				return true
			}
		}
	}
	return false
}

// Sweep handles what is due by time alone: it ends learning, drops allocations that have been
// silent for a minute, and drops buckets that are full and of which no member holds anything: a new
// bucket would be the same. Call it about once a second.
func (l *Ledger) Sweep(now quota.Time) {
	for l.SweepSome(now, math.MaxInt) {
	}
}

// SweepSome is Sweep in steps of at most this many buckets. Call it again, without delay, as long
// as it returns true.
func (l *Ledger) SweepSome(now quota.Time, most int) (more bool) {
	l.settleLearning(now)
	l.endSuspects(now)
	l.forgetRequesters(now)
	most = l.packUnused(now, l.catchUpChanges(most))
	for ; most > 0 && l.timers.due(now); most-- {
		l.visit(now, l.timers.pop())
	}
	most = l.makeRoom(now, most)
	l.dropLines(now)
	for ; most > 0 && len(l.expiry) > 0 && l.expiry[0].FullAt <= now; most-- {
		kl := heap.Pop(&l.expiry).(*savedLevel)
		if l.saved[kl.Key] == kl {
			delete(l.saved, kl.Key)
		}
	}
	l.pushAnnounced(now)
	return len(l.changes) > 0 || l.toWatch > 0 || l.timers.due(now) || len(l.expiry) > 0 && l.expiry[0].FullAt <= now
}

// visit handles what is due by time alone in one bucket, and sets its next alarm.
func (l *Ledger) visit(now quota.Time, b *bucket) {
	l.visits++
	wasPacked := b.isPacked()
	if b = l.current(b); b == nil {
		return
	}
	defer l.repackBucket(b, wasPacked)
	b.advance(now)
	l.liveSweep(now, b)
	b.forget(now, l.nodes)
	b.forgetOutstanding(now)
	b.dirty = b.dirty || b.promiseEndsSoon(now, l.cfg.Lease)
	lingers := now.Sub(b.lastHeard()) < linger && l.buckets.size < l.cfg.MaxKeys/2
	if b.idle() && !lingers && now >= b.keep && (!b.dirty || b.saved) {
		l.drop(b)
		return
	}
	b.alarm = l.nextAlarm(now, b)
	l.noteChanged(now, b)
}

// makeRoom visits buckets before their alarm if more than half of MaxKeys is used: those that are
// kept only for display are dropped.
func (l *Ledger) makeRoom(now quota.Time, most int) int {
	var early []*bucket
	for l.buckets.size >= l.cfg.MaxKeys/2 && most > 0 && len(early) < maxEarly && l.timers.due(now.Add(linger)) {
		early = append(early, l.timers.pop())
		most--
	}
	for _, b := range early {
		l.visit(now, b)
	}
	return most
}

// change is an event that concerns every bucket. It costs nothing when it happens: a bucket applies
// it, as of the moment of the change, before its next use, and Sweep applies it to unused buckets.
// The bucket does not change in between, so the result is the same as if all buckets had applied it
// at once.
type change struct {
	at     quota.Time
	limits *quota.Limits // nil for a change of a member

	overridden bool // overrides of any keys have changed too; else a bucket keeps its own, even if a newer one exists

	node   quota.NodeID
	heard  bool // the member's outstanding grants are settled; known is its state at that moment
	known  member
	gone   bool // its processes with an incarnation below before have ended
	before quota.Incarnation
	died   quota.Time
	soft   bool // only for buckets that keep nothing charged to it until its lease is over
}

// addChange adds a change for all buckets.
func (l *Ledger) addChange(c *change) {
	if l.buckets.size == 0 {
		return
	}
	l.changes = append(l.changes, *c)
}

// happened is the number of changes so far.
func (l *Ledger) happened() uint64 { return l.trimmed + uint64(len(l.changes)) }

// current unpacks a packed bucket, and applies to it the changes that it has not applied
// yet. It returns nil if one of them dropped the bucket.
func (l *Ledger) current(b *bucket) *bucket {
	if b.used = true; b.isPacked() {
		l.unpackBucket(b)
	}
	if b.seen == l.happened() {
		return b
	}
	for b.seen < l.happened() {
		c := l.changes[b.seen-l.trimmed]
		b.seen++
		l.visits++
		if c.apply(l, b); b.dropped {
			return nil
		}
		b.wakeBy(c.at)
		l.noteChanged(c.at, b)
	}
	return b
}

// apply applies the change to one bucket, which is unpacked.
func (c *change) apply(l *Ledger, b *bucket) {
	switch {
	case c.limits != nil:
		limit, o := l.limitIn(c.limits, b.key())
		if base, ok := c.limits.Find(b.of); ok && !c.overridden {
			limit, o = b.override.Apply(base), b.override
		}
		l.relimit(c.at, b, limit, o)
		return
	case c.heard && b.hasOutstanding():
		b.advance(c.at)
		b.settleOutstanding(c.at, c.node, &c.known)
	}
	if !c.gone || c.soft && (b.limit.Ceiling == quota.Hard || b.endures()) {
		return
	}
	b.advance(c.at)
	for i := len(b.allocations) - 1; i >= 0; i-- {
		if al := &b.allocations[i]; al.node == c.node && al.inc < c.before {
			b.retire(c.at, c.died, i)
		}
	}
}

// catchUpChanges applies changes to buckets that have not been used since, in the order of their
// numbers, and drops changes that all have applied. It looks at no more than most buckets, and
// returns most less the number of buckets that it has looked at.
func (l *Ledger) catchUpChanges(most int) int {
	for ; len(l.changes) > 0 && most > 0; l.cursor, most = l.cursor+1, most-1 {
		if l.cursor >= l.refs.buckets.len() { // a round ends: all buckets have applied the changes up to until
			n := l.until - l.trimmed
			l.changes, l.trimmed = append([]change(nil), l.changes[n:]...), l.until
			l.cursor, l.until = -1, l.happened()
			continue
		}
		if b := *l.refs.buckets.at(l.cursor); b != nil && b.seen < l.happened() {
			wasPacked := b.isPacked()
			l.current(b)
			l.repackBucket(b, wasPacked)
		}
	}
	return most
}

// timers is a heap of buckets by the time of their alarm. bucket.timer is the index in it, from 1.
type timers []alarm

type alarm struct {
	at     quota.Time
	bucket *bucket
}

// set moves the alarm of a bucket to b.alarm, if that is earlier. Only pop and remove end an alarm.
func (t *timers) set(b *bucket) {
	switch {
	case b.timer > 0 && (*t)[b.timer-1].at <= b.alarm || b.alarm == never:
		return
	case b.timer == 0:
		heap.Push(t, b)
	default:
		(*t)[b.timer-1].at = b.alarm
		heap.Fix(t, int(b.timer-1))
	}
}

func (t timers) due(now quota.Time) bool { return len(t) > 0 && t[0].at <= now }

// pop removes the earliest alarm, and returns its bucket.
func (t *timers) pop() *bucket { return heap.Pop(t).(*bucket) }

// remove removes the alarm of a bucket, if it has one.
func (t *timers) remove(b *bucket) {
	if b.timer > 0 {
		heap.Remove(t, int(b.timer-1))
	}
}

// The methods of heap.Interface. Push and Pop take and return buckets: an alarm would be copied to the heap of the process.

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at < t[j].at }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].bucket.timer, t[j].bucket.timer = uint32(i+1), uint32(j+1)
}

func (t *timers) Push(x any) {
	b := x.(*bucket)
	*t = append(*t, alarm{b.alarm, b})
	b.timer = uint32(len(*t))
}

func (t *timers) Pop() any {
	b := popLast((*[]alarm)(t)).bucket
	b.timer, b.alarm = 0, never
	return b
}

// popLast removes the last element of a list, and returns it.
func popLast[T any](list *[]T) T {
	var none T
	last := len(*list) - 1
	x := (*list)[last]
	(*list)[last], *list = none, (*list)[:last]
	return x
}

// expiry is a heap of saved levels by the time at which the log may forget them.
type expiry []*savedLevel

func (e expiry) Len() int           { return len(e) }
func (e expiry) Less(i, j int) bool { return e[i].FullAt < e[j].FullAt }
func (e expiry) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiry) Push(x any)        { *e = append(*e, x.(*savedLevel)) }
func (e *expiry) Pop() any          { return popLast((*[]*savedLevel)(e)) }

// bucketQueue is a list of buckets, oldest first, in blocks. No operation takes time in proportion
// to its length, and the place of a bucket does not move. A place may be set to nil.
type bucketQueue struct {
	blocks [][]*bucket
	from   int // index in the first block
	n      int
}

const queueBlock = 128

func (q *bucketQueue) len() int { return q.n }

func (q *bucketQueue) first() *bucket { return *q.at(0) }

// at returns the place of the ith bucket, from 0. It panics if there are not as many.
func (q *bucketQueue) at(i int) **bucket {
	i += q.from
	return &q.blocks[i/queueBlock][i%queueBlock]
}

// push adds a bucket, and returns its place.
func (q *bucketQueue) push(b *bucket) **bucket {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last]) == queueBlock {
		q.blocks = append(q.blocks, make([]*bucket, 0, queueBlock))
		last++
	}
	q.blocks[last] = append(q.blocks[last], b)
	q.n++
	return &q.blocks[last][len(q.blocks[last])-1]
}

func (q *bucketQueue) pop() *bucket {
	b := q.blocks[0][q.from]
	q.blocks[0][q.from] = nil
	q.n--
	if q.from++; q.from == len(q.blocks[0]) {
		q.blocks[0] = nil
		q.blocks, q.from = q.blocks[1:], 0
	}
	return b
}
