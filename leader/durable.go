package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// restore adds the members of a checkpoint's line to the bucket. Each one may hold, or may have
// used, all that the line promises it, so this amount leaves the pool until the member reports its
// use.
func (l *Ledger) restore(now quota.Time, b *bucket, kl *quota.KeyLevel) {
	if !b.endures() {
		return
	}
	at := min(kl.At, now)
	for i := range kl.Marks {
		al := allocationFromMark(&l.processes, &kl.Marks[i], at, b.limit.BurstUnits())
		if al.dead && b.windowChanged(now, kl) { // its promise was for the last window; others may have spent this one
			al.void()
		}
		m := l.members[al.node]
		if m == nil && !al.dead { // removed since, or not known yet
			l.Suspect(now, al.node)
			m = l.members[al.node]
		}
		switch {
		case al.dead:
		case m != nil && m.gone:
			al.accrue(max(at, min(m.goneAt, now)))
			al.markDead(now)
		case m != nil && m.inc > al.inc:
			al.accrue(now)
			al.markDead(now)
		default:
			al.accrue(now)
		}
		b.pool.Add(-al.out)
		l.recordLease(b.addAllocation(al))
	}
}

// windowChanged reports whether the line's promises are for a window that has ended.
func (b *bucket) windowChanged(now quota.Time, kl *quota.KeyLevel) bool {
	if !b.tier.Kind.Windowed() || b.tier.Kind == quota.SlidingWindow {
		return false
	}
	if kl.Period > 0 && b.tier.Kind == quota.PeriodicRefill { // one that nobody has used begins again without end
		return now >= kl.WindowStart.Add(kl.Period)
	}
	start, _ := b.pool.Bounds()
	return start != kl.WindowStart
}

// allocationFromMark returns the allocation that a line describes.
func allocationFromMark(ps *processes, m *quota.Mark, at quota.Time, burst quota.Units) allocation {
	al := allocation{
		openState:   openState{process: ps.of(m.Node, m.Incarnation), epoch: m.Epoch, restored: true, dead: m.Dead},
		heldState:   heldState{out: m.Out, returnable: m.Out, charged: m.Rate, from: at, lease: m.Until, capped: min(m.Cap, burst)},
		demandState: demandState{reported: at},
		countState:  countState{used: m.Used, over: m.Overdrawn},
	}
	al.setRefunded(m.Refunded)
	al.log().saved = m.Used.Plus(m.Overdrawn)
	al.log().promised = promise{at: at, total: al.saved(), high: al.saved().Plus(m.Out), rate: m.Rate, cap: m.Cap, until: m.Until, back: m.Refunded}
	if m.Dead {
		al.log().diedAt, al.final = at, m.Out == 0
	}
	return al
}

// takeCommitted takes over the committed counts of which an earlier leader has notified the member. A new
// allocation has no other source.
func (al *allocation) takeCommitted(e *quota.ReportEntry) {
	total := e.Used.Plus(e.Overdrawn)
	known := min(e.Saved, total)
	al.used = min(known, e.Used)
	al.over = known - al.used
	al.log().saved = known
	al.setRefunded(0)
}

// resume takes over the rate that an earlier leader had granted. The bounds of the log hold until
// this report is settled.
func (al *allocation) resume(now quota.Time, e *quota.ReportEntry) {
	al.rate = e.Learn.Rate
	al.charged, al.from = max(al.charged, al.rate), now
	al.lease = now.Add(e.Learn.LeaseLeft)
	al.cap = max(e.Held, e.Learn.Cap)
	al.capped, al.settlesEarlier, al.returned = max(al.capped, al.cap), true, e.Returned
}

// mayNeedLine reports whether the next checkpoint may need a line of the bucket. It does not while too
// many promises wait for the log.
func (b *bucket) mayNeedLine() bool {
	if !b.dirty || b.pendingAnswers() >= maxPending {
		return false
	}
	if b.promises() {
		for i := range b.allocations {
			if len(b.allocations[i].log().pending) >= maxPending {
				return false
			}
		}
	}
	return true
}

// endures reports whether the bucket's counts outlive its leader.
func (b *bucket) endures() bool { return b.limit.Endures() }

