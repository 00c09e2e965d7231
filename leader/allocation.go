package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// allocation is one member's part of a bucket, in groups. The fields that a report reads of every
// member come first, side by side in memory. The package documentation lists the fields and bytes
// of each group.
//
// Invariants: charged >= rate; returnable <= out; out contains every token that the member may hold, that
// is on its way to it, or that it may have spent since its last report.
type allocation struct {
	openState
	heldState
	demandState
	countState
	unacked *quota.Unacked // nil if no grant of tokens was ever unacknowledged
	rare    *rareState     // nil while it would be zero
	logged  *logged        // nil while it would be zero
}

// openState identifies the member's process and records whether it is alive.
type openState struct {
	*process
	epoch            quota.Seq
	within           uint8 // sync intervals until its next report is due; see allocation.reportWithin
	closed           bool
	resetSinceReport bool // the key was reset since the last report: the next one reports use and refunds before the reset
	restored         bool // not settled in this term
	carriedOver      bool // restored, with tokens out in a later window than the log's: see bucket.roll
	settlesEarlier   bool // grants of an earlier leader are settled, not inherited
	final            bool // committed: the process is dead, all its counts are booked, nothing is out
	dead             bool // the process has ended: out was used or is lost
}

// heldState bounds the member's tokens: those it may hold, and a rate up to a cap until the lease
// ends.
type heldState struct {
	out        quota.Units
	returnable quota.Units // part of out that may be held or may return; the rest was used or has overflowed
	held       quota.Units // as last reported
	capped     quota.Units // largest cap that the member may still use
	rate       quota.Units // granted refill, Units per second
	charged    quota.Units // largest refill that the member may still use, Units per second
	from       quota.Time  // out includes the yield of charged up to this time
	lease      quota.Time  // end of the rate and of held tokens
	cap        quota.Units // accrual stops at this many held tokens
	grants     quota.Seq   // number of the last grant
	granted    quota.Time  // time of the oldest unacknowledged grant; 0 if none
}

// demandState estimates the member's demand.
type demandState struct {
	reported quota.Time
	counts   series
	demand   float32 // attempted Units per second, as of the last report
	live     float32 // current demand: it decays while the member is silent
	using    float32 // like demand, of admitted less refunded Units
	deficit  float32 // Units: its share of recent use less its own use
	tried    float32 // attempted Units per second, averaged for display
	admit    float32 // admitted Units per second, likewise
}

// countState holds the member's counters as last reported in this epoch.
type countState struct {
	used, over, refused, returned quota.Units
}

// rareState holds what is 0 for most members.
type rareState struct {
	owed, alone quota.Units // parts of over: charged after the fact; admitted while cut off
	refunded    quota.Units // as last reported
	inFlight    quota.Units // Concurrency only; not part of out
	overflowed  quota.Units // bucket.overflowed as of the last report
	awaited     quota.Units // part of the last grant that callers wait for; others see it as spent
	unmet       quota.Units // Units that its callers wanted and did not get
	unmetAt     quota.Time
	recalled    quota.Time  // time of the last recall
	regained    quota.Time  // hard token buckets: when its refunds last raised the level
	asked       quota.Units // cost of its decide requests since its last report, part of demand
}

// noRare is zero and never written: allocations without any of the rare fields read it.
var noRare rareState

// rarely returns the rare state, to be read.
func (al *allocation) rarely() *rareState {
	if al.rare == nil {
		return &noRare
	}
	return al.rare
}

func (al *allocation) setRefunded(u quota.Units) {
	if r := al.editRare(u != 0); r != nil {
		r.refunded = u
	}
}

func (al *allocation) setAsked(u quota.Units) {
	if r := al.editRare(u != 0); r != nil {
		r.asked = u
	}
}

// reportWithin is the time from the member's last report within which it reports again if it counts anything.
func (al *allocation) reportWithin(sync time.Duration) time.Duration {
	return time.Duration(al.within) * sync
}

// noteOverflowed records what has overflowed of the bucket as of the last report.
func (al *allocation) noteOverflowed(u quota.Units) {
	if r := al.editRare(u != 0); r != nil {
		r.overflowed = u
	}
}

// editRare returns the rare state, to be changed. It is nil if it is zero and need not be created.
func (al *allocation) editRare(create bool) *rareState {
	if al.rare == nil && create {
		al.rare = &rareState{}
	}
	return al.rare
}

// delta holds the counts that one report adds to the bucket.
type delta struct {
	used, over, refused quota.Units
	refunded            quota.Units
	owed, alone         quota.Units // parts of over: charged after the fact; admitted while cut off
	cutOffSince         quota.Time  // earliest time at which alone was admitted
	late                quota.Units // part of used and over that belongs to a window that has ended
	known               quota.Units // further use that was counted when this leader admitted it
	back                quota.Units // returned to the pool; negative if less is left than was out
}

