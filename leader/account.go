package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// account is the book of one key, in groups. The package documentation lists fields and bytes of each.
//
// Invariant after advance: pool + sum(holder.standing()) <= burst; with
// Concurrency, less what is in flight; under soft, less what is unseen.
type account struct {
	key      quota.Key
	limit    *quota.Limit
	tier     quota.Tier    // the limit's only one
	gains    quota.Units   // per second, of a bucket
	pool     limiter.Meter // free tokens; below 0 is debt
	holders  []holder
	outlived []outlived // Concurrency under hard: what dead members had in flight

	bookState
	askedState
	overflowState
	promiseState
	errorState
	divisionState
	logState
	visitState
}

// bookState identifies the account, and counts since it was opened.
type bookState struct {
	attempted, admitted quota.Units
	listed              listing // of them; see TopSince
	lastUse             quota.Time
	ref                 uint32     // its number in the ledger; used again when the account is gone
	life                uint64     // distinguishes it from an earlier account of the key
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
	unlogged quota.Units // promised to every node, whatever the log says
	claims   []claim     // of nodes that have not spoken to this leader
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
	clumps  dispersion
	shared  quota.Time // when the dues of the members were last booked
	most    float64    // the most that anyone's part of the rate is, at the last division
	central bool       // too few tokens for the members that want them: nothing is handed out; see scarce
}

// logState records which level the log holds, and whether the next checkpoint writes a new one.
type logState struct {
	logged      loggedLevel
	behindSince quota.Time
	dirty       bool // the level moved since the last checkpoint
	saved       bool // the range's log holds a level of this account
	wanted      bool // it is in Ledger.wanted
	queued      bool // it is in Ledger.moved
	behind      bool // it is in Ledger.behind
	overdue     bool // the next checkpoint writes it, however little it has moved
}

// visitState schedules the visits of the account: see schedule.go.
type visitState struct {
	alarm   quota.Time // visit it by then
	seen    uint64     // changes applied
	timer   uint32     // its place in Ledger.timers, from 1, or 0
	counted **account  // its place in Ledger.counted; nil if it is not in it
}

func newAccount(k quota.Key, limit *quota.Limit, pool limiter.Meter) *account {
	return &account{
		key: k, limit: limit, tier: limit.First(), gains: limit.Rate.PerSecond(), pool: pool,
		logState: logState{saved: pool.Level() < limit.BurstUnits()}, visitState: visitState{alarm: never},
	}
}

// advance brings the account to now: the pool refills, less what the members'
// rates yield, and everything together stays within the burst. It returns what
// stands with members then.
func (a *account) advance(now quota.Time) quota.Units {
	if a.tier.Kind == quota.Concurrency {
		a.recount(now)
		return a.standing()
	}
	a.turn(now)
	stands := a.claimed()
	for i := range a.holders {
		h := &a.holders[i]
		if h.carried && (h.dead || now >= h.lease.Add(leaseSlack)) {
			a.pool.Add(h.out)
			h.void()
		}
		a.pool.Add(-h.accrue(now))
		stands = stands.Plus(h.standing())
	}
	a.fill(now, stands)
	return stands
}

// fill advances the pool, beside what stands with members.
func (a *account) fill(now quota.Time, stands quota.Units) {
	// The meter sees what is free and what stands with members as one level, so
	// that only what is left after the rates overflows, and so that a sliding
	// window does not take what stands for used.
	handed := stands.Plus(a.own.earlier)
	if a.tier.Kind == quota.TokenBucket {
		handed -= a.unseen(now, nil, a.levelWith(stands)) // used, probably: it does not overflow
	}
	a.pool.Add(handed)
	full, before := a.limit.BurstUnits(), a.pool.Level()
	was, _ := a.pool.Bounds()
	a.pool.Advance(now, &a.tier)
	a.slid(was)
	a.noteOverflow(now, before)
	if a.isAsked() {
		a.rooms.note(now, max(0, full-a.pool.Level()-max(0, a.returns()-stands)))
	}
	a.pool.Add(-handed)
	switch {
	case a.tier.Kind != quota.TokenBucket || a.limit.Ceiling == quota.Hard:
		a.overflow(full)
	case a.pool.Level().Plus(handed) >= full:
		a.overflow(0)
	}
	a.endAnswers(now)
}

// advanceOne is advance where since the last one, at the same moment, nothing stands
// elsewhere but with h. It returns what stands with the others.
func (a *account) advanceOne(now quota.Time, h *holder, others quota.Units) quota.Units {
	a.pool.Add(-h.accrue(now))
	a.fill(now, others.Plus(h.standing()))
	return others
}

