package leader

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// retire is what becomes of a holder whose process died then: it may have used all
// that it was given. What it did not use comes back when its journal is reported,
// as far as it has not overflowed or ended with its window.
func (a *account) retire(now, died quota.Time, i int) {
	h := &a.holders[i]
	a.wakeBy(now)
	if !a.endures() {
		a.bury(now, h)
		h.leave()
		return
	}
	if !h.dead {
		h.die(died)
		a.dirty = true
	}
}

// leave takes everything from a member that is dead, or seems so. What it has counted stays:
// a report of it may still come, and repeats that.
func (h *holder) leave() {
	h.void()
	h.demand, h.live, h.using, h.tried, h.admit = 0, 0, 0, 0, 0
	h.inFlight, h.unmet, h.closed = 0, 0, true
}

func (h *holder) die(now quota.Time) {
	out, ret := h.out, h.ret
	h.void()
	h.out, h.ret, h.dead, h.closed = out, ret, true, true
	h.log().diedAt = now
	h.demand, h.live, h.tried, h.admit = 0, 0, 0, 0
	h.unplan()
}

// afterlife books what an earlier process of the member had counted, once.
func (l *Ledger) afterlife(now quota.Time, r *quota.Report, e *quota.ReportEntry) (quota.GrantEntry, bool) {
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
	a := l.open(now, e.Key)
	if a == nil {
		return g, false
	}
	a.advance(now)
	a.wakeBy(now)
	defer l.note(now, a)
	h := a.deadProcess(now, r.From, e)
	if h == nil {
		return g, true
	}
	a.settleDead(h, e, total)
	if !h.final { // its journal may forget it when the log has nothing of it out
		a.dirty = a.dirty || len(h.log().pending) == 0
		return g, false
	}
	g.Saved = min(h.saved, quota.Most)
	return g, true
}

// unknownFor is how long a new leader may not know an existing limit.
const unknownFor = 30 * time.Second

// lastWords books a report that a process sent before it died, and that arrived
// after its death was known. Nobody is there to be answered. One that speaks a
// lease later is not dead.
func (a *account) lastWords(now quota.Time, lease time.Duration, r *quota.Report, e *quota.ReportEntry) bool {
	if !a.endures() {
		return false
	}
	for i := range a.holders {
		h := &a.holders[i]
		if h.node != r.From || h.inc != r.Incarnation || !h.dead {
			continue
		}
		if now.Sub(h.log().diedAt) > lease {
			h.dead, h.closed = false, false
			return false
		}
		last := *e
		last.Life = r.Incarnation
		if h := a.deadProcess(now, r.From, &last); h != nil {
			out, ret := h.out, h.ret
			used := a.settleDead(h, &last, e.Used.Plus(e.Overdrawn))
			h.out = max(0, out-used) // its journal may know of more
			h.ret = min(ret, h.out)
			a.pool.Add(-h.ret)
		}
		return true
	}
	return false
}

// deadProcess finds the record of a dead process, or makes it if there is something
// of it to book. What no leader had marked of a bucket was used of an unlogged promise,
// nobody knows when: it counts as used now, because the next leader takes a node whose
// journal has told everything for one that used nothing else.
func (a *account) deadProcess(now quota.Time, id quota.NodeID, e *quota.ReportEntry) *holder {
	for i := range a.holders {
		h := &a.holders[i]
		if h.node != id || h.inc != e.Life {
			continue
		}
		if !h.dead {
			a.retire(now, now, i)
		}
		if h.epoch > e.Epoch {
			return nil
		}
		if h.epoch < e.Epoch {
			h.epoch, h.used, h.over, h.refunded, h.saved = e.Epoch, 0, 0, 0, 0
			h.unpromise()
			h.final = false
		}
		return h
	}
	if a.past(e) || e.Used.Plus(e.Overdrawn) <= e.Saved {
		return nil
	}
	return a.addHolder(holder{
		lifeState:    lifeState{node: id, inc: e.Life, epoch: e.Epoch, dead: true, closed: true},
		demandState:  demandState{reported: now},
		countState:   countState{over: e.Saved},
		durableState: durableState{saved: e.Saved, logged: &logged{diedAt: now}},
	})
}

func (a *account) settleDead(h *holder, e *quota.ReportEntry, total quota.Units) (used quota.Units) {
	known := h.used.Plus(h.over)
	if known < e.Saved {
		h.over, known = h.over.Plus(e.Saved-known), e.Saved
	}
	used = max(0, total-known)
	back := max(0, e.Refunded-h.refunded)
	late := quota.Units(0)
	if a.windowOver(e) {
		back = 0
	}
	switch {
	case a.past(e):
		late = used
	case e.Window != 0:
		late = min(max(0, a.before(e)-known), used)
	}
	if a.tier.Kind == quota.TokenBucket { // the journal has no time: its counts are at most a burst old
		used = min(used, max(h.out, a.limit.BurstUnits()))
	}
	a.pool.Add(min(h.out-used, h.ret).Plus(late).Plus(back))
	if a.tier.Kind != quota.TokenBucket { // there it may be what was held
		a.admitted, a.attempted = a.admitted.Plus(used), a.attempted.Plus(used)
	}
	if used > 0 || back > 0 || h.out > 0 {
		a.dirty, h.final = true, false
	}
	h.over, h.refunded = h.over.Plus(max(0, total-known)), max(h.refunded, e.Refunded)
	h.out, h.ret = 0, 0
	return used
}

// memory is how long a dead process is remembered, so that its journal can
// still tell.
const memory = 10 * time.Minute

// maxDead dead processes, or two for each node if that is more, are remembered of an
// account: all nodes may die at once, and die again.
const maxDead = 16

// forgottenAt is the time after which the holder may be dropped from the books, if it stays silent.
func (h *holder) forgottenAt(a *account) quota.Time {
	silent := h.reported.Add(max(remember, a.inFlightLease()))
	switch {
	case !a.endures():
		return silent
	case h.dead:
		return h.log().diedAt.Add(memory)
	case h.closed && h.out == 0 && h.saved >= h.used.Plus(h.over):
		return silent
	}
	return never // it may speak again, and may still hold what it was given
}

// forget drops what need not be remembered. Of a dead process that is forgotten too early,
// what it had out is lost, and the counts in its journal may be booked twice.
func (a *account) forget(now quota.Time, nodes int) {
	a.holders = slices.DeleteFunc(a.holders, func(h holder) bool { return now > h.forgottenAt(a) })
	var dead []int
	for i := range a.holders {
		if a.holders[i].dead {
			dead = append(dead, i)
		}
	}
	over := len(dead) - max(maxDead, 2*nodes)
	if over <= 0 {
		return
	}
	slices.SortStableFunc(dead, func(i, j int) int { return a.holders[i].sooner(&a.holders[j]) })
	drop := dead[:over]
	slices.Sort(drop)
	for _, i := range slices.Backward(drop) {
		a.holders = slices.Delete(a.holders, i, i+1)
	}
}

// sooner orders dead processes by which is forgotten first: those that have nothing
// more to tell, and then those that died first.
func (h *holder) sooner(o *holder) int {
	if h.final != o.final {
		if h.final {
			return -1
		}
		return 1
	}
	return cmp.Compare(h.log().diedAt, o.log().diedAt)
}
