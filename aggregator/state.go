package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// phase is the state of a bucket in its epoch.
type phase uint8

const (
	closed  phase = iota // holds nothing; the leader has no allocation for it
	open                 // reports, and receives grants
	closing              // has sent its final report
)

// state is the slow part of a bucket, guarded by bucket.mu, in groups. Times are on the member's clock. The package
// documentation lists the fields and bytes of each group.
//
// Invariant: used = in - held - allocated, whatever the hot path does at the same time.
type state struct {
	refState
	smallState
	openState
	countState
	leaseState
	estimateState
	reportState
}

// newState returns the state of a bucket that has none.
func newState() state {
	return state{refState: refState{windowState: &noWindow, rareState: &noRare}}
}

// refState holds the pointers of the state. They come first, so the garbage collector reads only the first part of a
// bucket.
type refState struct {
	as           *quota.Limit // the limit whose rules the counters follow: b.limit(), unless that has just changed
	*windowState              // &noWindow while it would be zero; see bucket.setWindow
	*rareState                // &noRare while it would be zero; see bucket.rare
}

// noWindow and noRare are zero and never written: a bucket without windows, or without any of the rare fields, reads
// these.
var (
	noWindow windowState
	noRare   rareState
)

// rare returns the rare fields, to be written.
func (b *bucket) rare() *rareState {
	if b.rareState == &noRare {
		b.rareState = &rareState{}
	}
	return b.rareState
}

// ownWindow returns the fields of windows, to be written.
func (b *bucket) ownWindow() *windowState {
	if b.windowState == &noWindow {
		b.windowState = &windowState{}
	}
	return b.windowState
}

// tryState returns the state, and lets the caller change a copy, until it sets b.state to the result.
func (b *bucket) tryState() (was state) {
	was = b.state
	if was.windowState != &noWindow {
		w := *was.windowState
		b.windowState = &w
	}
	if was.rareState != &noRare {
		r := *was.rareState
		b.rareState = &r
	}
	return was
}

// smallState holds the fields of less than eight bytes, side by side.
type smallState struct {
	ref     uint32 // the leader's number for the key in this term and epoch, or 0
	openIdx uint32 // position among the open buckets of the range, from 1; 0 means it is not among them
	share   uint32 // part of the limit's rate as of the last grants, in millionths (averageShare)
	voids   uint32 // times in this epoch that all allocations to clients ended at once

	phase    phase
	dead     bool // dropped from the table
	recalled bool // the leader recalls tokens that are not needed

	hasLevel       bool // a leader has reported the level
	fresh          bool // idle here since the last grant, for longer than others is valid
	guessing       bool // the last estimate was a guess: ask at once
	bound          bool // credit is used up, while the cluster may have more
	noneFree       bool // at the last grant, the leader had less free than this member wanted and did not hold
	grantedNothing bool // the last grant had neither tokens nor rate: the leader may decide the key itself
	central        bool // GrantEntry.Central of the last grant
	noGrantYet     bool // no grant has arrived since the key was opened, or since its close began

	calm           bool // reports only when it closes: see openCalm
	largeOverdraft bool // large overdraft since the last report
	wantsLevel     bool // a caller waits for the level
	overdue        bool // a recall arrived while an answer was overdue: report again at once
	askAgain       bool // more was wanted while a report was on its way
}

// openState holds the epoch of the key.
type openState struct {
	term    quota.Term // of the last applied grant
	epoch   quota.Seq
	changed quota.Time // when the key was opened, or if it is closed, when that was
	lastUse quota.Time // last report with a change
}

// countState holds the counters of this epoch.
type countState struct {
	in          quota.Units // everything added to held in this epoch, less returned tokens
	over        quota.Units // overdraft: admitted beyond held tokens
	unpaid      quota.Units // part of over since the last report that the next grant pays for (repay)
	refused     quota.Units
	refunded    quota.Units // given back by callers, or released; in this window, for kinds with windows
	undecided   quota.Units // charged by calls that other counters may still refuse: not reported, and the key stays open
	returned    quota.Units // given back of held in this epoch, as far as the cap has had room for it since
	unconfirmed quota.Units // part of returned that no answered report contained
	tallied     tallied
}

