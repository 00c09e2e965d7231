package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// bucket is the book of one key, in groups. The package documentation lists fields and bytes of each.
//
// Invariant after advance: pool + sum(allocation.standing()) <= burst; with
// Concurrency, less what is in flight; under soft, less what is unseen.
type bucket struct {
	key         quota.Key
	limit       *quota.Limit
	tier        quota.Tier    // the limit's only one
	gains       quota.Units   // per second, of a bucket
	pool        limiter.Meter // free tokens; below 0 is debt
	allocations []allocation
	outlived    []outlived // Concurrency under hard: what dead members had in flight

	bookState
	askedState
	overflowState
	promiseState
	errorState
	divisionState
	logState
	visitState
}

// bookState identifies the bucket, and counts since it was opened.
type bookState struct {
	attempted, admitted quota.Units
	listed              listing // of them; see TopSince
	lastUse             quota.Time
	ref                 uint32     // its number in the ledger; used again when the bucket is gone
	incarnation         uint64     // distinguishes it from an earlier bucket of the key
	fresh               quota.Time // bookings until then do not come back
	keep                quota.Time // do not forget before
	dropped             bool       // it is in no table of the ledger any more
	forced              bool       // charged beyond what there was; it may be below 0 for that
}

// askedState records the decide requests that the leader answered.
type askedState struct {
	asked asked
	rooms rooms // only if members ask
	own   answers
}

// overflowState records tokens that no longer come back: of an ended window, or beyond the burst.
type overflowState struct {
	ended      quota.Time  // the end of the window before, which no sliding one has
	left       quota.Units // what the last window left
	overflowed quota.Units // soft buckets: what has overflowed, until overflowAt
	overflowAt quota.Time
}

// promiseState records what nodes may spend before they have reported to this leader.
type promiseState struct {
	implicit    quota.Units   // promised to every node, whatever the log says
	outstanding []outstanding // of nodes that have not spoken to this leader
}

// errorState measures over-admission and needless refusals.
type errorState struct {
	sums           *quota.LiveError // of the limit
	env            envelope
	live           *liveKey    // nil while there is nothing to measure
	forgiven       quota.Units // of admitted; see amend
	over, needless quota.Units // over-admitted, and needlessly refused at least
	needlessAtMost quota.Units
}

// divisionState carries the division among members from one report to the next.
type divisionState struct {
	batchSizes dispersion
	shared     quota.Time // when the dues of the members were last booked
	most       float64    // the most that anyone's part of the rate is, at the last division
	central    bool       // too few tokens for the members that want them: nothing is handed out; see scarce
}

// logState records which level the log holds, and whether the next checkpoint writes a new one.
type logState struct {
	logged      loggedLevel
	behindSince quota.Time
	dirty       bool // the level moved since the last checkpoint
	saved       bool // the range's log holds a level of this bucket
	wanted      bool // it is in Ledger.wanted
	queued      bool // it is in Ledger.moved
	behind      bool // it is in Ledger.behind
	overdue     bool // the next checkpoint writes it, however little it has moved
}

// visitState schedules the visits of the bucket: see schedule.go.
type visitState struct {
	alarm   quota.Time // visit it by then
	seen    uint64     // changes applied
	timer   uint32     // its place in Ledger.timers, from 1, or 0
	counted **bucket   // its place in Ledger.counted; nil if it is not in it
}

func newBucket(k quota.Key, limit *quota.Limit, pool limiter.Meter) *bucket {
	return &bucket{
		key: k, limit: limit, tier: limit.First(), gains: limit.Rate.PerSecond(), pool: pool,
		logState: logState{saved: pool.Level() < limit.BurstUnits()}, visitState: visitState{alarm: never},
	}
}

// advance brings the bucket to now: the pool refills, less what the members'
// rates yield, and everything together stays within the burst. It returns what
// stands with members then.
func (b *bucket) advance(now quota.Time) quota.Units {
	if b.tier.Kind == quota.Concurrency {
		b.recount(now)
		return b.standing()
	}
	b.roll(now)
	stands := b.outstandingTokens()
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.carried && (al.dead || now >= al.lease.Add(leaseSlack)) {
			b.pool.Add(al.out)
			al.void()
		}
		b.pool.Add(-al.accrue(now))
		stands = stands.Plus(al.standing())
	}
	b.fill(now, stands)
	return stands
}

