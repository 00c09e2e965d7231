package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// allocation is what the ledger knows of one member's part in one bucket, in groups. What is looked at of
// every member when one of them reports lies first, side by side. The package documentation lists fields
// and bytes of each group.
//
// Invariants: charged >= rate; out counts every token that the member may
// hold, be on its way to hold, or have spent since its last report; ret <= out.
type allocation struct {
	openState
	heldState
	demandState
	countState
	durableState
}

// openState identifies the member's process, and records whether it is alive.
type openState struct {
	node     quota.NodeID
	inc      quota.Incarnation
	epoch    quota.Seq
	closed   bool
	pardon   bool // the key was reset since the last report
	restored bool // not settled in this term
	carried  bool // restored, and out in a later window than the log's: see bucket.turn
	learns   bool // what it had from an earlier leader is settled, not inherited
	final    bool // the log says that it is dead, all that it counted, and that nothing is out
	dead     bool // its process is: what is out was used or is lost
}

// heldState bounds the member's tokens: those it may hold, and a rate up to a cap until the lease ends.
type heldState struct {
	out     quota.Units
	ret     quota.Units // part of out that may stand or come back: the rest was used, or has overflowed
	held    quota.Units // as last reported
	capped  quota.Units // largest cap that the member may still apply
	flown   quota.Units // sum of flight
	rate    quota.Units // granted refill per second
	charged quota.Units // largest refill that the member may still apply
	from    quota.Time  // out includes the rate up to here
	lease   quota.Time  // when rate and held tokens end
	cap     quota.Units // accrual stops there
	grants  quota.Seq   // number of the last grant
	granted quota.Time  // when the oldest unacknowledged one was made
	flight  []flight    // grants of tokens that are not acknowledged
}

// demandState estimates the member's demand.
type demandState struct {
	reported quota.Time
	again    time.Duration
	demand   float64     // attempted Units per second, as of the last report
	live     float64     // demand now: it fades while the member is silent
	using    float64     // as demand, admitted and not given back
	deficit  float64     // Units: what it has used less than its part of what all used
	spoken   quota.Units // part of the last grant that callers wait for: as good as spent
	unmet    quota.Units // what its callers wanted and did not get
	unmetAt  quota.Time
	recalled quota.Time // when it was last asked to give back
	counts   series
	tried    float32 // attempted Units per second, averaged for people
	admit    float32 // admitted Units per second, likewise
	asked    uint16  // tokens of its decide requests since its last report: demand too; at most 65535
}

// countState are the member's counters as last reported in this epoch.
type countState struct {
	used, over, refused, refunded, returned quota.Units
	owed, alone                             quota.Units // parts of over: charged after the fact, admitted while cut off

	inFlight   quota.Units // Concurrency; not part of out
	overflowed quota.Units // bucket.overflowed as of the last report
	took       quota.Units // used in the last report
	gave       quota.Units // given back with it
}

// durableState holds the member's committed counts, for buckets whose counts endure.
type durableState struct {
	saved  quota.Units // of used and over, committed
	want   quota.Units // as last reported
	logged *logged     // nil as long as it is zero
}

type flight struct {
	seq    quota.Seq
	tokens quota.Units
}

// maxFlight bounds unacknowledged grants of tokens: past it a member gets no
// tokens until it acknowledges.
const maxFlight = 8

// delta is what one report adds to the books.
type delta struct {
	used, over, refused quota.Units
	refunded            quota.Units
	owed, alone         quota.Units // parts of over: charged after the fact, admitted while cut off
	away                quota.Time  // since when alone was admitted, at the earliest
	late                quota.Units // part of used and over that was for a window that has ended
	back                quota.Units // returned to the pool; may be negative
}

func (d delta) attempted() quota.Units { return (d.used + d.over).Plus(d.refused) }