// rareState holds fields that are zero in most buckets.
type rareState struct {
	cancelled *cancelled
	local     *localBucket // state of the limit's when_cut_off policy, while cut off
	slot      JournalSlot  // slot in which the counts outlive the process, or nil

	allocated quota.Units // allocated to clients and not settled: counts as held (allocate.go)
	unbacked  quota.Units // part of allocated that no leader has granted: this node is cut off

	inFlight quota.Units // Concurrency: acquired and not released
	beyond   quota.Units // part of inFlight that was not held: released tokens pay for it first

	charged    quota.Units // part of over that callers charged after the fact
	overCutOff quota.Units // part of over that was admitted while cut off
	saved      quota.Units // part of used and over of this epoch that a leader has committed

	credit quota.Units // GrantEntry.Credit of the last grant
	aside  quota.Units // GrantEntry.Aside of the last grant

	largest quota.Units // in clients: ReportEntry.Cost of the next report

	denied     quota.Time // until then the leader refuses deniedCost and higher costs, which this node repeats without asking
	deniedCost quota.Units
	answered   quota.Time // leader's time of its last answer, until a grant is newer

	pledged quota.Units // sum of Ask.Held of the decide requests that are under way

	refundedFrom quota.Time // hard token buckets: none of refunded was given back before

	tries    uint32 // repetitions of the unanswered report
	left     uint8  // times that undecided charges were reported as use: see leave
	outgrown bool   // allocated before the limit was cut: what comes back goes to the leader
}

// resetRare resets the rare fields that belong to an epoch.
func (b *bucket) resetRare() {
	r := b.rareState
	if r == &noRare {
		return
	}
	r.allocated, r.unbacked, r.outgrown, r.charged, r.overCutOff, r.saved, r.tries, r.refundedFrom = 0, 0, false, 0, 0, 0, 0, 0
	b.dropZeroRare()
}

// dropZeroRare frees the rare fields if all are zero.
func (b *bucket) dropZeroRare() {
	if *b.rareState == (rareState{}) {
		b.rareState = &noRare
	}
}

// windowState holds the current window, for limits with windows.
type windowState struct {
	since, until    quota.Time  // bounds of the window
	win             quota.Time  // start of the window on the leader's clock
	before          quota.Units // used and over at the start of the window
	undecidedBefore quota.Units // part of before that is undecided
	slope           quota.Units // SlidingWindow: gain of the level per second
}

// setWindow sets the window; zero is no window.
func (b *bucket) setWindow(win, since, until quota.Time) {
	if b.windowState != &noWindow || until != 0 {
		w := b.ownWindow()
		w.win, w.since, w.until = win, since, until
	}
}

// setBefore sets the use before the window.
func (b *bucket) setBefore(before, undecided quota.Units) {
	if b.windowState != &noWindow || before != 0 || undecided != 0 {
		w := b.ownWindow()
		w.before, w.undecidedBefore = before, undecided
	}
}

// setSlope sets the gain of a sliding window.
func (b *bucket) setSlope(slope quota.Units) {
	if b.windowState != &noWindow || slope != 0 {
		b.ownWindow().slope = slope
	}
}

// leaseState holds the last grant: a rate and a cap until the lease ends.
type leaseState struct {
	rate, cap quota.Units
	from      quota.Time  // held includes the rate up to here
	base      quota.Units // held and allocated at from, plus tokens added or given back since
	lease     quota.Time
	offset    int64         // member's clock less leader's clock, for from
	lag       time.Duration // offset is too high by at most this
	applied   quota.Seq
}

// estimateState estimates the global level.
type estimateState struct {
	est      quota.Units // global level at estAt
	estAt    quota.Time
	estUsed  quota.Units // own use that est includes
	estBack  quota.Units // own refunds that est includes
	level    quota.Units // last level that a leader reported
	levelAt  quota.Time  // time of level on the member's clock, if hasLevel
	others   quota.Units // demand of the others, per second
	presumed quota.Units // subtracted from est for the others' use since levelAt
	stale    quota.Time  // end of the validity of others
	looked   quota.Time  // last call of estimate
}

// reportState holds the last report and its answer, and the reasons why the next one is urgent.
type reportState struct {
	sent      counts      // counters in the last report
	sentBack  quota.Units // returned in the last report
	acked     quota.Units // used+over in the last answered report
	ackedOver quota.Units // over in the last answered report
	ackedBack quota.Units // refunded in the last answered report
	want      quota.Units // largest cost that held tokens could not pay, or the sum of waiting costs
	wanted    quota.Units // want in the last report
	demand    quota.Units // own demand per second, as of the last report
	pending   quota.Seq   // number of the unanswered report, or 0
	sentAt    quota.Time
}

