package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// holder is what the ledger knows of one member's part in one account, in groups. What is looked at of
// every member when one of them reports lies first, side by side. The package documentation lists fields
// and bytes of each group.
//
// Invariants: charged >= rate; out counts every token that the member may
// hold, be on its way to hold, or have spent since its last report; ret <= out.
type holder struct {
	lifeState
	heldState
	demandState
	countState
	durableState
}

// lifeState identifies the member's process, and records whether it is alive.
type lifeState struct {
	node     quota.NodeID
	inc      quota.Incarnation
	epoch    quota.Seq
	closed   bool
	pardon   bool // the key was reset since the last report
	restored bool // not settled in this term
	carried  bool // restored, and out in a later window than the log's: see account.turn
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
	due      float64     // Units: what it has used less than its part of what all used
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
	overflowed quota.Units // account.overflowed as of the last report
	took       quota.Units // used in the last report
	gave       quota.Units // given back with it
}

// durableState holds the member's committed counts, for accounts whose counts endure.
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
func (h *holder) void() {
	h.out, h.ret, h.held, h.rate, h.charged = 0, 0, 0, 0, 0
	h.cap, h.capped, h.spoken, h.flight, h.flown = 0, 0, 0, h.flight[:0], 0
	h.carried = false
}

// begin starts an epoch. Counters start so that the first settle charges what
// no leader has acknowledged.
func (h *holder) begin(now quota.Time, e *quota.ReportEntry) {
	h.epoch, h.closed = e.Epoch, false
	total := e.Used + e.Overdrawn
	known := total - min(e.Unreported, total)
	h.used = min(known, e.Used)
	h.over = known - h.used
	h.refused, h.refunded, h.saved, h.returned = 0, 0, 0, 0
	h.unpromise() // their counters were the last epoch's
	h.owed, h.alone = max(0, e.Charged-e.Unreported), max(0, e.Alone-e.Unreported)
	h.grants = max(h.grants, e.Applied) // numbers continue, or the member would ignore ours
	h.from, h.demand, h.counts = now, 0, series{}
	if e.Learn != nil && e.Learn.Cap > 0 { // granted to in this epoch, so it has received a grant before
		h.refused, h.refunded = e.Refused, e.Refunded
	}
}

// inherit takes over the rate and the cap of an earlier leader's grant. What the
// member holds of it, and what it has used of it and was not acknowledged, leaves
// the pool when the report is settled.
func (h *holder) inherit(now quota.Time, e *quota.ReportEntry) {
	h.rate, h.charged = e.Learn.Rate, e.Learn.Rate
	h.lease = now.Add(e.Learn.LeaseLeft)
	h.from = now.Add(-inheritMargin) // the report was on its way for a while
	h.cap = max(e.Held, e.Learn.Cap) // not out: what was used must not come back beyond the old cap
	h.capped = h.cap
}

// inheritMargin is charged for the time that a report to a new leader took;
// the next report returns what was too much.
const inheritMargin = 50 * time.Millisecond

// accrue moves the holder to now and returns what its rate yielded, rounded up:
// the member rounds down.
func (h *holder) accrue(now quota.Time) quota.Units {
	end := min(now, h.lease.Add(leaseSlack))
	dt := end.Sub(h.from)
	var got quota.Units
	if dt > 0 && h.charged > 0 {
		got = perSecondCeil(h.charged, dt)
	}
	h.from = max(h.from, now)
	if now >= h.lease.Add(leaseSlack) {
		h.rate, h.charged, h.demand = 0, 0, 0
	}
	h.out, h.ret = h.out.Plus(got), h.ret.Plus(got)
	return got
}

// leaseSlack is how much later than the leader a member may see its lease end:
// the grant took time to arrive.
const leaseSlack = 50 * time.Millisecond

// standing is the most that the member can spend at one moment: it accrues up
// to its cap, and granted tokens that are on their way come on top.
func (h *holder) standing() quota.Units { return max(0, min(h.out, h.most())) }

func (h *holder) most() quota.Units { return max(h.capped, h.held).Plus(h.flown) }