// void takes everything from the member: the window has ended, or the key is
// closed.
func (al *allocation) void() {
	al.out, al.ret, al.held, al.rate, al.charged = 0, 0, 0, 0, 0
	al.cap, al.capped, al.spoken, al.flight, al.flown = 0, 0, 0, al.flight[:0], 0
	al.carried = false
}

// begin starts an epoch. Counters start so that the first settle charges what
// no leader has acknowledged.
func (al *allocation) begin(now quota.Time, e *quota.ReportEntry) {
	al.epoch, al.closed = e.Epoch, false
	total := e.Used + e.Overdrawn
	known := total - min(e.Unreported, total)
	al.used = min(known, e.Used)
	al.over = known - al.used
	al.refused, al.refunded, al.saved, al.returned = 0, 0, 0, 0
	al.unpromise() // their counters were the last epoch's
	al.owed, al.alone = max(0, e.Charged-e.Unreported), max(0, e.Alone-e.Unreported)
	al.grants = max(al.grants, e.Applied) // numbers continue, or the member would ignore ours
	al.from, al.demand, al.counts = now, 0, series{}
	if e.Learn != nil && e.Learn.Cap > 0 { // granted to in this epoch, so it has received a grant before
		al.refused, al.refunded = e.Refused, e.Refunded
	}
}

// inherit takes over the rate and the cap of an earlier leader's grant. What the
// member holds of it, and what it has used of it and was not acknowledged, leaves
// the pool when the report is settled.
func (al *allocation) inherit(now quota.Time, e *quota.ReportEntry) {
	al.rate, al.charged = e.Learn.Rate, e.Learn.Rate
	al.lease = now.Add(e.Learn.LeaseLeft)
	al.from = now.Add(-inheritMargin) // the report was on its way for a while
	al.cap = max(e.Held, e.Learn.Cap) // not out: what was used must not come back beyond the old cap
	al.capped = al.cap
}

// inheritMargin is charged for the time that a report to a new leader took;
// the next report returns what was too much.
const inheritMargin = 50 * time.Millisecond

// accrue moves the allocation to now and returns what its rate yielded, rounded up:
// the member rounds down.
func (al *allocation) accrue(now quota.Time) quota.Units {
	end := min(now, al.lease.Add(leaseSlack))
	dt := end.Sub(al.from)
	var got quota.Units
	if dt > 0 && al.charged > 0 {
		got = perSecondCeil(al.charged, dt)
	}
	al.from = max(al.from, now)
	if now >= al.lease.Add(leaseSlack) {
		al.rate, al.charged, al.demand = 0, 0, 0
	}
	al.out, al.ret = al.out.Plus(got), al.ret.Plus(got)
	return got
}

// leaseSlack is how much later than the leader a member may see its lease end:
// the grant took time to arrive.
const leaseSlack = 50 * time.Millisecond

// standing is the most that the member can spend at one moment: it accrues up
// to its cap, and granted tokens that are on their way come on top.
func (al *allocation) standing() quota.Units { return max(0, min(al.out, al.most())) }

func (al *allocation) most() quota.Units { return max(al.capped, al.held).Plus(al.flown) }