func (d delta) attempted() quota.Units { return (d.used + d.over).Plus(d.refused) }

// void removes all tokens and rates of the member, except what decide requests have used (answered). It is called when
// the window has ended, the key is closed, or the process has ended.
func (al *allocation) void() {
	al.out, al.returnable = al.answered(), min(al.answered(), al.returnable)
	al.held, al.rate, al.charged = 0, 0, 0
	al.cap, al.capped = 0, 0
	if r := al.editRare(false); r != nil {
		r.awaited = 0
	}
	al.unacked.Clear()
	al.carriedOver = false
}

// addAnswered adds the cost of an admitted decide request, which has left the pool, to out.
func (al *allocation) addAnswered(cost quota.Units) {
	al.out, al.returnable, al.log().answered = al.out+cost, al.returnable+cost, al.log().answered+cost
}

// answered is the part of out that decide requests of the member used, and that it has not reported yet.
func (al *allocation) answered() quota.Units {
	if al.logged == nil {
		return 0
	}
	return al.logged.answered
}

// answered is the part of returnableTokens that decide requests used.
func (b *bucket) answered() (sum quota.Units) {
	for i := range b.allocations {
		al := &b.allocations[i]
		sum = sum.Plus(min(al.answered(), max(0, min(al.out, al.returnable))))
	}
	return sum
}

// takeAnswered takes back up to u that decide requests used, and returns the part that has not overflowed.
func (al *allocation) takeAnswered(u quota.Units) (back quota.Units) {
	if u = min(u, al.answered()); u == 0 {
		return 0
	}
	back = min(u, al.returnable)
	al.out, al.returnable, al.logged.answered = al.out-u, al.returnable-back, al.logged.answered-u
	return back
}

// unreported is the use by decide requests, in any window, that the member has not reported yet.
func (al *allocation) unreported() quota.Units {
	if al.logged == nil {
		return 0
	}
	return al.logged.answered.Plus(al.logged.ended)
}

// reverseAnswered reverses answers of cost u that the member has not reported. If present is set, it reverses those of
// the present window first, otherwise those of ended windows. It returns the part of the present window that has not
// overflowed.
func (al *allocation) reverseAnswered(u quota.Units, present bool) quota.Units {
	if u == 0 {
		return 0
	}
	ended := min(u, al.logged.ended)
	if present {
		ended = u - min(u, al.logged.answered)
	}
	al.logged.ended -= ended
	return al.takeAnswered(u - ended)
}

// dropAnswered takes back what decide requests used and the member has not reported. An answer may still be on its
// way to the member: if it uses it, it reports that in its next epoch, and it counts then.
func (b *bucket) dropAnswered(al *allocation) {
	u := al.unreported()
	if u == 0 {
		return
	}
	b.attempted, b.admitted = max(0, b.attempted.Plus(-u)), max(0, b.admitted.Plus(-u))
	al.logged.ended = 0
	b.pool.Add(al.takeAnswered(u))
}

// takeCounted removes from the counted answers the part that a report states as use, and returns it: of windows that
// have ended, and of the present one. Of the use in ended windows, as much as possible is taken to be overdraft.
func (al *allocation) takeCounted(d *delta) (ended, current quota.Units) {
	g := al.logged
	if g == nil {
		return 0, 0
	}
	ended = min(d.late, d.used, g.ended)
	late := max(0, d.late-d.over, ended) // part of used
	current = min(d.used-min(late, d.used), g.answered)
	g.ended, g.answered = g.ended-ended, g.answered-current
	return ended, current
}

// endAnswered moves what decide requests have used from answered to ended: the window in which the leader admitted it
// has ended.
func (al *allocation) endAnswered() {
	if u := al.answered(); u > 0 {
		al.takeAnswered(u)
		al.logged.ended += u
	}
}

// begin starts an epoch. The counters start such that the first settle charges the part that no
// leader has acknowledged.
func (al *allocation) begin(now quota.Time, e *quota.ReportEntry) {
	al.epoch, al.closed = e.Epoch, false
	total := e.Used + e.Overdrawn
	known := total - min(e.Unreported, total)
	al.used = min(known, e.Used)
	al.over = known - al.used
	al.refused, al.returned = 0, 0
	al.setRefunded(0)
	al.unpromise() // promises refer to the counters of the last epoch
	al.noteExcused(max(0, e.Charged-e.Unreported), max(0, e.Alone-e.Unreported))
	al.grants = max(al.grants, e.Applied) // numbers continue: the member ignores grants with lower ones
	al.from, al.demand, al.counts = now, 0, series{}
	if e.Learn != nil && e.Learn.Cap > 0 { // it has received a grant in this epoch
		al.refused = e.Refused
		al.setRefunded(e.Refunded)
	}
}