// promises reports whether members may be granted only what is promised, in the log or implicitly.
func (b *bucket) promises() bool {
	return b.limit.Ceiling == quota.Hard && b.endures() && b.limit.Decide != quota.AtLeader
}

// promise is what a checkpoint grants a member at most: its counters plus its tokens may reach
// high, plus the yield of rate between at and until.
type promise struct {
	seq   quota.Seq // of the checkpoint
	at    quota.Time
	total quota.Units // counts of the member that the checkpoint states as booked
	high  quota.Units
	rate  quota.Units
	cap   quota.Units
	until quota.Time
	back  quota.Units // like total, of refunds
	final bool        // the process is dead, and none of its tokens are out

	beyondLog bool // high is more than the checkpoint says, by what is implicit
}

// exceedsBooked reports whether the promise lets the member use more than its booked counts.
func (p *promise) exceedsBooked() bool { return p.high > p.total || p.rate > 0 }

// mayUseMore reports whether the log promises the member more than its booked counts, now or after a
// pending commit.
func (al *allocation) mayUseMore() bool {
	for i := range al.log().pending {
		if al.log().pending[i].exceedsBooked() {
			return true
		}
	}
	return al.log().promised.exceedsBooked()
}

// maxPending bounds the uncommitted promises to one member, and those of the leader to itself.
const maxPending = 8

// logged is what the log states about a member, and what it should state. Only buckets whose counts
// endure have it.
type logged struct {
	promised promise   // committed
	pending  []promise // in checkpoints that are not known to be committed, oldest first
	planned  planned
	saved    quota.Units // committed part of used and over
	want     quota.Units // ReportEntry.Want as last reported
	answered quota.Units // see allocation.answered
	ended    quota.Units // the same, of windows that have ended: no longer out
	diedAt   quota.Time  // if it is dead

	// lapsed is the rate of a lease that has ended here, at lapsedUntil at the member, if reports from before may be on
	// their way; 0 if not.
	lapsed      quota.Units
	lapsedUntil quota.Time
	accruedTo   quota.Time // of the last report
}

// log returns logged, creating it. It is for buckets whose counts endure.
func (al *allocation) log() *logged {
	if al.logged == nil {
		al.logged = &logged{}
	}
	return al.logged
}

// saved is the committed part of used and over.
func (al *allocation) saved() quota.Units {
	if al.logged == nil {
		return 0
	}
	return al.logged.saved
}

func (al *allocation) unpromise() {
	if al.logged != nil {
		al.logged.promised, al.logged.pending, al.logged.lapsed, al.logged.saved = promise{}, nil, 0, 0
	}
}

func (al *allocation) unplan() {
	if al.logged != nil {
		al.logged.planned = planned{}
	}
}

// planned is what a division would have granted without the bounds of the promise.
type planned struct {
	tokens, rate, cap quota.Units
	short             bool // the promise did not cover all of it
}

// promisedBounds returns what may be granted to al: the least that the committed promise and all pending
// ones allow, since any pending one may be committed at any moment.
func (al *allocation) promisedBounds(now quota.Time) (tokens, rate, most quota.Units, until quota.Time) {
	spent := al.used.Plus(al.over).Plus(al.out)
	left := func(p *promise) quota.Units {
		dt := max(0, min(now, p.until).Sub(p.at))
		return p.high.Plus(accrued(p.rate, dt)).Plus(-spent)
	}
	p := &al.log().promised
	tokens, rate, most, until = left(p), p.rate, p.cap, p.until
	for i := range al.log().pending {
		p := &al.log().pending[i]
		tokens, rate, most, until = min(tokens, left(p)), min(rate, p.rate), min(most, p.cap), min(until, p.until)
	}
	return max(0, tokens), rate, most, until
}

