package clientledger

import (
	"fmt"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// maxEntries bounds the entries of one report.
const maxEntries = 4096

// Report books a client's report and answers it. It returns an error, and changes nothing, for a
// report that is not of the client's present session or not newer than the last one. The client
// sends its cumulative counters again.
func (l *Ledger) Report(now quota.Time, r *quota.Report) (quota.Grant, error) {
	l.now = now
	c := l.clients[r.From]
	at := session{r.From, r.Incarnation, r.Term}
	switch {
	case c == nil || c.session != at:
		return quota.Grant{}, fmt.Errorf("%v: %w", at, ErrUnknown)
	case r.Seq <= c.seq:
		return quota.Grant{}, fmt.Errorf("report %d of %s is old; %d is known", r.Seq, r.From, c.seq)
	case len(r.Entries) > maxEntries:
		return quota.Grant{}, fmt.Errorf("report of %s has %d entries; at most %d", r.From, len(r.Entries), maxEntries)
	}
	c.seq = r.Seq
	g := l.grantTo(c, make([]quota.GrantEntry, 0, len(r.Entries)))
	for i := range r.Entries {
		if e, ok := l.entry(c, &r.Entries[i], r.Seq); ok {
			g.Entries = append(g.Entries, e)
		}
	}
	return g, nil
}

func (l *Ledger) grantTo(c *client, entries []quota.GrantEntry) quota.Grant {
	return quota.Grant{Term: c.term, To: c.id, From: l.cfg.Self, At: l.now, Entries: entries}
}

// entry books one key of a report. It does not answer for keys without a limit, or without room.
func (l *Ledger) entry(c *client, e *quota.ReportEntry, seq quota.Seq) (quota.GrantEntry, bool) {
	if !sane(e) {
		return quota.GrantEntry{}, false
	}
	fromNode := l.look(e.Key)
	if fromNode.Limit == nil {
		l.cancel(c, e.Key)
		return quota.GrantEntry{}, false
	}
	al := l.open(c, e.Key)
	if al == nil {
		return quota.GrantEntry{}, false
	}
	al.bucket.learn(&fromNode)
	al.void()
	d, ok := l.settle(al, e)
	if !ok {
		return quota.GrantEntry{}, false
	}
	fromNode.Held += d.back
	al.endEarlierCredits(e.Applied)
	al.bucket.observe(l.now, al, d.attempted, l.cfg.Sync)
	if e.Final {
		g := l.grantState(al, &fromNode)
		g.Ack, g.Closed = seq, true
		al.closed, al.reported = true, l.now
		al.quiet()
		return g, true
	}
	al.closed = false
	wants := *e
	// Clients want no more than the burst; sums of it stay far from overflow.
	wants.Want, wants.Cost = min(e.Want, fromNode.Limit.BurstUnits()), min(e.Cost, fromNode.Limit.BurstUnits())
	g, ok := l.grant(al, &wants, &fromNode, d.attempted > 0)
	g.Ack = seq
	return g, ok
}

// cancel drops a key whose limit was removed: the node has dropped its allocations.
func (l *Ledger) cancel(c *client, k quota.Key) {
	if al := c.keys[k]; al != nil {
		al.setAllocated(0)
		al.unbacked = 0
		l.drop(al)
	}
}

// look returns the node's state of a key without allocating.
func (l *Ledger) look(k quota.Key) aggregator.Allocation {
	return l.parent.Allocate(l.clock, k, aggregator.AllocationRequest{Look: true})
}

// sane reports whether all fields are in the ranges that clients send.
func sane(e *quota.ReportEntry) bool {
	for _, u := range [...]quota.Units{
		e.Used, e.Overdrawn, e.Refused, e.Refunded, e.Held, e.Want, e.Cost, e.Unreported, e.Before, e.Charged, e.Alone, e.Returned,
	} {
		if u < 0 || u > quota.Most {
			return false
		}
	}
	return e.Incarnation == 0 && e.Epoch > 0
}