// fill advances the pool, beside what stands with members.
func (b *bucket) fill(now quota.Time, stands quota.Units) {
	// The meter sees what is free and what stands with members as one level, so
	// that only what is left after the rates overflows, and so that a sliding
	// window does not take what stands for used.
	handed := stands.Plus(b.own.earlier)
	if b.tier.Kind == quota.TokenBucket {
		handed -= b.unseen(now, nil, b.levelWith(stands)) // used, probably: it does not overflow
	}
	b.pool.Add(handed)
	full, before := b.limit.BurstUnits(), b.pool.Level()
	was, _ := b.pool.Bounds()
	b.pool.Advance(now, &b.tier)
	b.slid(was)
	b.noteOverflow(now, before)
	if b.isAsked() {
		b.rooms.note(now, max(0, full-b.pool.Level()-max(0, b.returns()-stands)))
	}
	b.pool.Add(-handed)
	switch {
	case b.tier.Kind != quota.TokenBucket || b.limit.Ceiling == quota.Hard:
		b.overflow(full)
	case b.pool.Level().Plus(handed) >= full:
		b.overflow(0)
	}
	b.endAnswers(now)
}

// advanceOne is advance where since the last one, at the same moment, nothing stands
// elsewhere but with h. It returns what stands with the others.
func (b *bucket) advanceOne(now quota.Time, al *allocation, others quota.Units) quota.Units {
	b.pool.Add(-al.accrue(now))
	b.fill(now, others.Plus(al.standing()))
	return others
}

// roll voids what members hold when the window has ended that it was for. A
// sliding window has no such end.
func (b *bucket) roll(now quota.Time) {
	if !b.tier.Kind.Windowed() || b.tier.Kind == quota.SlidingWindow {
		return
	}
	_, end := b.pool.Bounds()
	if now < end {
		return
	}
	b.ended = end
	b.liveRoll()
	for i := range b.allocations {
		// An earlier leader that slept through its end grants by the same promise in each window, to members
		// that have not heard of this term.
		if al := &b.allocations[i]; al.restored && !al.dead && now < al.lease.Add(leaseSlack) && al.out > 0 {
			al.carried = true
			continue
		}
		b.allocations[i].void()
	}
	// What a dead process has counted belongs to no window that continues. One that was only silent repeats it
	// when it speaks again, so it is remembered as long as others that are silent.
	b.allocations = slices.DeleteFunc(b.allocations, func(al allocation) bool { return al.dead && now.Sub(al.log().diedAt) > remember })
}

// rates reports whether members may be given a refill rate. Windows are divided
// by tokens alone, since a rate would outlast them; and what refills while
// callers wait is theirs.
func (b *bucket) rates() bool {
	return b.tier.Kind == quota.TokenBucket && !b.limit.AsksLeader()
}

// relimit switches to a changed limit. What was used stays used.
func (b *bucket) relimit(now quota.Time, limit *quota.Limit) {
	b.advance(now)
	next := limit.First()
	if next != b.tier {
		b.fresh, b.rooms = now, nil
		b.shrink(now, limit)
		standing := b.standing()
		b.pool.Add(standing)
		b.pool.Retier(now, &b.tier, &next)
		b.pool.Add(-standing)
		b.env.advance(now, b.limit, &b.tier)
		b.env.Retier(now, &b.tier, &next)
	}
	b.limit, b.tier, b.gains, b.dirty, b.overdue = limit, next, limit.Rate.PerSecond(), true, true
	b.advance(now)
}

// shrink remembers the bucket until it would be full under the larger burst
// that is being replaced: if that comes back, it must not find a new key.
func (b *bucket) shrink(now quota.Time, next *quota.Limit) {
	if next.Burst < b.limit.Burst {
		b.keep = max(b.keep, now.Add(min(b.resetAfter(now), maxKeep)))
	}
}

