package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// bucket is one key: what its place in the ledger's tables needs, and the state. Use the state only
// of a bucket that Ledger.current has returned: another may be packed, see pack.go.
type bucket struct {
	*rule
	name   string // the key, without its limit
	packed []byte // the state, while it is packed

	visitState
	*state // nil while it is packed
}

// key returns the key.
func (b *bucket) key() quota.Key { return quota.Key{LimitName: b.of, Key: b.name} }

// rule is a limit with what follows from it. The buckets that it applies to share it.
type rule struct {
	of       quota.LimitName // the counter that the keys name
	limit    *quota.Limit
	override *quota.Override  // contained in limit; nil for none
	tier     quota.Tier       // the limit's only one
	gains    quota.Units      // Units per second; used by token buckets
	sums     *quota.LiveError // of the counter
	sync     time.Duration    // Config.Sync
	buckets  int              // see Ledger.ruleOf
}

func newRule(n quota.LimitName, limit *quota.Limit, sync time.Duration) *rule {
	return &rule{of: n, limit: limit, sync: sync, tier: limit.First(), gains: limit.Rate.PerSecond()}
}

// ruleOf returns a rule for one more bucket of a counter. Buckets of keys with overrides share none.
func (l *Ledger) ruleOf(n quota.LimitName, limit *quota.Limit, o *quota.Override) *rule {
	r := l.rules[n]
	if r == nil || r.override != o || r.limit != limit && !(n.IsInline() && limit.Equal(r.limit)) {
		r = newRule(n, limit, l.cfg.Sync)
		r.sums, r.override = l.liveOf(n), o
		if now, _ := l.limits.Find(n); now == limit || l.rules[n] == nil {
			l.rules[n] = r
		}
	}
	r.buckets++
	return r
}

// releaseRule is called when a bucket does not have the rule any more.
func (l *Ledger) releaseRule(r *rule) {
	if r.buckets--; r.buckets == 0 && l.rules[r.of] == r {
		delete(l.rules, r.of)
	}
}

// state is the state of one key, in groups. The package documentation lists the fields and bytes
// of each group.
//
// Invariant after advance: pool + sum(allocation.standing()) <= burst. For Concurrency the right
// side is reduced by what is in flight; under soft the left side is reduced by unseen.
type state struct {
	pool        limiter.Meter // free tokens; debt below 0
	allocations []allocation
	rooms       rooms         // recorded only while recordsRooms
	decided     *decidedState // nil while it would be zero
	unusual     *unusualState // nil while it would be zero

	bookState
	overflowState
	errorState
	divisionState
	logState
	announceState
}

// bookState identifies the bucket and counts its use since it was opened.
type bookState struct {
	attempted, admitted quota.Units
	listed              listing // counts that TopSince has returned
	lastUse             quota.Time
	ref                 uint32      // index in refs, from 1; reused after the bucket is dropped
	incarnation         uint64      // distinguishes it from an earlier bucket of the key
	fresh               quota.Time  // bookings up to this time are not reversed
	keep                quota.Time  // earliest time at which the bucket may be dropped
	implicit            quota.Units // each node's implicit grant
	mayOwe              bool        // the level may be below 0: of a forced charge, or of a cut window
}

// decidedState records the decide requests that the leader answered.
type decidedState struct {
	asked    asked
	own      answers
	reversed quota.Time // when the level last rose because a decide request was reversed
}

// editDecided returns the decided state, to be changed.
func (b *bucket) editDecided() *decidedState {
	if b.decided == nil {
		b.decided = &decidedState{}
	}
	return b.decided
}

// unusualState holds what is 0 for most buckets.
type unusualState struct {
	outlived    []deadInFlight // Concurrency under hard: in flight at members that died
	outstanding []outstanding  // implicit grants of earlier leaders

	forgiven       quota.Units // part of admitted that amend forgave
	over, needless quota.Units // over-admitted; needlessly refused, lower bound
	needlessAtMost quota.Units
}

// nothingUnusual is zero and never written: buckets without any of the unusual fields read it.
var nothingUnusual unusualState

// rarely returns the unusual state, to be read.
func (b *bucket) rarely() *unusualState {
	if b.unusual == nil {
		return &nothingUnusual
	}
	return b.unusual
}

// editUnusual returns the unusual state, to be changed.
func (b *bucket) editUnusual() *unusualState {
	if b.unusual == nil {
		b.unusual = &unusualState{}
	}
	return b.unusual
}

