package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// raft is the range's Raft group: its leaders and its log. All nodes vote. A leader that a majority
// cannot reach for the election timeout stops, and by then another one leads if there is a
// majority.
type raft struct {
	log    *rangeLog
	terms  []leadership // one per term, the last is the newest
	vacant bool         // an election is under way
	watchN int          // number of the latest change that cancels an election

	killed     quota.Time // when the last leader was lost; 0 once its successor has learned
	killedTerm quota.Term // its term
}

// leadership is the leadership of one term.
type leadership struct {
	ledger *leader.Ledger // nil once the term is over
	node   *node
	term   quota.Term
	deaf   bool // it does not hear of its successor
	leaves bool // it has lost its majority

	booked quota.Units // admissions of keys that the ledger has dropped since
	last   quota.Units // admissions in the books at the end of the term

	free quota.Time // when it can process the next report

	asking  []func(*leadership) // decide requests that wait for a commit
	unsaved []quota.KeyLevel    // proposed and not yet committed
	number  quota.Seq           // of unsaved in the ledger
	busy    bool                // a proposal is under way
}

// elect starts a ledger on node i, or on the next node that can lead, and announces it. It reports
// whether there is one.
func (r *run) elect(i int) bool {
	lead := r.candidate(i)
	if lead == nil {
		return false
	}
	ids := make([]quota.NodeID, 0, len(r.nodes))
	for _, n := range r.nodes {
		if !r.absent(n) {
			ids = append(ids, n.id)
		}
	}
	term := r.log.elect()
	ledger := leader.New(leader.Config{Sync: r.Sync, MaxKeys: r.MaxKeys, Overrides: lead}, 0, term, lead.id, ids, lead.limits, leader.LinesOf(r.levels(lead)), lead.clock())
	r.terms = append(r.terms, leadership{ledger: ledger, node: lead, term: term})
	s := &r.terms[len(r.terms)-1]
	for _, n := range r.nodes {
		if r.refuses(lead, n) {
			ledger.Suspect(lead.clock(), n.id)
		}
	}
	r.follow(lead, term)
	for _, n := range r.nodes {
		r.announceTo(r.rng, s, n)
	}
	r.during(s, r.CheckpointEvery, r.checkpoint)
	r.during(s, beaconEvery, r.beacon)
	return true
}

// during calls f every d as long as the leader serves, by a timer that started with its process.
func (r *run) during(s *leadership, d time.Duration, f func(*leadership)) {
	term, n := s.term, s.node
	var tick func()
	tick = func() {
		if s := r.leadershipOf(term); s != nil {
			f(s)
			r.onNode(r.now.Add(d), n, timer, tick)
		}
	}
	r.onNode(r.now.Add(d-r.now.Sub(n.began)%d), n, timer, tick)
}

// candidate returns the first node from i on that reaches a majority.
func (r *run) candidate(i int) *node {
	for k := range r.Nodes {
		if n := r.nodes[(i+k)%r.Nodes]; r.canLead(n) {
			return n
		}
	}
	return nil
}

func (r *run) canLead(n *node) bool { return !n.dead && !n.paused && r.majority(n) }

// majority reports whether a node reaches more than half of the voters.
func (r *run) majority(n *node) bool {
	seen, voters := 0, 0
	for _, o := range r.nodes {
		if !o.removed {
			voters++
		}
		if !o.removed && !o.dead && !o.paused && o.group == n.group {
			seen++
		}
	}
	return 2*seen > voters
}

// newest returns the leadership of the newest term.
func (r *run) newest() *leadership { return &r.terms[len(r.terms)-1] }

// leading returns the node that leads, or nil. The leader of a baseline is the first living node.
func (r *run) leading() *node {
	if r.baseline == nil {
		if s := r.newest(); s.ledger != nil && !s.node.dead {
			return s.node
		}
		return nil
	}
	for _, n := range r.nodes {
		if !n.dead {
			return n
		}
	}
	return nil
}

// leadershipOf returns the leadership of a term, or nil if it is over.
func (r *run) leadershipOf(term quota.Term) *leadership {
	if term == 0 || int(term) > len(r.terms) || r.terms[term-1].ledger == nil {
		return nil
	}
	return &r.terms[term-1]
}

// watch starts an election unless a leader that a majority reaches is in office. It is called after
// every change.
func (r *run) watch() {
	if r.baseline != nil || len(r.terms) == 0 {
		return
	}
	s := r.newest()
	if s.ledger != nil && !s.deaf && !s.leaves && r.canLead(s.node) {
		if r.vacant {
			r.vacant, r.killed = false, 0
			r.watchN++
		}
		return
	}
	if !r.vacant {
		r.vacate(s.node.i + 1)
	}
}