// limitToPromise reduces the result of a division for al to what is promised: tokens, lease, and al's
// rate and cap. capped is the previous al.capped. If that is less than planned, the next checkpoint
// promises more. It is requested at once, unless the member has plenty until it comes.
func (l *Ledger) limitToPromise(now quota.Time, b *bucket, al *allocation, tokens, capped quota.Units) (quota.Units, quota.Time) {
	room, rate, top, until := al.promisedBounds(now)
	unacked := al.unacked.Tokens()
	most := max(capped, al.held).Plus(unacked)
	if al.charged == 0 { // without a rate, an earlier cap takes no room
		most = min(most, al.out)
	}
	al.log().planned = planned{tokens: tokens, rate: al.rate, cap: al.cap.Plus(unacked).Plus(tokens)}
	got := max(0, min(tokens, room, top.Plus(-most)))
	al.rate = min(al.rate, rate)
	lease := now.Add(l.cfg.Lease)
	if until < lease && al.rate > 0 {
		if lease = until; until < now.Add(l.cfg.Sync) {
			al.rate, lease = 0, now.Add(l.cfg.Lease)
		}
	}
	if al.rate == 0 {
		got -= got % quota.Token
	}
	al.cap = max(0, min(al.cap, top.Plus(-unacked).Plus(-got)))
	al.capped = max(capped, al.cap)
	al.log().planned.short = got < tokens || al.rate < al.log().planned.rate
	if al.log().planned.short {
		b.dirty = true
		if !b.hasPlenty(al, got) && len(al.log().pending) == 0 && !l.catchingUp {
			l.requestCheckpoint(b)
		}
	}
	return got, lease
}

// hasPlenty reports whether a member with these tokens more can wait for the next regular checkpoint: it has many
// times what its callers want, or use in a second, the time until that is committed. It is false for windows, because a
// later grant may begin a periodic window again that nobody has used.
func (b *bucket) hasPlenty(al *allocation, tokens quota.Units) bool {
	const plenty = 32
	need := max(float64(al.log().want), float64(al.demand)) // of one second
	return b.tier.Kind == quota.TokenBucket && float64(b.holds(al).Plus(tokens)) >= plenty*need
}

// promiseTime is how long a promise should last: two checkpoints and their duration.
const promiseTime = 2 * time.Second

// promise returns what the next checkpoint promises the member: what it has, and its expected need
// until the checkpoint after that. A restored allocation gets no more than it had: its member may have
// closed the key and given up its journal slot, by which alone a promise could return after its death.
func (b *bucket) promise(now quota.Time, al *allocation, lease time.Duration) promise {
	burst := b.limit.BurstUnits()
	p := promise{at: now, total: al.used.Plus(al.over), rate: al.charged, cap: max(al.maxHeld(), min(al.out, al.capped)), until: max(now, al.lease)}
	head := quota.Units(0)
	if !al.dead && !al.closed && !al.restored {
		need := quota.RoundUnits(min(float64(al.demand), float64(al.live)*2+1) * promiseTime.Seconds())
		need = min(need, max(0, b.pool.Level())) // the rate covers the rest
		head = min(burst, max(need, 2*al.log().planned.tokens, burst/16, 4*quota.Token))
		p.rate = max(p.rate, min(b.limit.Rate.PerSecond(), al.log().planned.rate+al.log().planned.rate/2))
		p.cap = max(p.cap, min(burst, max(2*al.log().planned.cap, al.maxHeld().Plus(head))))
		p.until = max(p.until, now.Add(lease+promiseTime))
	}
	p.high = p.total.Plus(al.out).Plus(head)
	return p
}

// mark returns the member's line in a checkpoint.
func (al *allocation) mark() quota.Mark {
	return quota.Mark{
		Node: al.node, Incarnation: al.inc, Epoch: al.epoch, Used: al.used, Overdrawn: al.over, Refunded: al.rarely().refunded,
		Out: al.out, Rate: al.charged, Cap: min(al.out, al.maxHeld()), Until: al.lease, Dead: al.dead,
	}
}

// promiseAll adds the promises to the marks of a line, and records them as pending.
func (l *Ledger) promiseAll(now quota.Time, b *bucket, kl *quota.KeyLevel) {
	for i := range b.allocations {
		al, m := &b.allocations[i], &kl.Marks[i]
		p := promise{at: now, total: al.used.Plus(al.over)}
		if b.promises() {
			p = b.promise(now, al, l.cfg.Lease)
			m.Out, m.Rate, m.Cap, m.Until = p.high.Plus(-p.total), p.rate, p.cap, p.until
		} else if !al.dead {
			m.Out, m.Rate, m.Cap, m.Until = 0, 0, 0, 0 // members report what they hold; under soft an error is allowed
			kl.Level = min(kl.Level, b.limit.BurstUnits())
		}
		p.seq, p.back, p.final = l.written, al.rarely().refunded, al.dead && al.out == 0
		al.log().pending = append(al.log().pending, p)
	}
	b.promiseOwn(now, l.written, kl)
	l.writing = append(l.writing, writing{l.written, b})
}