// overflowState records tokens that do not return: of an ended window, or beyond the burst.
type overflowState struct {
	ended      quota.Time  // end of the previous window; unused by sliding windows
	left       quota.Units // level at the end of the last window
	overflowed quota.Units // soft token buckets: sum of overflows up to overflowAt
	overflowAt quota.Time
}

// errorState measures over-admission and needless refusals.
type errorState struct {
	env  envelope
	live *liveKey // nil while nothing is measured
}

// divisionState carries the division among members from one report to the next.
type divisionState struct {
	batchSizes dispersion
	shared     quota.Time // when deficits were last updated
	waterLevel float64    // water level of the last division, Units per second; +Inf if all demand is covered
	central    bool       // too few tokens for the members: none are granted, the leader decides; see scarce
}

// logState records which level the log holds, and whether the next checkpoint writes a new one.
type logState struct {
	logged      loggedLevel
	behindSince quota.Time
	dirty       bool // the level changed since the last checkpoint
	saved       bool // the range's log holds a level of this bucket
	wanted      bool // it is in Ledger.wanted
	queued      bool // it is in Ledger.moved
	behind      bool // it is in Ledger.behind
	overdue     bool // the next checkpoint writes it, however small the change
}

// visitState schedules visits of the bucket: see schedule.go.
type visitState struct {
	alarm   quota.Time // latest time of the next visit
	seen    uint64     // number of changes applied
	counted **bucket   // place in Ledger.counted; nil if it is not there
	timer   uint32     // index in Ledger.timers, from 1; 0 if it is not there
	dropped bool       // removed from all tables of the ledger
	watched bool       // it is in Ledger.watched
	used    bool       // since Ledger.packUnused looked at it
}

// newBucket returns the bucket of a key: full, unless the range's log states less.
func newBucket(now quota.Time, key string, r *rule, kl savedLevel, saved bool) *bucket {
	tier := r.tier
	b := &bucket{rule: r, name: key, visitState: visitState{alarm: never}, state: &state{}}
	if !saved || tier.Kind == quota.Concurrency {
		b.pool = limiter.NewMeter(&tier, now)
		return b
	}
	was := &tier
	switch {
	case kl.tier != nil:
		was = kl.tier
	case kl.Full > 0:
		before := kl.tierOf(tier)
		was = &before
	}
	b.pool = limiter.RestoreMeter(was, kl.Level, kl.At, kl.WindowStart, kl.Slope, now)
	b.retier(now, was, &tier)
	if was.Rate.Per != tier.Rate.Per && was.Kind.Windowed() && tier.Kind.Windowed() {
		b.relengthen(now, kl, was)
	}
	b.saved = b.pool.Level() < r.limit.BurstUnits()
	return b
}

// relengthen takes the level and the window that a new bucket would have if the length of its windows had changed at
// the earliest time that matters now: when its line was written, or when the present window began.
func (b *bucket) relengthen(now quota.Time, kl savedLevel, was *quota.Tier) {
	at := kl.At
	if b.tier.Kind != quota.PeriodicRefill {
		start, _ := limiter.Window(&b.tier, now)
		at = max(at, start)
	}
	m := limiter.RestoreMeter(was, kl.Level, kl.At, kl.WindowStart, kl.Slope, at)
	m.Retier(at, was, &b.tier)
	_, end := m.Bounds()
	if m.Advance(now, &b.tier); now < end && m.Level() <= b.pool.Level() {
		b.pool, b.mayOwe = m, true
	}
}

// tierOf returns the tier by which the level was counted, as far as it differs from the present one in size. The time of
// the change is unknown, so a bucket gains by the lower of the two rates since then.
func (kl *savedLevel) tierOf(tier quota.Tier) quota.Tier {
	tier.Burst = kl.Full.Tokens()
	switch {
	case tier.Kind == quota.TokenBucket && kl.WindowStart == 0 && kl.Slope > 0 && kl.Slope < tier.Rate.PerSecond():
		tier.Rate = quota.Rate{Tokens: int64(kl.Slope), Per: time.Second * time.Duration(quota.Token)}
	case tier.Kind.Windowed():
		tier.Rate.Tokens = tier.Burst
		if kl.Period > 0 && tier.Kind != quota.CalendarWindow {
			tier.Rate.Per = kl.Period
		}
	}
	return tier
}

