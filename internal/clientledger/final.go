package clientledger

import (
	"fmt"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Final books the last report of a session to this node whose stream broke: all its open keys, with
// their counters, sent by the client itself or by the node to which it is attached now. All unused
// tokens count as returned. A repeated report changes nothing. The last report may have several
// parts: Full is set in the last one, and then the session is settled.
//
// It returns ErrForgotten if the session waited too long: then book the report as one of a dead
// node (Inherit). It returns ErrUnknown, and books nothing, if there was no such session.
func (l *Ledger) Final(now quota.Time, r *quota.Report) error {
	l.now = now
	at := session{r.From, r.Incarnation, r.Term}
	if l.settled.has(at) {
		return nil
	}
	if c := l.clients[r.From]; c != nil && c.session == at { // its stream broke, and this node has not noticed yet
		l.part(c)
	}
	c := l.broken[at]
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
		l.inherited.add(now, inherited{at, r.Seq}) // in case the session is forgotten before the next part arrives
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
	fromNode := l.look(e.Key)
	if fromNode.Limit == nil {
		l.cancel(c, e.Key)
		return
	}
	al := l.open(c, e.Key)
	if al == nil {
		return
	}
	al.bucket.learn(&fromNode)
	al.void()
	if _, ok := l.settle(al, &final); ok {
		al.quiet()
	}
}

// finish settles a session whose last report is complete. Keys that the report does not contain had
// been closed: none of their tokens are out.
func (l *Ledger) finish(c *client) {
	for _, al := range c.keys {
		al.void()
		l.parent.Settle(l.clock, al.bucket.key, aggregator.Settlement{Gen: al.gen, Back: al.allocated, Void: al.unbacked, Refunded: l.regained(al, al.lost)})
		al.setAllocated(0)
		al.unbacked, al.lost = 0, 0
		l.drop(al)
	}
	l.leave(c)
	l.settled.add(l.now, c.session)
}

// Inherit books the last report of a session to a node that is dead, as far as that node had not
// acknowledged it (ReportEntry.Unreported). A repeated report changes nothing.
//
// Under hard, it books no use of allocated tokens. All that the dead node had allocated counts as
// spent: with its other tokens and in its journal, or with a forgotten session (end).
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
		if limit := l.look(e.Key).Limit; limit != nil && limit.Ceiling == quota.Hard {
			fresh = over
		}
		l.parent.Settle(l.clock, e.Key, aggregator.Settlement{
			Holders: l.keys[e.Key].clients(), Silent: l.cfg.Lease, Used: fresh - over, Overdrawn: over, Charged: min(over, e.Charged), Alone: min(over, e.Alone), Late: l.ended(e, fresh),
		})
	}
	if l.inherited.add(now, inherited{at, r.Seq}); r.Full {
		l.settled.add(now, at)
	}
}

// inherited identifies a part of a last report.
type inherited struct {
	session
	seq quota.Seq
}

// ended is the part of fresh use that belongs to a window that has ended.
func (l *Ledger) ended(e *quota.ReportEntry, fresh quota.Units) quota.Units {
	fromNode := l.look(e.Key)
	if win := window(&fromNode); e.Window != 0 && e.Window < win {
		return fresh
	}
	return 0
}
