package clientledger

import (
	"fmt"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Final books the last report of a session to this node whose stream broke:
// everything that it had open, with its counters, brought by the client itself or
// by the node that it is attached to now. All of it was given back that was not
// used. Repeated, it changes nothing. Several reports may make up the last one:
// Full is set in the one that ends it, and then the session is settled.
//
// It returns ErrForgotten if the session has waited too long: then it is booked as
// one of a dead node (Inherit). ErrUnknown says that it never was, and nothing is booked.
func (l *Ledger) Final(now quota.Time, r *quota.Report) error {
	l.now = now
	at := session{r.From, r.Incarnation, r.Term}
	if l.settled.has(at) {
		return nil
	}
	if c := l.clients[r.From]; c != nil && c.session == at { // its stream broke, and this node has not seen it yet
		l.part(c)
	}
	c := l.parted[at]
	if c == nil {
		switch {
		case l.settled.has(at):
			return nil
		case l.forgotten.has(at):
			return fmt.Errorf("%v: %w", at, ErrForgotten)
		}
		return fmt.Errorf("%v: %w", at, ErrUnknown)
	}
	for i := range r.Entries {
		l.last(c, &r.Entries[i])
	}
	if r.Full {
		l.finish(c)
	} else {
		l.inherited.add(now, inherited{at, r.Seq}) // should the session be forgotten before the next part comes
	}
	return nil
}

// last books one key of a last report.
func (l *Ledger) last(c *client, e *quota.ReportEntry) {
	if !sane(e) {
		return
	}
	final := *e
	final.Final, final.Held = true, 0
	loan := l.look(e.Key)
	if loan.Limit == nil {
		l.cancel(c, e.Key)
		return
	}
	al := l.open(c, e.Key)
	if al == nil {
		return
	}
	al.bucket.learn(&loan)
	al.void()
	if _, ok := l.settle(al, &final); ok {
		al.quiet()
	}
}

// finish settles a session whose last report is complete. What it had open and
// does not name it had let go of: nothing of that is out.
func (l *Ledger) finish(c *client) {
	for _, al := range c.keys {
		al.void()
		l.parent.Settle(l.clock, al.bucket.key, aggregator.Settlement{Gen: al.gen, Back: al.allocated, Void: al.unbacked, Refunded: al.lost})
		al.owe(0)
		al.unbacked, al.lost = 0, 0
		l.drop(al)
	}
	delete(l.parted, c.session)
	l.settled.add(l.now, c.session)
}

// Inherit books the last report of a session to a node that is dead: as far as
// that node had not acknowledged it (ReportEntry.Unreported). What the dead node
// had allocated counts as spent, since the node's own leaders take it for that. Repeated,
// it changes nothing.
func (l *Ledger) Inherit(now quota.Time, r *quota.Report) {
	l.now = now
	at := session{r.From, r.Incarnation, r.Term}
	if l.settled.has(at) || l.inherited.has(inherited{at, r.Seq}) {
		return
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		if !sane(e) {
			continue
		}
		fresh := min(e.Unreported, e.Used.Plus(e.Overdrawn))
		over := min(fresh, e.Overdrawn)
		l.parent.Settle(l.clock, e.Key, aggregator.Settlement{
			Holders: l.sharers(l.keys[e.Key]), Silent: l.cfg.Lease, Used: fresh - over, Overdrawn: over, Charged: min(over, e.Charged), Alone: min(over, e.Alone), Late: l.ended(e, fresh),
		})
	}
	if l.inherited.add(now, inherited{at, r.Seq}); r.Full {
		l.settled.add(now, at)
	}
}

// inherited names a part of a last report.
type inherited struct {
	session
	seq quota.Seq
}

// ended is what of so much that was spent is for a window that is over.
func (l *Ledger) ended(e *quota.ReportEntry, fresh quota.Units) quota.Units {
	loan := l.look(e.Key)
	if win := window(&loan); e.Window != 0 && e.Window < win {
		return fresh
	}
	return 0
}