// maxKeep bounds how long a shrunken bucket is remembered.
const maxKeep = 24 * time.Hour

// idle reports whether the bucket equals a new one.
func (b *bucket) idle() bool {
	for i := range b.allocations {
		al := &b.allocations[i]
		if !al.dead && (al.out != 0 || al.charged != 0) || !al.closed {
			return false
		}
		if b.endures() && (len(al.log().pending) > 0 || !al.dead && al.saved < al.used.Plus(al.over)) {
			return false
		}
	}
	return b.pool.Level().Plus(b.outstandingTokens()) >= b.limit.BurstUnits() && len(b.outlived) == 0
}

// allocationAt is allocation, where the record is likely to be at a place.
func (b *bucket) allocationAt(now quota.Time, place int, r *quota.Report, e *quota.ReportEntry) *allocation {
	if place < len(b.allocations) && b.allocations[place].sameOpening(r, e) {
		return &b.allocations[place]
	}
	return b.allocation(now, r.From, r.Incarnation)
}

// allocation returns the record of a member, dropping that of an earlier life: what
// a dead process held counts as spent.
func (b *bucket) allocation(now quota.Time, id quota.NodeID, inc quota.Incarnation) *allocation {
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.node != id || al.dead {
			continue
		}
		if al.inc == inc {
			return al
		}
		if b.retire(now, now, i); !al.dead { // no report of it counts any more
			b.remove(al)
		}
		return nil
	}
	return nil
}

// addAllocation adds a record; others that were pointed to may have moved. There are few,
// and each is large, so no room is kept for many more.
func (b *bucket) addAllocation(al allocation) *allocation {
	if n := len(b.allocations); n == cap(b.allocations) {
		more := make([]allocation, n, n+1+n/8)
		copy(more, b.allocations)
		b.allocations = more
	}
	b.allocations = append(b.allocations, al)
	return &b.allocations[len(b.allocations)-1]
}

// remove drops an allocation. Its out leaves the books: it counts as spent.
func (b *bucket) remove(al *allocation) {
	last := len(b.allocations) - 1
	*al = b.allocations[last]
	b.allocations[last] = allocation{}
	b.allocations = b.allocations[:last]
}

// admit makes a record for a member whose epoch of the key is not known: a new
// opening, or (e.Learn) an old one that an earlier leader knew.
func (b *bucket) admit(now quota.Time, r *quota.Report, e *quota.ReportEntry) *allocation {
	al := b.allocation(now, r.From, r.Incarnation)
	if al == nil {
		al = b.addAllocation(allocation{openState: openState{node: r.From, inc: r.Incarnation}})
	}
	b.wakeBy(now.Add(max(remember, b.inFlightLease())))
	al.begin(now, e)
	al.overflowed = b.overflowed
	if b.endures() {
		al.know(e)
	}
	if b.promises() {
		al.log().promised = b.implicitPromise(now, al)
	}
	return al
}

// learn takes over what an earlier leader had granted: the member keeps it, so
// it leaves the pool, and the level is no higher than the one that the member
// received, less what other members report to have used since. A level from a
// window that has ended says nothing about this one.
//
// What endures is in the log with all that members may have out, so only what they report is settled.
func (b *bucket) learn(now quota.Time, al *allocation, e *quota.ReportEntry) {
	if b.past(e) || b.tier.Kind == quota.Concurrency {
		return
	}
	if b.tier.Kind == quota.PeriodicRefill && e.Window != 0 && b.admitted == 0 { // its window continues
		b.pool = limiter.RestoreMeter(&b.tier, b.pool.Level(), now, e.Window, 0, now)
	}
	if b.endures() {
		al.resume(now, e)
	}
	if e.Learn.HasLevel && (!b.endures() || b.limit.AsksLeader()) {
		told := e.Learn.Level.Plus(b.refill(e.Learn.Age)).Plus(b.forgiven - b.admitted)
		if level := b.level(); level > told {
			b.pool.Add(told.Plus(-level))
		}
		b.env.learned(now, told)
		b.dirty = true
	}
	if !b.endures() {
		al.inherit(now, e)
	}
}

