package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// phase of a bucket.
type phase uint8

const (
	closed  phase = iota // holds nothing; the leader does not know this member
	open                 // reports and is granted
	closing              // has sent its final report
)

// state is the slow part of a bucket, guarded by bucket.mu, in groups. Times are local. The package
// documentation lists fields and bytes of each group.
//
// Invariant: used = in - held - allocations, whatever the hot path does at the same time.
type state struct {
	openState
	countState
	allocationState
	flightState
	windowState
	leaseState
	durableState
	estimateState
	reportState
	deniedState
	aloneState
}

// openState holds the phase of the key, and the epoch that it is open in.
type openState struct {
	phase    phase
	dead     bool       // dropped from the table
	recalled bool       // the leader wants back unneeded tokens
	ref      uint32     // the leader's number for the key in this term and epoch, or 0
	term     quota.Term // of the last applied grant
	epoch    quota.Seq
	opened   quota.Time
	closedAt quota.Time
	lastUse  quota.Time   // last report that found a change
	as       *quota.Limit // the limit that is counted by: b.limit(), unless that has just changed
	openIdx  int          // its place among the open buckets
}

// countState are the counters of this epoch.
type countState struct {
	in          quota.Units // everything put into held in this epoch, less returns
	over        quota.Units // admitted beyond held
	unpaid      quota.Units // part of over since the last report that what is granted pays for
	charged     quota.Units // part of over that callers charged after the fact
	overCutOff  quota.Units // part of over that was admitted while cut off
	refused     quota.Units
	refunded    quota.Units // given back by callers, or released: in this window, if it has any
	returned    quota.Units // of what was held in this epoch, as far as there was room for it since
	unconfirmed quota.Units // part of that which no report told that was answered
	tallied     tallied
}

// allocationState counts the tokens that clients of this node hold (allocate.go).
type allocationState struct {
	allocated quota.Units // allocated to clients, and not settled: counts as held
	unbacked  quota.Units // part of allocations that no leader has granted: this node is cut off
	voids     uint32      // how often in this epoch all allocations ended at once
}

// flightState counts requests in flight, for concurrency limits.
type flightState struct {
	inFlight quota.Units // acquired and not released
	beyond   quota.Units // part of it that was beyond held: what is released pays it back first
}

// windowState holds the current window, for limits with windows.
type windowState struct {
	since, until quota.Time    // the window, local times
	win          quota.Time    // its start on the leader's clock
	lag          time.Duration // until is late by this at most
	before       quota.Units   // used and over when it began
	slope        quota.Units   // SlidingWindow: what the level gains per second
}

// leaseState holds the last grant: a rate and a cap until the lease ends.
type leaseState struct {
	rate, cap quota.Units
	from      quota.Time  // held includes the rate up to here
	base      quota.Units // what was held then, and put in or given back since
	lease     quota.Time
	offset    int64 // local minus leader's clock, for from
	applied   quota.Seq
	share     int64 // part of the rate when last heard, in millionths
}

// durableState links the counts of durable limits to the log and the journal.
type durableState struct {
	saved quota.Units // part of used and over of this epoch that a leader has committed
	place JournalSlot // where the counts outlive the process, or nil
}

// estimateState estimates the global level.
type estimateState struct {
	est      quota.Units // estimated global level at estAt
	estAt    quota.Time
	estUsed  quota.Units // own use that est includes
	estBack  quota.Units // own refunds that est includes
	level    quota.Units // as told
	levelAt  quota.Time  // when a leader told the level, if one has
	others   quota.Units // their demand per second
	presumed quota.Units // taken off est for them since the leader told it
	stale    quota.Time  // when others says nothing any more
	looked   quota.Time  // when the estimate was last asked for
	credit   quota.Units // as told
	aside    quota.Units // as told

	hasLevel       bool // a leader has told the level
	fresh          bool // it was idle here, and nobody has told anything since
	guessing       bool // the last estimate was a guess: ask at once
	bound          bool // it has used credit up, while the cluster may have more
	noneFree       bool // nothing was left to ask for after the last grant
	grantedNothing bool // the last grant brought nothing: the leader may decide the key itself
}

// reportState is the last report and its answer, and why the next one is urgent.
type reportState struct {
	sent      counts      // as of the last report
	sentBack  quota.Units // returned as of then
	acked     quota.Units // used+over as of the last answered report
	ackedOver quota.Units // over as of then
	ackedBack quota.Units // refunded as of then
	want      quota.Units // largest cost that held could not pay
	wanted    quota.Units // want of the last report
	demand    quota.Units // own, per second, as of the last report
	pending   quota.Seq   // report that is not answered, or 0
	tries     int         // reports before that one that were not either
	sentAt    quota.Time
	cancelled *cancelled

	news       bool // much was overdrawn since the last report
	wantsLevel bool // a caller waits for the level
	overdue    bool // the leader has recalled, and an answer of its own is overdue: report again at once
	askAgain   bool // asked for more while a report was on its way
}

