package branch

import (
	"fmt"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// maxEntries bounds one report.
const maxEntries = 4096

// Report books a client's report and answers it. One that is not of the client's
// present attachment, or not newer than what is known, changes nothing and gets an
// error: the client sends its cumulative counters again.
func (b *Branch) Report(now quota.Time, r *quota.Report) (quota.Grant, error) {
	b.now = now
	c := b.clients[r.From]
	at := attachment{r.From, r.Incarnation, r.Term}
	switch {
	case c == nil || c.attachment != at:
		return quota.Grant{}, fmt.Errorf("%v: %w", at, ErrUnknown)
	case r.Seq <= c.seq:
		return quota.Grant{}, fmt.Errorf("report %d of %s is old; %d is known", r.Seq, r.From, c.seq)
	case len(r.Entries) > maxEntries:
		return quota.Grant{}, fmt.Errorf("report of %s has %d entries; at most %d", r.From, len(r.Entries), maxEntries)
	}
	c.seq = r.Seq
	g := b.grantTo(c, make([]quota.GrantEntry, 0, len(r.Entries)))
	for i := range r.Entries {
		if e, ok := b.entry(c, &r.Entries[i], r.Seq); ok {
			g.Entries = append(g.Entries, e)
		}
	}
	return g, nil
}

func (b *Branch) grantTo(c *client, entries []quota.GrantEntry) quota.Grant {
	return quota.Grant{Term: c.term, To: c.id, From: b.cfg.Self, At: b.now, Entries: entries}
}

// entry books one key of a report. It answers nothing for keys without a limit,
// or without room.
func (b *Branch) entry(c *client, e *quota.ReportEntry, seq quota.Seq) (quota.GrantEntry, bool) {
	if !sane(e) {
		return quota.GrantEntry{}, false
	}
	loan := b.look(e.Key)
	if loan.Limit == nil {
		b.abandon(c, e.Key)
		return quota.GrantEntry{}, false
	}
	h := b.open(c, e.Key)
	if h == nil {
		return quota.GrantEntry{}, false
	}
	h.a.learn(&loan)
	h.void()
	d, ok := b.settle(h, e)
	if !ok {
		return quota.GrantEntry{}, false
	}
	loan.Held += d.back
	h.redeem(e.Applied)
	h.a.observe(b.now, h, d.attempted, b.cfg.Sync)
	if e.Final {
		g := b.told(h, &loan)
		g.Ack, g.Closed = seq, true
		h.closed, h.reported = true, b.now
		h.quiet()
		return g, true
	}
	h.closed = false
	g, ok := b.grant(h, e, &loan, d.attempted > 0)
	g.Ack = seq
	return g, ok
}

// abandon forgets a key whose limit is gone: the node has forgotten its loans.
func (b *Branch) abandon(c *client, k quota.Key) {
	if h := c.keys[k]; h != nil {
		h.owe(0)
		h.unbacked = 0
		b.drop(h)
	}
}

func (b *Branch) look(k quota.Key) aggregator.Loan {
	return b.trunk.Lend(b.clock, k, aggregator.Wish{Look: true})
}

// sane rejects entries that no client would send.
func sane(e *quota.ReportEntry) bool {
	for _, u := range [...]quota.Units{
		e.Used, e.Overdrawn, e.Refused, e.Refunded, e.Held, e.Want, e.Unreported, e.Before, e.Charged, e.Alone, e.Returned,
	} {
		if u < 0 || u > quota.Most {
			return false
		}
	}
	return e.Life == 0 && e.Epoch > 0
}
