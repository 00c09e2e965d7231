package leader

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// retire is what becomes of an allocation whose process died then: it may have used all
// that it was given. What it did not use comes back when its journal is reported,
// as far as it has not overflowed or ended with its window.
func (b *bucket) retire(now, died quota.Time, i int) {
	al := &b.allocations[i]
	b.wakeBy(now)
	if !b.endures() {
		b.keepInFlight(now, al)
		al.leave()
		return
	}
	if !al.dead {
		al.die(died)
		b.dirty = true
	}
}

// leave takes everything from a member that is dead, or seems so. What it has counted stays:
// a report of it may still come, and repeats that.
func (al *allocation) leave() {
	al.void()
	al.demand, al.live, al.using, al.tried, al.admit = 0, 0, 0, 0, 0
	al.inFlight, al.unmet, al.closed = 0, 0, true
}

func (al *allocation) die(now quota.Time) {
	out, ret := al.out, al.ret
	al.void()
	al.out, al.ret, al.dead, al.closed = out, ret, true, true
	al.log().diedAt = now
	al.demand, al.live, al.tried, al.admit = 0, 0, 0, 0
	al.unplan()
}

// bookRecovered books what an earlier process of the member had counted, once.
func (l *Ledger) bookRecovered(now quota.Time, r *quota.Report, e *quota.ReportEntry) (quota.GrantEntry, bool) {
	total := e.Used.Plus(e.Overdrawn)
	g := quota.GrantEntry{Key: e.Key, Epoch: e.Epoch, Life: e.Life, Saved: min(total, quota.Most)}
	limit := l.limitOf(e.Key)
	if limit == nil { // gone, or not known here yet
		return g, now.Sub(l.started) >= unknownFor
	}
	if !limit.Endures() { // it would be booked nowhere
		return g, true
	}
	if e.Life >= r.Incarnation {
		return g, false
	}
	b := l.open(now, e.Key)
	if b == nil {
		return g, false
	}
	b.advance(now)
	b.wakeBy(now)
	defer l.note(now, b)
	al := b.deadProcess(now, r.From, e)
	if al == nil {
		return g, true
	}
	b.settleDead(al, e, total)
	if !al.final { // its journal may forget it when the log has nothing of it out
		b.dirty = b.dirty || len(al.log().pending) == 0
		return g, false
	}
	g.Saved = min(al.saved, quota.Most)
	return g, true
}

// unknownFor is how long a new leader may not know an existing limit.
const unknownFor = 30 * time.Second

// finalReport books a report that a process sent before it died, and that arrived
// after its death was known. Nobody is there to be answered. One that speaks a
// lease later is not dead.
func (b *bucket) finalReport(now quota.Time, lease time.Duration, r *quota.Report, e *quota.ReportEntry) bool {
	if !b.endures() {
		return false
	}
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.node != r.From || al.inc != r.Incarnation || !al.dead {
			continue
		}
		if now.Sub(al.log().diedAt) > lease {
			al.dead, al.closed = false, false
			return false
		}
		last := *e
		last.Life = r.Incarnation
		if al := b.deadProcess(now, r.From, &last); al != nil {
			out, ret := al.out, al.ret
			used := b.settleDead(al, &last, e.Used.Plus(e.Overdrawn))
			al.out = max(0, out-used) // its journal may know of more
			al.ret = min(ret, al.out)
			b.pool.Add(-al.ret)
		}
		return true
	}
	return false
}

// deadProcess finds the record of a dead process, or makes it if there is something
// of it to book. What no leader had marked of a bucket was used of an implicit promise,
// nobody knows when: it counts as used now, because the next leader takes a node whose
// journal has told everything for one that used nothing else.
func (b *bucket) deadProcess(now quota.Time, id quota.NodeID, e *quota.ReportEntry) *allocation {
	for i := range b.allocations {
		al := &b.allocations[i]
		if al.node != id || al.inc != e.Life {
			continue
		}
		if !al.dead {
			b.retire(now, now, i)
		}
		if al.epoch > e.Epoch {
			return nil
		}
		if al.epoch < e.Epoch {
			al.epoch, al.used, al.over, al.refunded, al.saved = e.Epoch, 0, 0, 0, 0
			al.unpromise()
			al.final = false
		}
		return al
	}
	if b.past(e) || e.Used.Plus(e.Overdrawn) <= e.Saved {
		return nil
	}
	return b.addAllocation(allocation{
		openState:    openState{node: id, inc: e.Life, epoch: e.Epoch, dead: true, closed: true},
		demandState:  demandState{reported: now},
		countState:   countState{over: e.Saved},
		durableState: durableState{saved: e.Saved, logged: &logged{diedAt: now}},
	})
}

func (b *bucket) settleDead(al *allocation, e *quota.ReportEntry, total quota.Units) (used quota.Units) {
	known := al.used.Plus(al.over)
	if known < e.Saved {
		al.over, known = al.over.Plus(e.Saved-known), e.Saved
	}
	used = max(0, total-known)
	back := max(0, e.Refunded-al.refunded)
	late := quota.Units(0)
	if b.windowOver(e) {
		back = 0
	}
	switch {
	case b.past(e):
		late = used
	case e.Window != 0:
		late = min(max(0, b.before(e)-known), used)
	}
	if b.tier.Kind == quota.TokenBucket { // the journal has no time: its counts are at most a burst old
		used = min(used, max(al.out, b.limit.BurstUnits()))
	}
	b.pool.Add(min(al.out-used, al.ret).Plus(late).Plus(back))
	if b.tier.Kind != quota.TokenBucket { // there it may be what was held
		b.admitted, b.attempted = b.admitted.Plus(used), b.attempted.Plus(used)
	}
	if used > 0 || back > 0 || al.out > 0 {
		b.dirty, al.final = true, false
	}
	al.over, al.refunded = al.over.Plus(max(0, total-known)), max(al.refunded, e.Refunded)
	al.out, al.ret = 0, 0
	return used
}

// memory is how long a dead process is remembered, so that its journal can
// still tell.
const memory = 10 * time.Minute

// maxDead dead processes, or two for each node if that is more, are remembered of an
// bucket: all nodes may die at once, and die again.
const maxDead = 16

// forgottenAt is the time after which the allocation may be dropped from the books, if it stays silent.
func (al *allocation) forgottenAt(b *bucket) quota.Time {
	silent := al.reported.Add(max(remember, b.inFlightLease()))
	switch {
	case !b.endures():
		return silent
	case al.dead:
		return al.log().diedAt.Add(memory)
	case al.closed && al.out == 0 && al.saved >= al.used.Plus(al.over):
		return silent
	}
	return never // it may speak again, and may still hold what it was given
}

// forget drops what need not be remembered. Of a dead process that is forgotten too early,
// what it had out is lost, and the counts in its journal may be booked twice.
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
	slices.SortStableFunc(dead, func(i, j int) int { return b.allocations[i].sooner(&b.allocations[j]) })
	drop := dead[:over]
	slices.Sort(drop)
	for _, i := range slices.Backward(drop) {
		b.allocations = slices.Delete(b.allocations, i, i+1)
	}
}

// sooner orders dead processes by which is forgotten first: those that have nothing
// more to tell, and then those that died first.
func (al *allocation) sooner(o *allocation) int {
	if al.final != o.final {
		if al.final {
			return -1
		}
		return 1
	}
	return cmp.Compare(al.log().diedAt, o.log().diedAt)
}
