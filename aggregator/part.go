package aggregator

import "github.com/quorate/quorate/internal/quota"

// Last is a last report to a leader, and what of each of its entries (used and
// overdrawn) that leader had acknowledged.
type Last struct {
	Report       quota.Report
	Acknowledged []quota.Units
}

// Part ends what the member has to do with the leader of a range in that term, who
// may have been lost meanwhile (SetLeader to nobody): every key that is open gives
// back what it holds and is let go of. It returns the last reports to that leader,
// whose entries are all final; none if there is nothing to tell.
//
// Counters begin anew with the next use of a key, so whatever becomes of these
// reports, later ones tell nothing of what is in them. Levels stay as they were
// told. The caller sees to it that the reports arrive: they are not made again.
func (a *Aggregator) Part(now quota.Time, r quota.RangeID, term quota.Term) []Last {
	rt := &a.ranges[r]
	a.listUrgent(r)
	var out []Last
	for len(rt.open) > 0 {
		b := rt.open[len(rt.open)-1]
		b.mu.Lock()
		e, told := b.leave(now, term)
		b.closedAt = now
		a.unlist(b)
		a.idle = append(a.idle, idleBucket{b, now})
		if told {
			if len(out) == 0 || len(out[len(out)-1].Report.Entries) == maxEntries {
				out = append(out, Last{Report: a.lastReport(now, r, term)})
			}
			l := &out[len(out)-1]
			l.Report.Entries, l.Acknowledged = append(l.Report.Entries, e), append(l.Acknowledged, b.acked)
		}
		b.mu.Unlock()
	}
	if len(out) > 0 {
		out[len(out)-1].Report.Full = true
	}
	return out
}

// listUrgent lists the open keys of a range that have not been collected yet.
func (a *Aggregator) listUrgent(r quota.RangeID) {
	a.urgent.drain(func(b *bucket) { a.soon = append(a.soon, b) })
	for _, b := range a.soon {
		if b.rng != r {
			continue
		}
		b.mu.Lock()
		if !b.dead && b.phase != closed {
			a.list(b)
		}
		b.mu.Unlock()
	}
}

func (a *Aggregator) lastReport(now quota.Time, r quota.RangeID, term quota.Term) quota.Report {
	rt := &a.ranges[r]
	rt.seq++
	return quota.Report{Range: r, Term: term, From: a.cfg.Self, Incarnation: a.cfg.Incarnation, Seq: rt.seq, Age: now.Sub(a.born)}
}

// leave closes a key and returns its last entry, if the leader knows of the key or
// is to be told something. Held by b.mu.
func (b *bucket) leave(now quota.Time, term quota.Term) (quota.ReportEntry, bool) {
	b.roll(now, b.limit())
	b.accrue(now)
	b.estimate(now, b.limit(), false)
	known := b.pending != 0 || b.applied > 0
	b.phase = closing
	b.expire()
	e := b.entry(now, term)
	e.Learn = nil
	b.phase, b.pending, b.tries, b.sentAt = closed, 0, 0, 0
	b.recalled, b.overdue, b.guessing = false, false, false
	b.abandoned.unsend()
	c := counts{e.Used, e.Overdrawn, e.Refused, e.Refunded}
	return e, known || c != counts{}
}