// advance moves the bucket to now: the pool refills, less the yield of the members' rates, and the
// total stays within the burst. It returns the tokens outstanding at members: the sum of standing
// and of outstanding grants.
func (b *bucket) advance(now quota.Time) quota.Units {
	if b.tier.Kind == quota.Concurrency {
		b.recount(now)
		return b.standing()
	}
	b.roll(now)
	standing := b.outstandingTokens()
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.carriedOver && (al.dead || now >= al.lease.Add(leaseSlack)) {
			b.pool.Add(al.out - al.answered())
			al.void()
		}
		b.pool.Add(-al.accrue(now))
		standing = standing.Plus(al.standing())
	}
	b.refillPool(now, standing)
	return standing
}

// refillPool refills the pool. standing are the tokens outstanding at members.
func (b *bucket) refillPool(now quota.Time, standing quota.Units) {
	// The meter advances free and outstanding tokens as one level. So only the refill that the
	// rates leave over overflows, and a sliding window does not take outstanding tokens for used.
	withheld := standing.Plus(b.earlier())
	if b.tier.Kind == quota.TokenBucket {
		withheld -= b.unseen(now, nil, b.levelWith(standing)) // probably used, so it does not overflow
	}
	b.pool.Add(withheld)
	full, before := b.limit.BurstUnits(), b.pool.Level()
	was, _ := b.pool.Bounds()
	b.pool.Advance(now, &b.tier)
	b.dropReturns(was)
	b.noteOverflow(now, before)
	if b.recordsRooms() {
		b.rooms.note(now, max(0, full-b.pool.Level()-max(0, b.returnableTokens()-b.answered()-standing)))
	}
	b.pool.Add(-withheld)
	switch {
	case b.tier.Kind != quota.TokenBucket || b.limit.Ceiling == quota.Hard:
		b.overflow(full)
	case b.pool.Level().Plus(withheld) >= full:
		b.overflow(0)
	}
	b.endAnswers(now)
}

// advanceOne is advance at the same moment as the last advance, after which nothing but the
// standing of al has changed. others are the tokens outstanding elsewhere; it returns them.
func (b *bucket) advanceOne(now quota.Time, al *allocation, others quota.Units) quota.Units {
	b.pool.Add(-al.accrue(now))
	b.refillPool(now, others.Plus(al.standing()))
	return others
}

// roll starts the next window if the current one has ended: the tokens that members hold become
// void. Sliding windows have no such end.
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
		b.allocations[i].endAnswered()
		// An earlier leader that paused across the end of the window grants by the same promise in
		// each window, to members that have not learned of this term. So these tokens stay out: all
		// that the log promised, also if the limit was cut to less since.
		if al := &b.allocations[i]; al.restored && !al.dead && now < al.lease.Add(leaseSlack) && al.out > 0 {
			al.carriedOver, al.capped = true, max(al.capped, al.out)
			continue
		}
		b.allocations[i].void()
	}
	// The counts of a dead process belong to no current window. A process that was only silent
	// repeats them when it reports again, so the allocation is kept as long as those of silent
	// members.
	b.allocations = slices.DeleteFunc(b.allocations, func(al allocation) bool { return al.dead && now.Sub(al.log().diedAt) > rememberSilent })
}

// mayHaveRates reports whether members may get a refill rate. Windows are divided by tokens only, since a
// rate would outlast them. Where the leader decides, the refill belongs to the waiting callers.
func (b *bucket) mayHaveRates() bool {
	return b.tier.Kind == quota.TokenBucket && !b.limit.AsksLeader()
}

// relimit switches to a changed limit. Used tokens stay used.
func (b *bucket) relimit(now quota.Time, r *rule) {
	b.advance(now)
	limit, next := r.limit, r.tier
	if next != b.tier {
		b.shrink(now, limit)
		standing := b.standing()
		b.pool.Add(standing)
		b.retier(now, &b.tier, &next)
		b.pool.Add(-standing)
		b.env.advance(now, b.limit, &b.tier)
		b.env.Retier(now, &b.tier, &next)
	}
	b.rule, b.dirty, b.overdue = r, true, true
	b.advance(now)
}

// retier changes the tier of the pool. A window whose count is cut below its use has a level below 0.
func (b *bucket) retier(now quota.Time, was, next *quota.Tier) {
	if *was == *next {
		return
	}
	if !resizesWindow(was, next) {
		b.fresh, b.rooms = now, nil
	}
	before := b.pool.Level()
	b.pool.Retier(now, was, next)
	b.mayOwe = b.mayOwe || next.Kind.Windowed() && b.pool.Level() < before
}