// deniedState remembers a refusal of the leader, which this node repeats without asking.
type deniedState struct {
	denied     quota.Time // until then the leader refuses deniedCost, and what costs more
	deniedCost quota.Units
}

// aloneState holds the state of the limit's when_cut_off policy.
type aloneState struct {
	apart *apart // while cut off
}

// counts are the cumulative counters at one moment.
type counts struct{ used, over, refused, back quota.Units }

func (c counts) spent() quota.Units     { return c.used.Plus(c.over) }
func (c counts) attempted() quota.Units { return c.spent().Plus(c.refused) }

func (b *bucket) counts() counts {
	return counts{b.in - quota.Units(b.hot().held.Load()) - b.allocated, b.over, b.refused, b.refunded}
}

// earned returns what a rate yields from from to to, and the moment up to which
// that is exact, so that rounding down loses nothing over time.
func earned(rate quota.Units, from, to quota.Time) (quota.Units, quota.Time) {
	dt := to.Sub(from)
	if dt == 0 {
		return 0, from
	}
	if rate <= 0 {
		return 0, to
	}
	got := quota.MulDiv(int64(rate), int64(dt), int64(time.Second))
	return quota.Units(got), from.Add(time.Duration(quota.MulDivCeil(got, int64(time.Second), int64(rate))))
}

// accrue adds the granted rate up to now or the end of the lease, up to cap.
func (b *bucket) accrue(now quota.Time) {
	if b.earn(now) {
		b.base = quota.Units(b.hot().held.Load()) + b.allocated
	}
	if now >= b.lease {
		b.expire()
	}
}

// earn is accrue up to a moment that may be past, and reports whether there was
// something to accrue. When the tokens gone since the last time were taken is not
// known: had they been there until just now, no more than this would have fitted.
// So they count as there until b has accrued up to the present.
func (b *bucket) earn(until quota.Time) bool {
	end := min(until, b.lease)
	if b.rate <= 0 || end <= b.from {
		return false
	}
	got, from := earned(b.rate, b.from, end)
	b.from = from
	b.put(min(got, max(0, b.cap-b.base)))
	b.crowd()
	return true
}

// crowd gives up what was given back, and not heard by a leader yet, as far as what has been
// accrued since leaves no room for it: the leader has set no more aside than the cap, so what
// is beyond it may have overflowed.
func (b *bucket) crowd() {
	if over := b.unconfirmed - max(0, b.cap-b.base); over > 0 && b.unconfirmed > 0 {
		over = min(over, b.unconfirmed)
		b.returned, b.unconfirmed = b.returned-over, b.unconfirmed-over
	}
}

// giveBack notes that so much of what was put into held is no longer there, and not used either.
func (b *bucket) giveBack(u quota.Units) {
	b.in -= u
	b.returned, b.unconfirmed = b.returned.Count(u), b.unconfirmed.Count(u)
}

// heard notes that a leader has booked what the last report told of what was given back.
func (b *bucket) heard() {
	b.returned = max(b.returned, b.sentBack)
	b.unconfirmed = b.returned - b.sentBack
}

// put adds to held, never a negative amount, nor more than counters can count.
func (b *bucket) put(u quota.Units) {
	if u = min(u, quota.Most-b.in); u > 0 {
		b.in, b.base = b.in+u, b.base+u
		if b.place != nil && !b.windowed() {
			b.note() // before anybody can take it
		}
		b.hot().held.Add(int64(u))
		if b.limit().Kind.Windowed() { // nobody takes that without the lock: it is not used
			b.note()
		}
	}
}

// overdrawn counts what was admitted beyond what is held. The leader does not know of it
// when it grants: what it grants may be more than is left (repay).
func (b *bucket) overdrawn(u quota.Units) { b.over, b.unpaid = b.over.Count(u), b.unpaid.Count(u) }

// repay pays for what was overdrawn since the last report out of what is held, as far as
// that is more than the estimate says is left: it would be admitted on top.
func (b *bucket) repay() {
	left := b.est - (b.counts().spent() - b.estUsed) + b.refunded - b.estBack
	due := min(b.unpaid, quota.Units(b.hot().held.Load())+b.allocated-max(0, left))
	if due <= 0 {
		return
	}
	paid := due - b.spend(due)
	b.unpaid -= paid
	b.over -= paid
	b.beyond -= min(b.beyond, paid)
}

// void ends what is held or allocated for a window that has ended.
func (b *bucket) void() {
	b.keep(0)
	b.voidAllocations()
	b.unpaid = 0
}

// keep returns everything above u to the leader: the next report shows it.
func (b *bucket) keep(u quota.Units) {
	for {
		h := b.hot().held.Load()
		if h <= int64(u) {
			return
		}
		if b.hot().held.CompareAndSwap(h, int64(u)) {
			b.giveBack(quota.Units(h) - u)
			b.base = u + b.allocated
			b.note()
			return
		}
	}
}