// settle compares a report with the books and returns the difference. past says
// that the report is all about a window that has ended: what is held there is
// void. Else before of what the member has ever spent is of such windows.
func (h *holder) settle(now, started quota.Time, e *quota.ReportEntry, limit *quota.Limit, past bool, before quota.Units) delta {
	burst := limit.BurstUnits()
	spent := h.used + h.over
	if e.Refunded < h.refunded { // it counts from 0 in each window
		h.refunded = 0
	}
	d := delta{
		used: max(0, e.Used-h.used), over: max(0, e.Overdrawn-h.over), refused: max(0, e.Refused-h.refused),
		refunded: max(0, e.Refunded-h.refunded),
		owed:     max(0, e.Charged-h.owed), alone: max(0, e.Alone-h.alone),
	}
	h.owed, h.alone = max(h.owed, e.Charged), max(h.alone, e.Alone)
	h.used, h.over, h.refused, h.refunded = max(h.used, e.Used), max(h.over, e.Overdrawn), max(h.refused, e.Refused), max(h.refunded, e.Refunded)
	h.acknowledge(e.Applied)
	if e.Stopped && h.applied(e) {
		h.rate, h.charged = 0, 0
	}
	held := e.Held
	switch {
	case past:
		held, d.late = 0, d.used+d.over
	case e.Window != 0:
		d.late = min(max(0, before-spent), d.used+d.over)
	}
	standing := min(held.Plus(h.coming(now, started, e)), burst) // nobody is granted more
	out := standing
	if limit.Ceiling == quota.Hard { // it holds its cap at most, however long ago it said so; beyond that it may have spent
		standing = min(standing, max(held, h.capped).Plus(h.flown))
	}
	left, ret := h.out-d.used, h.ret
	h.out, h.ret, h.held, h.inFlight = out, standing, min(held, burst), e.InFlight
	d.back = min(left, ret) - standing
	if limit.Ceiling == quota.Hard && limit.Kind == quota.TokenBucket {
		d.back = h.exactly(left, max(0, e.Returned-h.returned), ret-d.used)
	}
	h.returned = e.Returned
	h.want, h.restored, h.carried = e.Want, false, false
	if h.applied(e) {
		h.charged, h.capped, h.granted = h.rate, h.cap, 0
	}
	return d
}

// exactly splits what is left of what the member was given into what stands with
// it, what may come back later, and what comes back now. Certain is what it holds
// or gets and what was returned: it has been somewhere all the time. The rest may have
// overflowed: when it was used is not known. Had all been used at the last moment, ret
// less that would be left, and so much there has been room for at every moment.
func (h *holder) exactly(left, returned, least quota.Units) quota.Units {
	stands, sure := h.standing(), (h.held + returned).Plus(h.flown)
	allowed := min(max(sure, least), left)
	h.ret = min(max(allowed, stands), h.out)
	return allowed - h.ret
}

func (h *holder) applied(e *quota.ReportEntry) bool { return e.Applied >= h.grants }

// acknowledge forgets the grants that the member has applied or will never
// apply.
func (h *holder) acknowledge(applied quota.Seq) {
	kept := h.flight[:0]
	h.flown = 0
	for _, f := range h.flight {
		if f.seq > applied {
			kept = append(kept, f)
			h.flown = h.flown.Plus(f.tokens)
		}
	}
	h.flight = kept
}

// fly notes that tokens are on their way in the last grant.
func (h *holder) fly(tokens quota.Units) {
	h.flight = append(h.flight, flight{h.grants, tokens})
	h.flown = h.flown.Plus(tokens)
}

// coming is what the member does not hold yet but may: the rate since it last
// accrued, and tokens of grants that it has not applied.
//
// What a member reports to a new leader, it wrote after that leader had started.
func (h *holder) coming(now, started quota.Time, e *quota.ReportEntry) quota.Units {
	var sum quota.Units
	if e.Learn != nil && h.learns {
		dt := min(now.Sub(started), max(0, e.Learn.LeaseLeft)+leaseSlack)
		sum = perSecondCeil(e.Learn.Rate, max(0, dt))
	}
	from := e.AccruedTo
	if !h.applied(e) && from == 0 {
		from = h.granted // it may yet apply the grant, from its start; never again what it has accrued
	}
	if dt := min(now, h.lease.Add(leaseSlack)).Sub(from); from > 0 && h.charged > 0 {
		sum = perSecondCeil(h.charged, min(dt, maxComing))
	}
	return min(sum.Plus(h.flown), quota.Most)
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