// resizesWindow reports whether a change keeps the window and all use in it, so that a booking before the
// change can still be reversed. What a sliding window returns depends on its size.
func resizesWindow(old, next *quota.Tier) bool {
	return old.Kind.Windowed() && old.Kind != quota.SlidingWindow &&
		old.Kind == next.Kind && old.Rate.Per == next.Rate.Per && old.Calendar == next.Calendar
}

// shrink keeps the bucket until it would be full under the larger burst that is being replaced. If
// that burst returns, the key must not start full.
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
		if b.endures() && (len(al.log().pending) > 0 || !al.dead && al.unsaved()) {
			return false
		}
	}
	return b.pool.Level().Plus(b.outstandingTokens()) >= b.limit.BurstUnits() && len(b.rarely().outlived) == 0
}

// allocationAt is allocation with a hint: place is the likely index.
func (b *bucket) allocationAt(now quota.Time, place int, r *quota.Report, e *quota.ReportEntry) *allocation {
	if place < len(b.allocations) && b.allocations[place].sameOpening(r, e) {
		return &b.allocations[place]
	}
	return b.allocation(now, r.From, r.Incarnation)
}

// allocation returns the allocation of a member's process, or nil. It retires that of an earlier
// incarnation, whose tokens count as spent.
func (b *bucket) allocation(now quota.Time, id quota.NodeID, inc quota.Incarnation) *allocation {
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.node != id || al.dead {
			continue
		}
		if al.inc == inc {
			return al
		}
		if b.retire(now, now, i); !al.dead { // reports of it are no longer booked
			b.remove(al)
		}
		return nil
	}
	return nil
}

// addAllocation adds an allocation. Pointers to others become invalid. Buckets have few allocations
// and each is large, so capacity grows by an eighth only.
func (b *bucket) addAllocation(al allocation) *allocation {
	if n := len(b.allocations); n == cap(b.allocations) {
		more := make([]allocation, n, n+1+n/8)
		copy(more, b.allocations)
		b.allocations = more
	}
	b.allocations = append(b.allocations, al)
	return &b.allocations[len(b.allocations)-1]
}

// remove drops an allocation. Its out counts as spent.
func (b *bucket) remove(al *allocation) {
	last := len(b.allocations) - 1
	*al = b.allocations[last]
	b.allocations[last] = allocation{}
	b.allocations = b.allocations[:last]
}

// admit begins an epoch of the key at a member: a new opening, or one that only an earlier leader
// knew (e.Learn).
func (b *bucket) admit(now quota.Time, ps *processes, r *quota.Report, e *quota.ReportEntry) *allocation {
	al := b.allocation(now, r.From, r.Incarnation)
	if al == nil {
		al = b.addAllocation(allocation{openState: openState{process: ps.of(r.From, r.Incarnation)}})
	}
	b.wakeBy(now.Add(max(rememberSilent, b.inFlightLease())))
	al.begin(now, e)
	al.noteOverflowed(b.overflowed)
	if b.endures() {
		al.takeCommitted(e)
	}
	if b.promises() {
		al.log().promised = b.firstPromise(now, al)
	}
	return al
}

// learn takes over the grants of an earlier leader. The member keeps them, so they leave the pool.
// The level becomes at most the level that the member last received plus refill, less the use that
// other members reported since. A level from a window that has ended is ignored.
//
// Where counts endure, the log contains everything that members may have out, so only the reported
// use is settled.
func (b *bucket) learn(now quota.Time, al *allocation, e *quota.ReportEntry) {
	if b.inEndedWindow(e) || b.tier.Kind == quota.Concurrency {
		return
	}
	if b.tier.Kind == quota.PeriodicRefill && e.Window != 0 && b.admitted == 0 { // its window continues
		b.pool = limiter.RestoreMeter(&b.tier, b.pool.Level(), now, e.Window, 0, now)
	}
	if b.endures() {
		al.resume(now, e)
		return
	}
	if e.Learn.HasLevel {
		lastLevel := e.Learn.Level.Plus(b.maxRefill(e.Learn.Age)).Plus(b.rarely().forgiven - b.admitted)
		if level := b.level(); level > lastLevel {
			b.pool.Add(lastLevel.Plus(-level))
		}
		b.env.learned(now, lastLevel)
		b.dirty = true
	}
	al.inherit(now, e)
}

// inEndedWindow reports whether all use in the entry belongs to a window that has ended. Use in a sliding
// window always counts.
func (b *bucket) inEndedWindow(e *quota.ReportEntry) bool {
	return b.tier.Kind != quota.SlidingWindow && b.windowEnded(e)
}