// turn voids what members hold when the window has ended that it was for. A
// sliding window has no such end.
func (a *account) turn(now quota.Time) {
	if !a.tier.Kind.Windowed() || a.tier.Kind == quota.SlidingWindow {
		return
	}
	_, end := a.pool.Bounds()
	if now < end {
		return
	}
	a.ended = end
	a.liveTurn()
	for i := range a.holders {
		// An earlier leader that slept through its end grants by the same promise in each window, to members
		// that have not heard of this term.
		if h := &a.holders[i]; h.restored && !h.dead && now < h.lease.Add(leaseSlack) && h.out > 0 {
			h.carried = true
			continue
		}
		a.holders[i].void()
	}
	// What a dead process has counted belongs to no window that continues. One that was only silent repeats it
	// when it speaks again, so it is remembered as long as others that are silent.
	a.holders = slices.DeleteFunc(a.holders, func(h holder) bool { return h.dead && now.Sub(h.log().diedAt) > remember })
}

// rates reports whether members may be given a refill rate. Windows are divided
// by tokens alone, since a rate would outlast them; and what refills while
// callers wait is theirs.
func (a *account) rates() bool {
	return a.tier.Kind == quota.TokenBucket && !a.limit.AsksLeader()
}

// relimit switches to a changed limit. What was used stays used.
func (a *account) relimit(now quota.Time, limit *quota.Limit) {
	a.advance(now)
	next := limit.First()
	if next != a.tier {
		a.fresh, a.rooms = now, nil
		a.shrink(now, limit)
		standing := a.standing()
		a.pool.Add(standing)
		a.pool.Retier(now, &a.tier, &next)
		a.pool.Add(-standing)
		a.env.advance(now, a.limit, &a.tier)
		a.env.Retier(now, &a.tier, &next)
	}
	a.limit, a.tier, a.gains, a.dirty, a.overdue = limit, next, limit.Rate.PerSecond(), true, true
	a.advance(now)
}

// shrink remembers the account until it would be full under the larger burst
// that is being replaced: if that comes back, it must not find a new key.
func (a *account) shrink(now quota.Time, next *quota.Limit) {
	if next.Burst < a.limit.Burst {
		a.keep = max(a.keep, now.Add(min(a.resetAfter(now), maxKeep)))
	}
}

// maxKeep bounds how long a shrunken account is remembered.
const maxKeep = 24 * time.Hour

// idle reports whether the account equals a new one.
func (a *account) idle() bool {
	for i := range a.holders {
		h := &a.holders[i]
		if !h.dead && (h.out != 0 || h.charged != 0) || !h.closed {
			return false
		}
		if a.endures() && (len(h.log().pending) > 0 || !h.dead && h.saved < h.used.Plus(h.over)) {
			return false
		}
	}
	return a.pool.Level().Plus(a.claimed()) >= a.limit.BurstUnits() && len(a.outlived) == 0
}

// holderAt is holder, where the record is likely to be at a place.
func (a *account) holderAt(now quota.Time, place int, r *quota.Report, e *quota.ReportEntry) *holder {
	if place < len(a.holders) && a.holders[place].speaks(r, e) {
		return &a.holders[place]
	}
	return a.holder(now, r.From, r.Incarnation)
}

// holder returns the record of a member, dropping that of an earlier life: what
// a dead process held counts as spent.
func (a *account) holder(now quota.Time, id quota.NodeID, inc quota.Incarnation) *holder {
	for i := range a.holders {
		h := &a.holders[i]
		if h.node != id || h.dead {
			continue
		}
		if h.inc == inc {
			return h
		}
		if a.retire(now, now, i); !h.dead { // no report of it counts any more
			a.remove(h)
		}
		return nil
	}
	return nil
}

// addHolder adds a record; others that were pointed to may have moved. There are few,
// and each is large, so no room is kept for many more.
func (a *account) addHolder(h holder) *holder {
	if n := len(a.holders); n == cap(a.holders) {
		more := make([]holder, n, n+1+n/8)
		copy(more, a.holders)
		a.holders = more
	}
	a.holders = append(a.holders, h)
	return &a.holders[len(a.holders)-1]
}

// remove drops a holder. Its out leaves the books: it counts as spent.
func (a *account) remove(h *holder) {
	last := len(a.holders) - 1
	*h = a.holders[last]
	a.holders[last] = holder{}
	a.holders = a.holders[:last]
}

// admit makes a record for a member whose epoch of the key is not known: a new
// opening, or (e.Learn) an old one that an earlier leader knew.
func (a *account) admit(now quota.Time, r *quota.Report, e *quota.ReportEntry) *holder {
	h := a.holder(now, r.From, r.Incarnation)
	if h == nil {
		h = a.addHolder(holder{lifeState: lifeState{node: r.From, inc: r.Incarnation}})
	}
	a.wakeBy(now.Add(max(remember, a.inFlightLease())))
	h.begin(now, e)
	h.overflowed = a.overflowed
	if a.endures() {
		h.know(e)
	}
	if a.promises() {
		h.log().promised = a.implied(now, h)
	}
	return h
}