// setDenied remembers a refusal by the leader, which this node repeats without asking; until is 0 for none.
func (b *bucket) setDenied(until quota.Time, cost quota.Units) {
	if b.denied != 0 || until != 0 {
		r := b.rare()
		r.denied, r.deniedCost = until, cost
	}
}

// setAnswered sets the leader's time of its last answer.
func (b *bucket) setAnswered(at quota.Time) {
	if b.answered != at {
		b.rare().answered = at
		b.dropZeroRare()
	}
}

// setCredit sets what the last grant says.
func (b *bucket) setCredit(credit, aside quota.Units) {
	if b.credit != 0 || b.aside != 0 || credit != 0 || aside != 0 {
		r := b.rare()
		r.credit, r.aside = credit, aside
	}
}

// counts holds the cumulative counters at one moment.
type counts struct{ used, over, refused, back quota.Units }

func (c counts) spent() quota.Units     { return c.used.Plus(c.over) }
func (c counts) attempted() quota.Units { return c.spent().Plus(c.refused) }

func (b *bucket) counts() counts {
	return counts{b.in - quota.Units(b.hot().held.Load()) - b.allocated, b.over, b.refused, b.refunded}
}

// decidedCounts returns the counters without the undecided charges. These count as overdraft, as far as there is any
// since the last report, and undo gives back in the same order. So neither used nor over ever falls below a report.
func (b *bucket) decidedCounts() counts {
	c := b.counts()
	beyond := min(b.undecided, c.over-b.sent.over)
	c.over, c.used = c.over-beyond, c.used-(b.undecided-beyond)
	return c
}

// earned returns the yield of a rate between from and to, and the moment up to which that is exact, so that rounding
// down loses nothing over time.
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

// accrue adds the granted rate's yield up to now or the end of the lease, up to cap.
func (b *bucket) accrue(now quota.Time) {
	if b.earn(now) {
		b.base = quota.Units(b.hot().held.Load()) + b.allocated + b.undecided // these may be held again
	}
	if now >= b.lease {
		b.expire()
	}
}

// earn accrues up to a moment that may be in the past, and reports whether the rate had a yield. The moments at which
// tokens were taken since the last accrual are unknown. If they were held until just now, less fitted under the cap.
// So base counts them as held until the bucket accrues up to the present (accrue).
func (b *bucket) earn(until quota.Time) bool {
	end := min(until, b.lease)
	if b.rate <= 0 || end <= b.from {
		return false
	}
	got, from := earned(b.rate, b.from, end)
	b.from = from
	b.addHeld(min(got, max(0, b.cap-b.base)))
	b.dropOverflowed()
	return true
}

// dropOverflowed withdraws unconfirmed returned tokens for which the yield since leaves no room under the cap. The leader sets
// aside no more than the cap, so tokens beyond it may have overflowed.
func (b *bucket) dropOverflowed() {
	if over := b.unconfirmed - max(0, b.cap-b.base); over > 0 && b.unconfirmed > 0 {
		over = min(over, b.unconfirmed)
		b.returned, b.unconfirmed = b.returned-over, b.unconfirmed-over
	}
}

// countReturned counts tokens as returned: they are no longer held, and were not used.
func (b *bucket) countReturned(u quota.Units) {
	b.in -= u
	b.returned, b.unconfirmed = b.returned.Count(u), b.unconfirmed.Count(u)
}

// acknowledgeReturned notes that a leader has booked the returned tokens of the last report.
func (b *bucket) acknowledgeReturned() {
	b.returned = max(b.returned, b.sentBack)
	b.unconfirmed = b.returned - b.sentBack
}

// addHeld adds to held; never a negative amount, nor more than the counters can count.
func (b *bucket) addHeld(u quota.Units) {
	if u = min(u, quota.Most-b.in); u > 0 {
		b.in, b.base = b.in+u, b.base+u
		if b.slot != nil && !b.windowed() {
			b.writeSlot() // before the hot path can take it
		}
		b.hot().held.Add(int64(u))
		if b.limit().Kind.Windowed() { // only taken under the lock: not used yet
			b.writeSlot()
		}
	}
}