// windowEnded reports whether the window of the entry has ended. Refunds of that window raise no
// level.
func (b *bucket) windowEnded(e *quota.ReportEntry) bool {
	if !b.tier.Kind.Windowed() || e.Window == 0 {
		return false
	}
	start, _ := b.pool.Bounds()
	if b.tier.Kind == quota.PeriodicRefill { // an unused window restarts without notice
		return e.Window.Add(b.tier.Rate.Per) <= start
	}
	return e.Window < start
}

// spentBeforeWindow returns the part of the entry's counters that was spent before its window and does not
// belong to a window that continues here; 0 if none. A member may end a window before this leader:
// its clock is ahead, or it does not know yet that a periodic window began again. A window that the
// member received after the last window ended here does not end within one period from that end.
func (b *bucket) spentBeforeWindow(e *quota.ReportEntry) quota.Units {
	switch start, _ := b.pool.Bounds(); {
	case e.Window <= start || b.tier.Kind == quota.SlidingWindow:
	case b.tier.Kind == quota.PeriodicRefill && (b.limit.Ceiling == quota.Soft || e.Window < b.ended.Add(b.tier.Rate.Per)):
	default:
		return 0
	}
	return e.Before
}

// maxRefill is the most that the level gained in d.
func (b *bucket) maxRefill(d time.Duration) quota.Units {
	switch b.tier.Kind {
	case quota.TokenBucket:
		return refill(b.limit.Rate, d)
	case quota.SlidingWindow:
		return accruedCeil(b.gainPerSecond(), min(d, b.tier.Rate.Per))
	}
	return 0
}

// book charges the use in a report and returns unused tokens to the pool.
func (b *bucket) book(al *allocation, d delta) {
	b.takeBack(al, max(0, d.used+d.over-d.refunded))
	if al.resetSinceReport && b.limit.Ceiling == quota.Soft {
		d.late = d.used + d.over
	}
	al.resetSinceReport = false
	if b.tier.Kind != quota.Concurrency {
		b.pool.Add(d.back.Plus(-d.over).Plus(d.late).Plus(d.refunded))
	}
	b.attempted = b.attempted.Plus(d.attempted())
	b.admitted = b.admitted.Plus(d.used + d.over)
	if d.used+d.known+d.over > 0 || d.refunded > 0 {
		b.dirty = true
	}
}

// close answers a member that closes the key. The allocation stays for a while without tokens, so
// that a repeated final report is not counted again. Where counts endure, the member must keep them
// until the log has them. Then the log must also promise nothing beyond them: if both processes
// die, only the journal could show that the promised tokens were not used. And the member must have
// repeated the report after answers that it does not contain, because it may have crossed them.
func (b *bucket) close(now quota.Time, al *allocation, e *quota.ReportEntry, ack quota.Seq, g *quota.GrantEntry) {
	b.dirty = b.dirty || b.promises() && (al.log().promised.high > al.log().promised.total || !al.closed)
	if al.closed { // repeated: it has reported the answers that it used, except those still on their way
		b.dropAnswered(al)
	}
	back := min(al.out, al.returnable)
	al.void()
	b.pool.Add(back - al.returnable)
	al.demand, al.closed = 0, true // what is in flight stays counted until a later opening reports
	b.wakeBy(now.Add(linger))
	al.unplan()
	b.advance(now)
	*g = quota.GrantEntry{Key: b.key(), Epoch: e.Epoch, Ack: ack, Level: b.levelFor(al, b.level()), Others: b.othersDemand(al), Closed: true, Saved: min(al.saved(), quota.Most)}
	if b.endures() && (al.unsaved() || al.mayUseMore() || al.unreported() > 0) {
		b.dirty = b.dirty || len(al.log().pending) == 0
		al.grants++
		g.Closed, g.Seq, g.Again = false, al.grants, unsavedAgain
	}
	b.addWindow(g)
}

// unsavedAgain is when the member asks again whether the log has its counts.
const unsavedAgain = 500 * time.Millisecond

// refill returns the yield of the rate in d, without the bound of the burst.
func refill(r quota.Rate, d time.Duration) quota.Units {
	if r.Per <= 0 {
		return 0
	}
	return min(quota.Most, quota.Units(quota.MulDiv(int64(quota.FromTokens(r.Tokens)), int64(max(0, d)), int64(r.Per))))
}
