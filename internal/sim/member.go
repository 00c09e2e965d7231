package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// pump sends a member's due reports and schedules its next wake-up.
func (r *run) pump(n *node) {
	for _, rep := range n.agg.Collect(n.clock()) {
		r.report(n, rep)
	}
	if n.asleep = n.agg.Quiet(); n.asleep {
		n.wakeAt = 0
		return
	}
	if wake := r.timeOf(n, n.agg.NextWake()); wake != n.wakeAt {
		n.wakeAt = wake
		r.onNode(wake, n, timer, func() {
			if n.wakeAt == wake {
				n.wakeAt = 0
				r.pump(n)
			}
		})
	}
}

// report sends a report to the leader of its term.
func (r *run) report(n *node, rep quota.Report) {
	r.res.Reports++
	r.res.Entries += int64(len(rep.Entries))
	r.res.Bytes += r.packed.report(&rep)
	if rep.Term == 0 || int(rep.Term) > len(r.terms) {
		return
	}
	lead, inc := r.terms[rep.Term-1].node, n.inc
	r.send(n, lead, func() {
		s := r.leadershipOf(rep.Term)
		switch {
		case s == nil:
		case r.PerEntry == 0:
			r.receive(s, n, inc, rep)
		default:
			r.line(s, len(rep.Entries), func(s *leadership) { r.receive(s, n, inc, rep) })
		}
	})
}

// line queues a message at a leader that needs time for each entry.
func (r *run) line(s *leadership, entries int, f func(*leadership)) {
	s.free = max(s.free, r.now).Add(time.Duration(entries) * r.PerEntry)
	r.res.Backlog = s.free.Sub(r.now)
	r.waited = max(r.waited, r.res.Backlog)
	term := s.term
	r.onNode(s.free, s.node, timer, func() {
		if s := r.leadershipOf(term); s != nil {
			f(s)
		}
	})
}

// receive books a report and answers it if the sending process is still alive.
func (r *run) receive(s *leadership, n *node, inc quota.Incarnation, rep quota.Report) {
	if r.heard != nil {
		r.heard(n, &rep, nil)
	}
	g, err := s.ledger.Report(s.node.clock(), nameless(rep))
	if err != nil {
		return
	}
	r.prove(s, &rep)
	if r.killed > 0 && rep.Term > r.killedTerm && !s.ledger.Learning() {
		r.res.Learned, r.killed = r.now.Sub(r.killed), 0
	}
	r.commitWanted(s)
	if n.runs(inc) {
		r.grant(s, n, g)
	} else {
		r.res.Bytes += r.packed.grant(&g)
	}
	r.pushed(s)
}

// pushed sends the leader's messages to members other than the reporting one.
func (r *run) pushed(s *leadership) {
	for _, g := range s.ledger.Pushed() {
		for _, n := range r.nodes {
			if n.id == g.To {
				r.grant(s, n, g)
			}
		}
	}
}

// grant sends a grant to a member.
func (r *run) grant(s *leadership, n *node, g quota.Grant) {
	r.res.Bytes += r.packed.grant(&g)
	r.send(s.node, n, func() {
		if r.heard != nil {
			r.heard(n, nil, &g)
		}
		n.heard++
		n.agg.Apply(n.clock(), unnamed(g))
		r.unpark(n)
		r.moved(n)
		if n.agg.Urgent() || n.asleep && !n.agg.Quiet() { // it may name a new leader
			r.pump(n)
		}
	})
}

// nameless returns a report as a leader receives it: keys with a Ref have no name.
func nameless(rep quota.Report) quota.Report {
	rep.Entries = slices.Clone(rep.Entries)
	for i := range rep.Entries {
		if e := &rep.Entries[i]; e.Ref != 0 {
			e.Key = quota.Key{}
		}
	}
	return rep
}

// unnamed returns a grant as a member receives it: entries with Line have no key.
func unnamed(g quota.Grant) quota.Grant {
	g.Entries = slices.Clone(g.Entries)
	for i := range g.Entries {
		if e := &g.Entries[i]; e.Line > 0 {
			e.Key, e.Epoch = quota.Key{}, 0
		}
	}
	return g
}

// rouse wakes a node that slept because no key was open, and does what its timers would have done.
func (n *node) rouse() {
	if n.asleep {
		n.asleep = false
		n.agg.Collect(n.clock()) // a quiet one has nothing to say
	}
}