// countOverdraft counts an overdraft. The leader does not know of it when it grants, so its grant may exceed what is
// left: see repay.
func (b *bucket) countOverdraft(u quota.Units) { b.over, b.unpaid = b.over.Count(u), b.unpaid.Count(u) }

// countCutOff counts the part of an overdraft that was admitted while cut off.
func (b *bucket) countCutOff(u quota.Units) {
	if u != 0 {
		b.rare().overCutOff = b.overCutOff.Count(u)
	}
}

// countCharged counts the part of an overdraft that callers charged after the fact.
func (b *bucket) countCharged(u quota.Units) {
	if u != 0 {
		b.rare().charged = b.charged.Count(u)
	}
}

// repay pays the overdraft since the last report out of held tokens, as far as these exceed the estimate: spent by
// callers, they would be admitted in addition to the overdraft.
func (b *bucket) repay() {
	left := b.est - (b.counts().spent() - b.estUsed) + b.refunded - b.estBack
	due := min(b.unpaid, quota.Units(b.hot().held.Load())+b.allocated-max(0, left))
	if due <= 0 {
		return
	}
	paid := due - b.spend(due)
	b.unpaid -= paid
	b.over -= paid
	b.payBeyond(paid)
}

// payBeyond pays for places in flight that were not held.
func (b *bucket) payBeyond(u quota.Units) {
	if b.beyond > 0 {
		b.rare().beyond -= min(b.beyond, u)
	}
}

// void ends all held and allocated tokens of a window that has ended.
func (b *bucket) void() {
	b.returnAbove(0)
	b.voidAllocations()
	b.unpaid = 0
}

// returnAbove returns held tokens above u to the leader, with the next report.
func (b *bucket) returnAbove(u quota.Units) {
	for {
		h := b.hot().held.Load()
		if h <= int64(u) {
			return
		}
		if b.hot().held.CompareAndSwap(h, int64(u)) {
			b.countReturned(quota.Units(h) - u)
			b.base = u + b.allocated + b.undecided
			b.writeSlot()
			return
		}
	}
}

// expire ends the lease: the rate ends and held tokens are void.
func (b *bucket) expire() {
	b.rate = 0
	b.returnAbove(0)
	b.hot().low.Store(0)
}

// estimate advances the estimated global level to now and returns it.
func (b *bucket) estimate(now quota.Time, l *quota.Limit, cut bool) quota.Units {
	spent := b.counts().spent()
	b.est = b.est.Plus(b.estUsed - spent).Plus(b.refunded - b.estBack)
	b.estUsed, b.estBack = spent, b.refunded
	if cut { // the others' use is unknown: count on the whole limit
		b.est += b.presumed
		b.presumed, b.others = 0, 0
	}
	// After idle time without a grant, the others' demand is unknown. A key in use receives grants, or has no leader:
	// then the others' demand continues.
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

// refill adds the limit's yield since estAt to the estimate, less the others' probable use, which it adds to
// presumed.
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
		b.presumed += before.Plus(accrued(rate, b.estAt.Sub(since))) - b.est
	}
}

// refillExactly adds the rate's yield since estAt. It is exact for rates below a unit per second too.
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

// guesses reports whether admitting beyond on the estimate of a soft limit would be a guess: since the last level,
// this node has overdrawn its part (see part), and the leader has tokens to request.
func (b *bucket) guesses(l *quota.Limit, beyond quota.Units, nodes int) bool {
	return l.Ceiling == quota.Soft && (!b.noneFree || l.Kind == quota.Concurrency) && b.over-b.ackedOver+beyond > b.part(l, nodes)
}

// mayGuess reports whether a client, one level below the nodes, may admit beyond on the estimate although that is a
// guess and it cannot wait for a grant: if all peers do so at once, few can be right. Without a recent grant it
// admits one request in any case: it may be the only one (TestClientsInNeed in internal/sim).
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
	since := accrued(b.gains(l), max(0, now.Sub(b.levelAt)))
	return out+beyond <= b.credit.Plus(quota.RoundUnits(part*float64(since)))
}

// part returns the overdraft of this node with which, if all nodes saw the same burst, half of the level would be
// left. It is a quarter of that after the key was idle here, when most of the level may be gone.
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
	return b.phase != closed && now.Sub(b.changed) >= lease
}