// writing is a bucket in a checkpoint that is not known to be committed.
type writing struct {
	seq    quota.Seq
	bucket *bucket
}

// Written returns the number of the last checkpoint, or 0.
func (l *Ledger) Written() quota.Seq { return l.written }

// More reports whether the last checkpoint had no room for all changed buckets.
func (l *Ledger) More() bool { return l.more }

// Wants reports whether a checkpoint should be written at once, because a member waits for a
// promise.
func (l *Ledger) Wants() bool { return len(l.wanted) > 0 }

// Saved notifies the ledger that the log has committed its checkpoints up to this one. It returns
// grants for members that waited for that, and grants to others that follow from them, in the order
// in which to send them. Pushed does not return these grants.
func (l *Ledger) Saved(now quota.Time, upTo quota.Seq) []quota.Grant {
	n := 0
	var out []quota.Grant
	for n < len(l.writing) && l.writing[n].seq <= upTo {
		b := l.writing[n].bucket
		n++
		if b.dropped || l.current(b) == nil {
			continue
		}
		if b.decided != nil {
			b.decided.own.committed(upTo)
		}
		closed := true
		for i := range b.allocations {
			al := &b.allocations[i]
			al.committed(upTo)
			closed = closed && al.closed
			b.wakeBy(al.forgottenAt(b))
			if b.promises() {
				b.wakeBy(al.renewAt(l.cfg.Lease))
			}
		}
		if closed {
			b.wakeBy(now)
		}
		out = l.catchUp(now, b, out)
		l.noteChanged(now, b)
	}
	l.writing = slices.Delete(l.writing, 0, n)
	return out
}

// unsaved reports whether the log lacks use or refunds that are booked for the member.
func (al *allocation) unsaved() bool {
	return al.saved() < al.used.Plus(al.over) || al.log().promised.back != al.rarely().refunded
}

func (al *allocation) committed(upTo quota.Seq) {
	n := 0
	for n < len(al.log().pending) && al.log().pending[n].seq <= upTo {
		al.log().promised = al.log().pending[n]
		n++
	}
	if n > 0 {
		al.logged.saved = max(al.logged.saved, al.log().promised.total)
		al.final = al.log().promised.final && al.log().promised.total == al.used.Plus(al.over) && al.log().promised.back == al.rarely().refunded
		al.log().pending = slices.Delete(al.log().pending, 0, n)
	}
}

// catchUp grants members what they did not get earlier because no promise covered it. It appends the grants, and those
// pushed as a result, to out.
func (l *Ledger) catchUp(now quota.Time, b *bucket, out []quota.Grant) []quota.Grant {
	standing := b.advance(now) // may delete allocations of an ended window, so not inside the loop
	l.catchingUp = true
	defer func() { l.catchingUp = false }()
	for i := range b.allocations {
		al := &b.allocations[i]
		if !al.log().planned.short || al.dead || al.closed || len(al.log().pending) > 0 {
			continue
		}
		e := quota.ReportEntry{Key: b.key(), Epoch: al.epoch, Want: al.log().want}
		entries := make([]quota.GrantEntry, 1)
		l.grant(now, b, al, &e, &delta{}, 0, true, standing-al.standing(), &entries[0])
		standing = b.advance(now)
		out = append(out, quota.Grant{Range: l.id, Term: l.term, From: l.self, To: al.node, At: now, Entries: entries})
		out = append(out, l.Pushed()...)
	}
	return out
}

// recountable is the meter of all tokens that are neither booked as used nor overflowed.
func (b *bucket) recountable() limiter.Meter {
	m := b.pool
	m.Add(b.outstandingTokens())
	for i := range b.allocations {
		m.Add(b.allocations[i].returnable)
	}
	return m
}