// expire ends the lease: what is held is void.
func (b *bucket) expire() {
	b.rate = 0
	b.keep(0)
	b.hot().low.Store(0)
}

// estimate brings the estimated global level to now and returns it.
func (b *bucket) estimate(now quota.Time, l *quota.Limit, cut bool) quota.Units {
	spent := b.counts().spent()
	b.est = b.est.Plus(b.estUsed - spent).Plus(b.refunded - b.estBack)
	b.estUsed, b.estBack = spent, b.refunded
	if cut { // nobody knows what the others used since: the limit is all ours
		b.est += b.presumed
		b.presumed, b.others = 0, 0
	}
	// A key that was idle here knows no more what the others do. One that is in use gets grants, or
	// has no leader: then the others continue.
	idle := now > b.stale && now.Sub(b.looked) > b.stale.Sub(b.levelAt)
	b.looked, b.fresh = now, b.fresh || idle
	if l.Kind == quota.TokenBucket && b.others == 0 {
		b.refillExactly(now, l.Rate)
	} else {
		b.refill(now, b.gains(l), idle)
	}
	b.est = min(b.est, l.BurstUnits())
	return b.est
}

// refill adds to the estimate what the limit yielded since, less what the
// others may have used of it; ceded sums up the latter.
func (b *bucket) refill(now quota.Time, rate quota.Units, idle bool) {
	if b.others > 0 && idle {
		b.advanceEst(max(b.stale, b.estAt), rate)
		b.others = 0
	}
	b.advanceEst(now, rate)
}

func (b *bucket) advanceEst(now quota.Time, rate quota.Units) {
	before, since := b.est, b.estAt
	if slope := rate - b.others; slope >= 0 {
		got, at := earned(slope, b.estAt, now)
		b.est, b.estAt = b.est.Plus(got), at
	} else {
		lost, at := earned(-slope, b.estAt, now)
		b.est, b.estAt = max(b.est-lost, min(b.est, 0)), at
	}
	if b.others > 0 {
		b.presumed += before.Plus(perSecond(rate, b.estAt.Sub(since))) - b.est
	}
}

// refillExactly adds what the rate yielded since: also of a rate that is less
// than a unit per second.
func (b *bucket) refillExactly(now quota.Time, r quota.Rate) {
	dt := now.Sub(b.estAt)
	tokens := int64(quota.FromTokens(r.Tokens))
	if dt == 0 || tokens <= 0 {
		return
	}
	got := quota.MulDiv(tokens, int64(dt), int64(r.Per))
	b.est = b.est.Plus(quota.Units(got))
	b.estAt = b.estAt.Add(time.Duration(quota.MulDivCeil(got, int64(r.Per), tokens)))
}

// guesses reports whether admitting so much on the estimate of a soft limit
// would be a mere guess: since the leader last told the level, this node has
// overdrawn what would be its part if all nodes saw the same burst, and there
// is something to ask for.
func (b *bucket) guesses(l *quota.Limit, beyond quota.Units, nodes int) bool {
	return l.Ceiling == quota.Soft && (!b.noneFree || l.Kind == quota.Concurrency) && b.over-b.ackedOver+beyond > b.part(l, nodes)
}

// mayGuess reports whether a member one level below may admit so much on the estimate
// although that is a guess and there is no time to ask: of peers that all do so at once,
// few may be right. Who has heard nothing lately admits one request in any case: it may
// be alone.
func (b *bucket) mayGuess(now quota.Time, l *quota.Limit, beyond, est quota.Units, peers int64) bool {
	if peers == 0 {
		return true
	}
	out := b.over - b.ackedOver
	if b.applied == 0 || b.fresh {
		return out <= 0 || out+beyond <= (est+out)/quota.Units(peers)
	}
	part := 1 / float64(peers)
	if all := float64(b.demand + b.others); all > 0 {
		part = max(part, float64(b.demand)/all)
	}
	since := perSecond(b.gains(l), max(0, now.Sub(b.levelAt)))
	return out+beyond <= b.credit.Plus(quota.RoundUnits(part*float64(since)))
}

// part is what this node may overdraw if all nodes see the same burst, and
// leave half of what there was; a quarter of it after the key was idle here, when
// most of it may be gone.
func (b *bucket) part(l *quota.Limit, nodes int) quota.Units {
	if b.stale > 0 && b.estAt > b.stale {
		nodes *= 4
	}
	known := l.BurstUnits()
	if b.applied > 0 {
		known = b.level
	}
	return known / quota.Units(2*nodes)
}

// cutOff reports whether no leader has answered for a whole lease.
func (b *bucket) cutOff(now quota.Time, lease time.Duration) bool {
	if b.hasLevel {
		return b.phase != closed && now >= b.lease
	}
	return b.phase != closed && now.Sub(b.opened) >= lease
}
