package leader

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// retire marks an allocation's process as dead, as of died: it may have used all its tokens. The
// unused ones return when its journal is reported, as far as they have not overflowed or ended with
// their window.
func (b *bucket) retire(now, died quota.Time, i int) {
	al := &b.allocations[i]
	b.wakeBy(now)
	if !b.endures() {
		b.keepInFlight(now, al)
		al.clear()
		return
	}
	if !al.dead {
		al.markDead(died)
		b.dirty = true
	}
}

// clear removes all tokens and demand from a member that is dead, or seems so. Its counters stay,
// because a report of it may still arrive and repeats them.
func (al *allocation) clear() {
	al.void()
	al.demand, al.live, al.using, al.tried, al.admit = 0, 0, 0, 0, 0
	if r := al.editRare(false); r != nil {
		r.inFlight, r.unmet = 0, 0
	}
	al.closed = true
}

// markDead marks the process as dead: its tokens stay out until its journal is reported.
func (al *allocation) markDead(now quota.Time) {
	out, ret := al.out, al.returnable
	al.lapse() // it may live
	al.void()
	al.out, al.returnable, al.dead, al.closed = out, ret, true, true
	al.log().diedAt = now
	al.demand, al.live, al.tried, al.admit = 0, 0, 0, 0
	al.unplan()
}

// bookRecovered books, once, the counts of an earlier process of the member.
func (l *Ledger) bookRecovered(now quota.Time, r *quota.Report, e *quota.ReportEntry) (quota.GrantEntry, bool) {
	total := e.Used.Plus(e.Overdrawn)
	g := quota.GrantEntry{Key: e.Key, Epoch: e.Epoch, Incarnation: e.Incarnation, Saved: min(total, quota.Most)}
	limit := l.limitOf(e.Key)
	if limit == nil { // removed, or not known here yet
		return g, now.Sub(l.started) >= unknownFor
	}
	if !limit.Endures() { // nothing would book it
		return g, true
	}
	if e.Incarnation >= r.Incarnation {
		return g, false
	}
	b := l.open(now, e.Key)
	if b == nil {
		return g, false
	}
	b.advance(now)
	b.wakeBy(now)
	defer l.noteChanged(now, b)
	al := b.deadProcess(now, &l.processes, r.From, e)
	if al == nil {
		return g, true
	}
	l.settleDead(now, b, al, e, total)
	if !al.final { // the journal may drop it once the log has nothing out for the process
		b.dirty = b.dirty || len(al.log().pending) == 0
		return g, false
	}
	g.Saved = min(al.saved(), quota.Most)
	return g, true
}

// unknownFor is how long a new leader may not know an existing limit.
const unknownFor = 30 * time.Second

// finalReport books a report that a process sent before it died and that arrived after its death
// was known. It needs no answer. A process that reports more than a lease after its death was not
// dead.
func (l *Ledger) finalReport(now quota.Time, b *bucket, r *quota.Report, e *quota.ReportEntry) bool {
	if !b.endures() {
		return false
	}
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.node != r.From || al.inc != r.Incarnation || !al.dead {
			continue
		}
		if now.Sub(al.log().diedAt) > l.cfg.Lease {
			al.dead, al.closed = false, false
			return false
		}
		last := *e
		last.Incarnation = r.Incarnation
		if al := b.deadProcess(now, &l.processes, r.From, &last); al != nil {
			out, ret, answered := al.out, al.returnable, al.answered()
			used := l.settleDead(now, b, al, &last, e.Used.Plus(e.Overdrawn))
			al.out, al.returnable = out, ret // its journal may know of more use
			al.out, al.returnable = max(0, out-used), max(0, b.unspent(al, used))
			al.log().answered = max(0, answered-used)
			b.pool.Add(-al.returnable)
		}
		return true
	}
	return false
}

// deadProcess finds the allocation of a dead process, or adds one if there is anything of it to
// book. Use of a bucket for which no leader wrote a mark was use of an implicit grant, at an
// unknown time. It counts as used now, because the next leader assumes that a node whose journal
// has been reported used nothing else.
func (b *bucket) deadProcess(now quota.Time, ps *processes, id quota.NodeID, e *quota.ReportEntry) *allocation {
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.node != id || al.inc != e.Incarnation {
			continue
		}
		if !al.dead {
			b.retire(now, now, i)
		}
		if al.epoch > e.Epoch {
			return nil
		}
		if al.epoch < e.Epoch {
			al.epoch, al.used, al.over = e.Epoch, 0, 0
			al.setRefunded(0)
			al.unpromise()
			al.final = false
		}
		return al
	}
	if b.inEndedWindow(e) || e.Used.Plus(e.Overdrawn) <= e.Saved {
		return nil
	}
	return b.addAllocation(allocation{
		openState:   openState{process: ps.of(id, e.Incarnation), epoch: e.Epoch, dead: true, closed: true},
		demandState: demandState{reported: now},
		countState:  countState{over: e.Saved},
		logged:      &logged{saved: e.Saved, diedAt: now},
	})
}