// learn takes over what an earlier leader had granted: the member keeps it, so
// it leaves the pool, and the level is no higher than the one that the member
// received, less what other members report to have used since. A level from a
// window that has ended says nothing about this one.
//
// What endures is in the log with all that members may have out, so only what they report is settled.
func (a *account) learn(now quota.Time, h *holder, e *quota.ReportEntry) {
	if a.past(e) || a.tier.Kind == quota.Concurrency {
		return
	}
	if a.tier.Kind == quota.PeriodicRefill && e.Window != 0 && a.admitted == 0 { // its window continues
		a.pool = limiter.RestoreMeter(&a.tier, a.pool.Level(), now, e.Window, 0, now)
	}
	if a.endures() {
		h.resume(now, e)
	}
	if e.Learn.Told && (!a.endures() || a.limit.AsksLeader()) {
		told := e.Learn.Level.Plus(a.refill(e.Learn.Age)).Plus(a.forgiven - a.admitted)
		if level := a.level(); level > told {
			a.pool.Add(told.Plus(-level))
		}
		a.env.learned(now, told)
		a.dirty = true
	}
	if !a.endures() {
		h.inherit(now, e)
	}
}

// past reports whether what the entry says was used belongs to a window that
// has ended. What was used in a sliding one still counts.
func (a *account) past(e *quota.ReportEntry) bool {
	return a.tier.Kind != quota.SlidingWindow && a.windowOver(e)
}

// windowOver reports whether the window that the entry is about has ended: what was given back in it
// raises no level any more.
func (a *account) windowOver(e *quota.ReportEntry) bool {
	if !a.tier.Kind.Windowed() || e.Window == 0 {
		return false
	}
	start, _ := a.pool.Bounds()
	if a.tier.Kind == quota.PeriodicRefill { // it begins again, unnoticed, as long as nothing is used
		return e.Window.Add(a.tier.Rate.Per) <= start
	}
	return e.Window < start
}

// before is what the entry says was spent before its window, as far as that is not of a window
// that continues here. A member may end a window before this leader does: one whose clock is
// ahead of this leader's, or one that has not heard that a periodic window began again. Of the
// windows that it received after the last one ended here, none ends within a period from then.
func (a *account) before(e *quota.ReportEntry) quota.Units {
	switch start, _ := a.pool.Bounds(); {
	case e.Window <= start || a.tier.Kind == quota.SlidingWindow:
	case a.tier.Kind == quota.PeriodicRefill && (a.limit.Ceiling == quota.Soft || e.Window < a.ended.Add(a.tier.Rate.Per)):
	default:
		return 0
	}
	return e.Before
}

// refill is what the level gained in d at most.
func (a *account) refill(d time.Duration) quota.Units {
	switch a.tier.Kind {
	case quota.TokenBucket:
		return refill(a.limit.Rate, d)
	case quota.SlidingWindow:
		return perSecondCeil(a.perSecond(), min(d, a.tier.Rate.Per))
	}
	return 0
}

// book charges what a report said. What was not used goes back to the pool.
func (a *account) book(h *holder, d delta) {
	a.takeBack(h, max(0, d.used+d.over-d.refunded))
	if h.pardon {
		d.late, h.pardon = d.used+d.over, false
	}
	if a.tier.Kind != quota.Concurrency {
		a.pool.Add(d.back.Plus(-d.over).Plus(d.late).Plus(d.refunded))
	}
	a.attempted = a.attempted.Plus(d.attempted())
	a.admitted = a.admitted.Plus(d.used + d.over)
	if d.used+d.over > 0 || d.refunded > 0 {
		a.dirty = true
	}
}

// close answers a member that lets go of the key. The record stays for a while
// without tokens, so that a repeated final report is not counted again. Where
// counts endure the member may not forget them before the log has them, and
// promises it nothing beyond them: if both die, its journal has to tell that what
// was promised was not used.
func (a *account) close(now quota.Time, h *holder, e *quota.ReportEntry, ack quota.Seq, g *quota.GrantEntry) {
	a.pool.Add(min(h.out, h.ret))
	a.dirty = a.dirty || a.promises() && (h.log().promised.high > h.log().promised.total || !h.closed)
	h.void()
	h.demand, h.closed = 0, true // what is in flight stays so until a later opening says more
	a.wakeBy(now.Add(linger))
	h.unplan()
	a.advance(now)
	*g = quota.GrantEntry{Key: a.key, Epoch: e.Epoch, Ack: ack, Level: a.levelFor(h, a.level()), Others: a.others(h), Closed: true, Saved: min(h.saved, quota.Most)}
	if a.endures() && (h.saved < e.Used.Plus(e.Overdrawn) || h.expects()) {
		h.grants++
		g.Closed, g.Seq, g.Again = false, h.grants, unsavedAgain
	}
	a.window(g)
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
