package clientledger

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// maxPushed bounds the grants that wait to be sent. A client that is short asks again.
const maxPushed = 4096

// Push returns the grants that answer no report: tokens that became available for clients whose
// callers wait for them, and recalls. Call it after grants have been applied to the parent, and
// after reports. A lost push is made again when a client is short again.
func (l *Ledger) Push(now quota.Time) []quota.Grant {
	l.now = now
	for _, k := range l.parent.Recalls() {
		if b := l.keys[k]; b != nil {
			l.recall(b, nil)
		}
	}
	kept := l.waiting[:0]
	for _, b := range l.waiting {
		l.serve(b)
		if b.listed = len(b.queue) > 0; b.listed {
			kept = append(kept, b)
		}
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
	out := l.pushed
	l.pushed = nil
	return out
}

// enqueue records that a client's callers wait for this many tokens, or were refused them.
func (l *Ledger) enqueue(al *allocation, short quota.Units) {
	b := al.bucket
	if rest := short % quota.Token; rest > 0 {
		short += quota.Token - rest
	}
	b.wait += short - al.wait
	al.wait, al.waitAt = short, l.now
	if !al.queued {
		al.queued = true
		b.queue = append(b.queue, al)
	}
	if !b.listed {
		b.listed = true
		l.waiting = append(l.waiting, b)
	}
}

// leave ends the waiting of a client's callers.
func (b *bucket) leave(al *allocation) {
	b.wait -= al.wait
	al.wait = 0
}

// grantWait is how long callers wait for a grant, less its transit time.
const grantWait = 18 * time.Millisecond

// waits reports whether a client's callers may still wait, or it will probably use the tokens soon. Callers that were
// refused do not wait (TestRefusedClients in internal/sim), but those with many requests ask again soon
// (TestClientsInNeed).
func (l *Ledger) waits(al *allocation) bool {
	if al.wait <= 0 || al.at < 0 || al.c.since != 0 || al.unacked.Full() {
		return false
	}
	age := l.now.Sub(al.waitAt)
	busy := al.demand*2*l.cfg.Sync.Seconds() >= float64(quota.Token)
	return al.callersWait && age <= grantWait || busy && age <= 3*l.cfg.Sync
}

// serve allocates available tokens to the clients that wait, the longest waiting first.
func (l *Ledger) serve(b *bucket) {
	for len(b.queue) > 0 && len(l.pushed) < maxPushed {
		al := b.queue[0]
		if l.waits(al) {
			fromNode := l.allocate(al, al.wait, 0)
			if fromNode.Limit == nil || fromNode.Tokens == 0 {
				return
			}
			b.leave(al)
			l.pushed = append(l.pushed, l.grantTo(al.c, []quota.GrantEntry{l.grantTokens(al, &fromNode, fromNode.Tokens, fromNode.Tokens)}))
		}
		b.leave(al)
		al.queued = false
		b.queue[0] = nil
		b.queue = b.queue[1:]
	}
}

// recallEvery is the shortest time between two recalls of a key.
const recallEvery = 25 * time.Millisecond

// recall asks all clients, except that of al, which have more than their expected use, to report
// now and to return tokens.
func (l *Ledger) recall(b *bucket, al *allocation) {
	if b.recalled > 0 && l.now.Sub(b.recalled) < recallEvery {
		return
	}
	b.recalled = l.now
	for _, o := range b.allocations {
		if o == al || o.allocated == 0 || o.c.since != 0 || len(l.pushed) >= maxPushed || l.now.Sub(max(o.recalled, o.reported)) < l.cfg.Sync/4 {
			continue
		}
		due := o.awaited
		if l.now.Sub(max(o.reported, o.waitAt)) > l.cfg.Sync/2 { // its callers no longer wait
			due = 0
		}
		if float64(o.allocated-due) > o.demand*grantIntervals*l.cfg.Sync.Seconds() {
			o.recalled = l.now
			l.pushed = append(l.pushed, l.grantTo(o.c, []quota.GrantEntry{{Key: b.key, Epoch: o.epoch, Recall: true}}))
		}
	}
}