// settle compares a report with the books and returns the difference. past says
// that the report is all about a window that has ended: what is held there is
// void. Else before of what the member has ever spent is of such windows.
func (al *allocation) settle(now, started quota.Time, e *quota.ReportEntry, limit *quota.Limit, past bool, before quota.Units) delta {
	burst := limit.BurstUnits()
	spent := al.used + al.over
	if e.Refunded < al.refunded { // it counts from 0 in each window
		al.refunded = 0
	}
	d := delta{
		used: max(0, e.Used-al.used), over: max(0, e.Overdrawn-al.over), refused: max(0, e.Refused-al.refused),
		refunded: max(0, e.Refunded-al.refunded),
		owed:     max(0, e.Charged-al.owed), alone: max(0, e.Alone-al.alone),
	}
	al.owed, al.alone = max(al.owed, e.Charged), max(al.alone, e.Alone)
	al.used, al.over, al.refused, al.refunded = max(al.used, e.Used), max(al.over, e.Overdrawn), max(al.refused, e.Refused), max(al.refunded, e.Refunded)
	al.acknowledge(e.Applied)
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
	standing := min(held.Plus(al.coming(now, started, e)), burst) // nobody is granted more
	out := standing
	if limit.Ceiling == quota.Hard { // it holds its cap at most, however long ago it said so; beyond that it may have spent
		standing = min(standing, max(held, al.capped).Plus(al.flown))
	}
	left, ret := al.out-d.used, al.ret
	al.out, al.ret, al.held, al.inFlight = out, standing, min(held, burst), e.InFlight
	d.back = min(left, ret) - standing
	if limit.Ceiling == quota.Hard && limit.Kind == quota.TokenBucket {
		d.back = al.exactly(left, max(0, e.Returned-al.returned), ret-d.used)
	}
	al.returned = e.Returned
	al.want, al.restored, al.carried = e.Want, false, false
	if al.applied(e) {
		al.charged, al.capped, al.granted = al.rate, al.cap, 0
	}
	return d
}

// exactly splits what is left of what the member was given into what stands with
// it, what may come back later, and what comes back now. Certain is what it holds
// or gets and what was returned: it has been somewhere all the time. The rest may have
// overflowed: when it was used is not known. Had all been used at the last moment, ret
// less that would be left, and so much there has been room for at every moment.
func (al *allocation) exactly(left, returned, least quota.Units) quota.Units {
	stands, sure := al.standing(), (al.held + returned).Plus(al.flown)
	allowed := min(max(sure, least), left)
	al.ret = min(max(allowed, stands), al.out)
	return allowed - al.ret
}

func (al *allocation) applied(e *quota.ReportEntry) bool { return e.Applied >= al.grants }

// acknowledge forgets the grants that the member has applied or will never
// apply.
func (al *allocation) acknowledge(applied quota.Seq) {
	kept := al.flight[:0]
	al.flown = 0
	for _, f := range al.flight {
		if f.seq > applied {
			kept = append(kept, f)
			al.flown = al.flown.Plus(f.tokens)
		}
	}
	al.flight = kept
}

// fly notes that tokens are on their way in the last grant.
func (al *allocation) fly(tokens quota.Units) {
	al.flight = append(al.flight, flight{al.grants, tokens})
	al.flown = al.flown.Plus(tokens)
}

// coming is what the member does not hold yet but may: the rate since it last
// accrued, and tokens of grants that it has not applied.
//
// What a member reports to a new leader, it wrote after that leader had started.
func (al *allocation) coming(now, started quota.Time, e *quota.ReportEntry) quota.Units {
	var sum quota.Units
	if e.Learn != nil && al.learns {
		dt := min(now.Sub(started), max(0, e.Learn.LeaseLeft)+leaseSlack)
		sum = perSecondCeil(e.Learn.Rate, max(0, dt))
	}
	from := e.AccruedTo
	if !al.applied(e) && from == 0 {
		from = al.granted // it may yet apply the grant, from its start; never again what it has accrued
	}
	if dt := min(now, al.lease.Add(leaseSlack)).Sub(from); from > 0 && al.charged > 0 {
		sum = perSecondCeil(al.charged, min(dt, maxComing))
	}
	return min(sum.Plus(al.flown), quota.Most)
}

// maxComing bounds what a report with a strange clock can claim.
const maxComing = time.Minute

// perSecond returns what a rate yields in d, rounded down.
func perSecond(rate quota.Units, d time.Duration) quota.Units {
	return quota.Units(quota.MulDiv(int64(rate), int64(d), int64(time.Second)))
}

func perSecondCeil(rate quota.Units, d time.Duration) quota.Units {
	return quota.Units(quota.MulDivCeil(int64(rate), int64(d), int64(time.Second)))
}