// past reports whether what the entry says was used belongs to a window that
// has ended. What was used in a sliding one still counts.
func (b *bucket) past(e *quota.ReportEntry) bool {
	return b.tier.Kind != quota.SlidingWindow && b.windowOver(e)
}

// windowOver reports whether the window that the entry is about has ended: what was given back in it
// raises no level any more.
func (b *bucket) windowOver(e *quota.ReportEntry) bool {
	if !b.tier.Kind.Windowed() || e.Window == 0 {
		return false
	}
	start, _ := b.pool.Bounds()
	if b.tier.Kind == quota.PeriodicRefill { // it begins again, unnoticed, as long as nothing is used
		return e.Window.Add(b.tier.Rate.Per) <= start
	}
	return e.Window < start
}

// before is what the entry says was spent before its window, as far as that is not of a window
// that continues here. A member may end a window before this leader does: one whose clock is
// ahead of this leader's, or one that has not heard that a periodic window began again. Of the
// windows that it received after the last one ended here, none ends within a period from then.
func (b *bucket) before(e *quota.ReportEntry) quota.Units {
	switch start, _ := b.pool.Bounds(); {
	case e.Window <= start || b.tier.Kind == quota.SlidingWindow:
	case b.tier.Kind == quota.PeriodicRefill && (b.limit.Ceiling == quota.Soft || e.Window < b.ended.Add(b.tier.Rate.Per)):
	default:
		return 0
	}
	return e.Before
}

// refill is what the level gained in d at most.
func (b *bucket) refill(d time.Duration) quota.Units {
	switch b.tier.Kind {
	case quota.TokenBucket:
		return refill(b.limit.Rate, d)
	case quota.SlidingWindow:
		return perSecondCeil(b.perSecond(), min(d, b.tier.Rate.Per))
	}
	return 0
}

// book charges what a report said. What was not used goes back to the pool.
func (b *bucket) book(al *allocation, d delta) {
	b.takeBack(al, max(0, d.used+d.over-d.refunded))
	if al.pardon {
		d.late, al.pardon = d.used+d.over, false
	}
	if b.tier.Kind != quota.Concurrency {
		b.pool.Add(d.back.Plus(-d.over).Plus(d.late).Plus(d.refunded))
	}
	b.attempted = b.attempted.Plus(d.attempted())
	b.admitted = b.admitted.Plus(d.used + d.over)
	if d.used+d.over > 0 || d.refunded > 0 {
		b.dirty = true
	}
}

// close answers a member that lets go of the key. The record stays for a while
// without tokens, so that a repeated final report is not counted again. Where
// counts endure the member may not forget them before the log has them, and
// promises it nothing beyond them: if both die, its journal has to tell that what
// was promised was not used.
func (b *bucket) close(now quota.Time, al *allocation, e *quota.ReportEntry, ack quota.Seq, g *quota.GrantEntry) {
	b.pool.Add(min(al.out, al.ret))
	b.dirty = b.dirty || b.promises() && (al.log().promised.high > al.log().promised.total || !al.closed)
	al.void()
	al.demand, al.closed = 0, true // what is in flight stays so until a later opening says more
	b.wakeBy(now.Add(linger))
	al.unplan()
	b.advance(now)
	*g = quota.GrantEntry{Key: b.key, Epoch: e.Epoch, Ack: ack, Level: b.levelFor(al, b.level()), Others: b.others(al), Closed: true, Saved: min(al.saved, quota.Most)}
	if b.endures() && (al.saved < e.Used.Plus(e.Overdrawn) || al.expects()) {
		al.grants++
		g.Closed, g.Seq, g.Again = false, al.grants, unsavedAgain
	}
	b.window(g)
}

// unsavedAgain is when to ask again whether the log has it.
const unsavedAgain = 500 * time.Millisecond

// refill is what the rate yields in d, however full the bucket is.
func refill(r quota.Rate, d time.Duration) quota.Units {
	if r.Per <= 0 {
		return 0
	}
	return min(quota.Most, quota.Units(quota.MulDiv(int64(quota.FromTokens(r.Tokens)), int64(max(0, d)), int64(r.Per))))
}