// vacate replaces the newest leader after the election timeout. If no node can be elected then, the
// next change tries again.
func (r *run) vacate(next int) { r.replace(next, r.Election) }

// replace is vacate with another time until the election.
func (r *run) replace(next int, after time.Duration) {
	s := r.newest()
	if r.killed == 0 {
		r.killed, r.killedTerm = r.now, s.term
	}
	r.vacant = true
	r.watchN++
	this, term := r.watchN, s.term
	r.after(after, func() {
		if r.watchN != this {
			return
		}
		r.vacant = false
		if old := r.leadershipOf(term); old != nil && !old.deaf {
			r.resign(old)
		}
		r.elect(next)
	})
}

// resign ends a leader that has lost its majority, after Linger. A paused leader resigns when it
// resumes.
func (r *run) resign(s *leadership) {
	term := s.term
	s.leaves = true
	r.onNode(r.now.Add(r.Linger), s.node, timer, func() { r.over(r.leadershipOf(term)) })
}

// over ends the leadership of a term.
func (r *run) over(s *leadership) {
	if s == nil || s.ledger == nil {
		return
	}
	s.last = s.ledger.Booked(r.Limit.LimitName)
	s.ledger, s.unsaved, s.asking = nil, nil, nil
}

// follow ends the leadership of a node in lower terms.
func (r *run) follow(n *node, term quota.Term) {
	for i := range r.terms[:term-1] {
		if s := &r.terms[i]; s.node == n && !s.deaf {
			r.over(s)
		}
	}
}

// leadsBefore reports whether a node leads in a lower term.
func (r *run) leadsBefore(n *node, term quota.Term) bool {
	return slices.ContainsFunc(r.terms[:term-1], func(s leadership) bool { return s.node == n && s.ledger != nil && !s.deaf })
}

// killLeader kills the newest leader, or makes it linger. It does nothing without a leader.
func (r *run) killLeader() {
	if r.baseline != nil {
		if n := r.leading(); n != nil && r.KillMember {
			n.kill(r.now)
		}
		return
	}
	s := r.newest()
	if s.ledger == nil || r.vacant {
		return
	}
	term := s.term
	switch {
	case r.KillMember:
		r.over(s)
		s.node.kill(r.now)
		r.lostNode(s.node)
		s.node.removed = true
	case r.Linger > 0:
		s.deaf = true
		r.after(r.Linger, func() { r.over(r.leadershipOf(term)) })
	default:
		r.over(s)
	}
	r.killed = 0
	r.vacate(s.node.i + 1)
}

// refuses reports whether a connection between two nodes would be refused, because the process has
// ended or is behind something that refuses.
func (r *run) refuses(from, to *node) bool {
	return from != to && to.inc > 0 && r.connected(from, to) && (to.dead || to.refused > 0)
}

// tellSuspect notifies a leader that a node has probably ended, because its connections are
// refused.
func (r *run) tellSuspect(s *leadership, n *node) {
	if s.ledger == nil || !r.connected(n, s.node) {
		return
	}
	term := s.term
	r.deliver(n, s.node, r.delay(r.side, n, s.node), func() {
		if s := r.leadershipOf(term); s != nil && r.refuses(s.node, n) {
			s.ledger.Suspect(s.node.clock(), n.id)
			r.prove(s, nil)
		}
	})
}

// tellGone notifies a leader that earlier processes of a node are certainly dead, because a new one
// answers.
func (r *run) tellGone(s *leadership, n *node) {
	if s.ledger == nil || !r.connected(n, s.node) || n.refused > 0 {
		return
	}
	term, inc := s.term, n.inc
	r.deliver(n, s.node, r.delay(r.side, n, s.node), func() {
		if s := r.leadershipOf(term); s != nil {
			s.ledger.MemberGone(s.node.clock(), n.id, inc)
			r.prove(s, nil)
		}
	})
}

// wall returns how much a node's clock differs from the wall clock of the log. It is 0 unless the
// skew is so large that only monotonic clocks can be meant, because nodes do not know it.
func (r *run) wall(n *node) quota.Time {
	if r.Skew >= time.Hour {
		return n.clock() - r.now
	}
	return 0
}

// shift converts a level of the log to another clock.
func shift(kl *quota.KeyLevel, by quota.Time) {
	kl.At, kl.FullAt = kl.At+by, kl.FullAt+by
	if kl.WindowStart != 0 {
		kl.WindowStart += by
	}
	if kl.AnswersUntil != 0 {
		kl.AnswersUntil += by
	}
	marks := make([]quota.Mark, len(kl.Marks))
	for i, m := range kl.Marks {
		m.Until += by
		marks[i] = m
	}
	kl.Marks = marks
}