// noteExcused sets the parts of over that are not errors.
func (al *allocation) noteExcused(owed, alone quota.Units) {
	if r := al.editRare(owed != 0 || alone != 0); r != nil {
		r.owed, r.alone = owed, alone
	}
}

// inherit takes over the rate and the cap of an earlier leader's grant. Held tokens, and
// unacknowledged use, leave the pool when the report is settled.
func (al *allocation) inherit(now quota.Time, e *quota.ReportEntry) {
	al.rate, al.charged = e.Learn.Rate, e.Learn.Rate
	al.lease = now.Add(e.Learn.LeaseLeft)
	al.from = now.Add(-inheritMargin) // time that the report was on its way
	al.cap = max(e.Held, e.Learn.Cap) // not out: used tokens must not return beyond the old cap
	al.capped = al.cap
}

// inheritMargin moves the start of an inherited rate back by the time that the report to a new leader may have
// taken. The next report returns the excess.
const inheritMargin = 50 * time.Millisecond

// accrue moves the allocation to now and returns the yield of its rate, rounded up; the member
// rounds down.
func (al *allocation) accrue(now quota.Time) quota.Units {
	end := min(now, al.lease.Add(leaseSlack))
	dt := end.Sub(al.from)
	var got quota.Units
	if dt > 0 && al.charged > 0 {
		got = accruedCeil(al.charged, dt)
	}
	al.from = max(al.from, now)
	if now >= al.lease.Add(leaseSlack) {
		al.lapse()
		al.rate, al.charged, al.demand = 0, 0, 0
	}
	al.out, al.returnable = al.out.Plus(got), al.returnable.Plus(got)
	return got
}

// lastWritten returns when the member has written its last report, or earlier: a report may arrive much later than it
// was written.
func (al *allocation) lastWritten() quota.Time {
	if g := al.logged; g != nil && g.accruedTo > 0 {
		return min(al.reported, g.accruedTo)
	}
	return al.reported
}

// lapse notes that the rate ends with its lease. A report from before that may arrive later: what it states as held has
// grown since, and may be spent.
func (al *allocation) lapse() {
	if g := al.logged; g != nil && al.charged > 0 {
		g.lapsed, g.lapsedUntil = max(g.lapsed, al.charged), max(g.lapsedUntil, al.lease.Add(leaseSlack))
	}
}

// endLapsed forgets the rate of an ended lease if a report is from after it.
func (al *allocation) endLapsed(e *quota.ReportEntry) {
	if g := al.logged; g != nil && (e.Learn != nil || e.Stopped && al.applied(e) || e.AccruedTo >= g.lapsedUntil) {
		g.lapsed, g.lapsedUntil = 0, 0
	}
}

// leaseSlack bounds the time by which a member may see its lease end later than the leader: the grant took time
// to arrive.
const leaseSlack = 50 * time.Millisecond

// standing is the most that the member can spend at one moment: it accrues up to its cap, and
// granted tokens on their way come on top. Tokens of answered decide requests are spent already.
func (al *allocation) standing() quota.Units { return max(0, min(al.out-al.answered(), al.maxHeld())) }

func (al *allocation) maxHeld() quota.Units { return max(al.capped, al.held).Plus(al.unacked.Tokens()) }

