package branch

import (
	"fmt"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Final books the last report of an attachment to this node whose stream broke:
// everything that it had open, with its counters, brought by the client itself or
// by the node that it is attached to now. All of it was given back that was not
// used. Repeated, it changes nothing. Several reports may make up the last one:
// Full is set in the one that ends it, and then the attachment is settled.
//
// It returns ErrForgotten if the attachment has waited too long: then it is booked as
// one of a dead node (Inherit). ErrUnknown says that it never was, and nothing is booked.
func (b *Branch) Final(now quota.Time, r *quota.Report) error {
	b.now = now
	at := attachment{r.From, r.Incarnation, r.Term}
	if b.settled.has(at) {
		return nil
	}
	if c := b.clients[r.From]; c != nil && c.attachment == at { // its stream broke, and this node has not seen it yet
		b.part(c)
	}
	c := b.parted[at]
	if c == nil {
		switch {
		case b.settled.has(at):
			return nil
		case b.forgotten.has(at):
			return fmt.Errorf("%v: %w", at, ErrForgotten)
		}
		return fmt.Errorf("%v: %w", at, ErrUnknown)
	}
	for i := range r.Entries {
		b.last(c, &r.Entries[i])
	}
	if r.Full {
		b.finish(c)
	} else {
		b.inherited.add(now, inherited{at, r.Seq}) // should the attachment be forgotten before the next part comes
	}
	return nil
}

// last books one key of a last report.
func (b *Branch) last(c *client, e *quota.ReportEntry) {
	if !sane(e) {
		return
	}
	final := *e
	final.Final, final.Held = true, 0
	loan := b.look(e.Key)
	if loan.Limit == nil {
		b.abandon(c, e.Key)
		return
	}
	h := b.open(c, e.Key)
	if h == nil {
		return
	}
	h.a.learn(&loan)
	h.void()
	if _, ok := b.settle(h, &final); ok {
		h.quiet()
	}
}

// finish settles an attachment whose last report is complete. What it had open and
// does not name it had let go of: nothing of that is out.
func (b *Branch) finish(c *client) {
	for _, h := range c.keys {
		h.void()
		b.trunk.Settle(b.clock, h.a.key, aggregator.Settlement{Gen: h.gen, Back: h.lent, Void: h.unbacked, Refunded: h.lost})
		h.owe(0)
		h.unbacked, h.lost = 0, 0
		b.drop(h)
	}
	delete(b.parted, c.attachment)
	b.settled.add(b.now, c.attachment)
}

// Inherit books the last report of an attachment to a node that is dead: as far as
// that node had not acknowledged it (ReportEntry.Unreported). What the dead node
// had lent counts as spent, since the node's own leaders take it for that. Repeated,
// it changes nothing.
func (b *Branch) Inherit(now quota.Time, r *quota.Report) {
	b.now = now
	at := attachment{r.From, r.Incarnation, r.Term}
	if b.settled.has(at) || b.inherited.has(inherited{at, r.Seq}) {
		return
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		if !sane(e) {
			continue
		}
		fresh := min(e.Unreported, e.Used.Plus(e.Overdrawn))
		over := min(fresh, e.Overdrawn)
		b.trunk.Settle(b.clock, e.Key, aggregator.Settlement{
			Holders: b.sharers(b.keys[e.Key]), Silent: b.cfg.Lease, Used: fresh - over, Overdrawn: over, Charged: min(over, e.Charged), Alone: min(over, e.Alone), Late: b.ended(e, fresh),
		})
	}
	if b.inherited.add(now, inherited{at, r.Seq}); r.Full {
		b.settled.add(now, at)
	}
}

// inherited names a part of a last report.
type inherited struct {
	attachment
	seq quota.Seq
}

// ended is what of so much that was spent is for a window that is over.
func (b *Branch) ended(e *quota.ReportEntry, fresh quota.Units) quota.Units {
	loan := b.look(e.Key)
	if win := window(&loan); e.Window != 0 && e.Window < win {
		return fresh
	}
	return 0
}
