package branch

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// maxPushed bounds what waits to be sent; a client that is short asks again.
const maxPushed = 4096

// Push returns what answers no report: tokens that came for clients whose callers
// wait for them, and recalls. Call it after grants have been applied to the trunk,
// and after reports. A lost push is made again when a client is short again.
func (b *Branch) Push(now quota.Time) []quota.Grant {
	b.now = now
	for _, k := range b.trunk.Recalls() {
		if a := b.keys[k]; a != nil {
			b.recall(a, nil)
		}
	}
	kept := b.waiting[:0]
	for _, a := range b.waiting {
		b.serve(a)
		if a.listed = len(a.queue) > 0; a.listed {
			kept = append(kept, a)
		}
	}
	clear(b.waiting[len(kept):])
	b.waiting = kept
	out := b.pushed
	b.pushed = nil
	return out
}

// enqueue notes that a client's callers wait for so many tokens, or were refused
// them.
func (b *Branch) enqueue(h *holder, short quota.Units) {
	a := h.a
	if rest := short % quota.Token; rest > 0 {
		short += quota.Token - rest
	}
	a.wait += short - h.wait
	h.wait, h.waitAt = short, b.now
	if !h.queued {
		h.queued = true
		a.queue = append(a.queue, h)
	}
	if !a.listed {
		a.listed = true
		b.waiting = append(b.waiting, a)
	}
}

// leave takes a client out of those who wait: it has been heard.
func (a *account) leave(h *holder) {
	a.wait -= h.wait
	h.wait = 0
}

// grantWait is how long callers wait for a grant, less its way to them.
const grantWait = 18 * time.Millisecond

// waits reports whether a client's callers may still wait, or it is likely to use
// the tokens soon.
func (b *Branch) waits(h *holder) bool {
	if h.wait <= 0 || h.at < 0 || h.c.since != 0 || len(h.flight) >= maxFlight {
		return false
	}
	age := b.now.Sub(h.waitAt)
	busy := h.demand*2*b.cfg.Sync.Seconds() >= float64(quota.Token)
	return h.parked && age <= grantWait || busy && age <= 3*b.cfg.Sync
}

// serve lends the available tokens to the clients that wait, the longest waiting first.
func (b *Branch) serve(a *account) {
	for len(a.queue) > 0 && len(b.pushed) < maxPushed {
		h := a.queue[0]
		if b.waits(h) {
			loan := b.lend(h, h.wait, 0)
			if loan.Limit == nil || loan.Tokens == 0 {
				return
			}
			a.leave(h)
			b.pushed = append(b.pushed, b.grantTo(h.c, []quota.GrantEntry{b.tell(h, &loan, loan.Tokens, loan.Tokens)}))
		}
		a.leave(h)
		h.queued = false
		a.queue[0] = nil
		a.queue = a.queue[1:]
	}
}

// recallEvery is how often a key is recalled at most.
const recallEvery = 25 * time.Millisecond

// recall asks all holders but h that have more than they will need to report now.
func (b *Branch) recall(a *account, h *holder) {
	if a.recalled > 0 && b.now.Sub(a.recalled) < recallEvery {
		return
	}
	a.recalled = b.now
	for _, o := range a.holders {
		if o == h || o.lent == 0 || o.c.since != 0 || len(b.pushed) >= maxPushed || b.now.Sub(max(o.recalled, o.reported)) < b.cfg.Sync/4 {
			continue
		}
		due := o.spoken
		if b.now.Sub(max(o.reported, o.waitAt)) > b.cfg.Sync/2 { // it was too late for them
			due = 0
		}
		if float64(o.lent-due) > o.demand*ahead*b.cfg.Sync.Seconds() {
			o.recalled = b.now
			b.pushed = append(b.pushed, b.grantTo(o.c, []quota.GrantEntry{{Key: a.key, Epoch: o.epoch, Recall: true}}))
		}
	}
}