// settle compares a report with the allocation, updates the allocation and returns the difference.
// past means that the whole report belongs to a window that has ended: its held tokens are void.
// Otherwise before is the part of all that the member ever spent that belongs to such windows.
func (al *allocation) settle(now, started quota.Time, e *quota.ReportEntry, limit *quota.Limit, past bool, before quota.Units) delta {
	burst := limit.BurstUnits()
	spent, rare := al.used+al.over, al.rarely()
	refunded := rare.refunded
	if e.Refunded < refunded { // it restarts from 0 in each window
		refunded = 0
	}
	d := delta{
		used: max(0, e.Used-al.used), over: max(0, e.Overdrawn-al.over), refused: max(0, e.Refused-al.refused),
		refunded: max(0, e.Refunded-refunded),
		owed:     max(0, e.Charged-rare.owed), alone: max(0, e.Alone-rare.alone),
	}
	al.noteExcused(max(rare.owed, e.Charged), max(rare.alone, e.Alone))
	if r := al.editRare(e.InFlight != 0); r != nil {
		r.inFlight = e.InFlight
	}
	al.used, al.over, al.refused = max(al.used, e.Used), max(al.over, e.Overdrawn), max(al.refused, e.Refused)
	al.setRefunded(e.Refunded)
	al.unacked.Acknowledge(e.Applied)
	al.endLapsed(e)
	if al.logged != nil {
		al.logged.accruedTo, al.logged.want = e.AccruedTo, e.Want
	}
	if e.Stopped && al.applied(e) {
		al.rate, al.charged = 0, 0
	}
	held := e.Held
	switch {
	case past:
		held, d.late = 0, d.used+d.over
	case e.Window != 0:
		d.late = min(max(0, before-spent), d.used+d.over)
	}
	standing := min(held.Plus(al.mayReceive(now, started, e)), burst) // no grant exceeds the burst
	out := standing
	if limit.Ceiling == quota.Hard { // it holds at most its cap, however old the report is; the rest it may have spent
		standing = min(standing, max(held, al.capped).Plus(al.unacked.Tokens()))
	}
	ended, current := al.takeCounted(&d)
	d.known, d.late = ended+current, d.late-ended
	left, ret := al.out-d.used+ended, al.returnable
	d.used -= d.known
	if al.restored { // ret does not contain what it holds
		standing += min(al.answered(), ret)
	} else {
		standing += min(al.answered(), max(0, ret-standing)) // the rest has overflowed
	}
	out += al.answered()
	al.out, al.returnable, al.held = out, standing, min(held, burst)
	d.back = min(left, ret) - standing
	if limit.Ceiling == quota.Hard && limit.Kind == quota.TokenBucket {
		d.back = al.splitExact(left, max(0, e.Returned-al.returned), ret-d.used-current)
	}
	al.returned = e.Returned
	al.restored, al.carriedOver = false, false
	if al.applied(e) {
		al.charged, al.capped, al.granted = al.rate, al.cap, 0
	}
	return d
}

// splitExact splits left, the unspent part of out. It sets returnable, the part that the member may hold or
// that may return later, and returns the part that returns to the pool now. Both add up to at most
// the tokens that existed all the time (held, unacknowledged and returned ones), or to least if that
// is more. Others may have overflowed, because the time of each use is unknown. least is returnable
// before the report less the use: had all use been at the last moment, that much would be left, and
// there was room for it at every moment.
func (al *allocation) splitExact(left, returned, least quota.Units) quota.Units {
	standing, certain := al.standing(), (al.held + returned).Plus(al.unacked.Tokens())
	allowed := min(max(certain, least), left)
	al.returnable = min(max(allowed, standing), al.out)
	return allowed - al.returnable
}

func (al *allocation) applied(e *quota.ReportEntry) bool { return e.Applied >= al.grants }

// addUnacked records that the last grant carries tokens.
func (al *allocation) addUnacked(tokens quota.Units) {
	if al.unacked == nil {
		al.unacked = &quota.Unacked{}
	}
	al.unacked.Add(al.grants, tokens)
}

// mayReceive is what the member may still come to hold: the yield of its rate since it last accrued,
// and the tokens of grants that it has not applied.
//
// A member writes its reports to a new leader after that leader has started.
func (al *allocation) mayReceive(now, started quota.Time, e *quota.ReportEntry) quota.Units {
	var sum quota.Units
	if e.Learn != nil && al.settlesEarlier {
		dt := min(now.Sub(started), max(0, e.Learn.LeaseLeft)+leaseSlack)
		sum = accruedCeil(e.Learn.Rate, max(0, dt))
	}
	from := e.AccruedTo
	if !al.applied(e) && from == 0 {
		from = al.granted // it may still apply the grant, from its start, but never accrues the same time twice
	}
	if dt := min(now, al.lease.Add(leaseSlack)).Sub(from); from > 0 && al.charged > 0 {
		sum = accruedCeil(al.charged, min(dt, maxComing))
	}
	if g := al.logged; g != nil && g.lapsed > 0 {
		sum = sum.Plus(accruedCeil(g.lapsed, min(g.lapsedUntil.Sub(from), maxComing)))
	}
	return min(sum.Plus(al.unacked.Tokens()), quota.Most)
}

// maxComing bounds the accrual that a report with a wrong clock can claim.
const maxComing = time.Minute

// accrued returns the yield of a rate in d, rounded down; accruedCeil rounds up.
func accrued(rate quota.Units, d time.Duration) quota.Units {
	return quota.Units(quota.MulDiv(int64(rate), int64(d), int64(time.Second)))
}

func accruedCeil(rate quota.Units, d time.Duration) quota.Units {
	return quota.Units(quota.MulDivCeil(int64(rate), int64(d), int64(time.Second)))
}