// settleDead books the counts of a dead process and returns what is new of them. Its unused tokens
// return to the pool.
func (l *Ledger) settleDead(now quota.Time, b *bucket, al *allocation, e *quota.ReportEntry, total quota.Units) (used quota.Units) {
	known := al.used.Plus(al.over)
	if known < e.Saved {
		al.over, known = al.over.Plus(e.Saved-known), e.Saved
	}
	used = max(0, total-known)
	back := l.fitRefund(now, b, al, al.log().diedAt.Add(-inheritMargin-l.cfg.Lease), false, max(0, e.Refunded-al.rarely().refunded))
	late := quota.Units(0)
	if b.windowEnded(e) {
		back = 0
	}
	switch {
	case b.inEndedWindow(e):
		late = used
	case e.Window != 0:
		late = min(max(0, b.spentBeforeWindow(e)-known), used)
	}
	if b.tier.Kind == quota.TokenBucket { // the journal has no times: its counts are at most a burst old
		used = min(used, max(al.out, b.limit.BurstUnits()))
	}
	b.pool.Add(b.unspent(al, used).Plus(late).Plus(back))
	if b.tier.Kind != quota.TokenBucket { // of a token bucket it may be the held tokens
		ended := min(late, al.log().ended)
		uncounted := used - ended - min(used-late, al.answered())
		al.log().ended -= ended
		b.admitted, b.attempted = b.admitted.Plus(uncounted), b.attempted.Plus(uncounted)
	}
	if used > 0 || back > 0 || al.out > 0 {
		b.dirty, al.final = true, false
	}
	if al.setRefunded(max(al.rarely().refunded, e.Refunded)); total > known {
		al.used, al.over = e.Used, e.Overdrawn // as the process counts: it may live, and report again
	}
	al.out, al.returnable, al.log().answered = 0, 0, 0
	return used
}

// unspent returns the tokens that a dead process has left after that much use, as far as they may return to the pool;
// negative if it used more than it had. Of a hard bucket the use may have been at the last moment, as in splitExact.
func (b *bucket) unspent(al *allocation, used quota.Units) quota.Units {
	if b.limit.Ceiling == quota.Hard && b.tier.Kind == quota.TokenBucket {
		return min(max(0, al.returnable-used), al.out-used)
	}
	return min(al.out-used, al.returnable)
}

// keepDead is the least time for which a dead process is remembered, so that its journal can still be reported.
const keepDead = 10 * time.Minute

// maxDead bounds the dead processes that a bucket remembers; the bound is two for each node if that
// is more: all nodes may die at once, and die again.
const maxDead = 16

// forgottenAt is the time after which the allocation may be dropped if it stays silent.
func (al *allocation) forgottenAt(b *bucket) quota.Time {
	silent := al.reported.Add(max(rememberSilent, b.inFlightLease()))
	switch {
	case !b.endures():
		return silent
	case al.dead:
		at := al.log().diedAt.Add(keepDead)
		if _, end := b.pool.Bounds(); !al.final { // its tokens are withheld until the window ends
			at = max(at, end)
		}
		return at
	case al.closed && al.out == 0 && al.saved() >= al.used.Plus(al.over):
		return silent
	}
	return never // it may report again, and may still hold its tokens
}

// forget drops allocations that are no longer needed. If a dead process is forgotten too early, its
// tokens are lost, and the counts in its journal may be booked twice.
func (b *bucket) forget(now quota.Time, nodes int) {
	b.allocations = slices.DeleteFunc(b.allocations, func(al allocation) bool { return now > al.forgottenAt(b) })
	var dead []int
	for i := range b.allocations {
		if b.allocations[i].dead {
			dead = append(dead, i)
		}
	}
	over := len(dead) - max(maxDead, 2*nodes)
	if over <= 0 {
		return
	}
	slices.SortStableFunc(dead, func(i, j int) int { return b.allocations[i].forgottenBefore(&b.allocations[j]) })
	drop := dead[:over]
	slices.Sort(drop)
	for _, i := range slices.Backward(drop) {
		b.allocations = slices.Delete(b.allocations, i, i+1)
	}
}

// forgottenBefore orders dead processes by which is forgotten first: those whose counts are all committed,
// then those that died first.
func (al *allocation) forgottenBefore(o *allocation) int {
	if al.final != o.final {
		if al.final {
			return -1
		}
		return 1
	}
	return cmp.Compare(al.log().diedAt, o.log().diedAt)
}
