package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// raft is the range's group: who leads it, and its log. All nodes vote. A leader
// that a majority does not see for the time of an election stops, and where there
// is a majority it has another by then.
type raft struct {
	log    *rangeLog
	seats  []seat // one per term, the last is the newest
	vacant bool   // an election is under way
	watchN int    // counts what an election would have to know of

	killed     quota.Time // when the last leader was lost; 0 when its successor has learned
	killedTerm quota.Term // its term
}

// seat is the leadership of one term.
type seat struct {
	ledger *leader.Ledger // nil when it is over
	node   *node
	term   quota.Term
	deaf   bool // it does not hear of its successor
	leaves bool // it has lost its majority

	booked quota.Units // admitted in accounts that the ledger has dropped since
	last   quota.Units // admitted by the books, when the seat was over

	free quota.Time // when it has time for the next report

	asking  []func(*seat)    // questions that wait for a commit
	unsaved []quota.KeyLevel // proposed, and not committed yet
	number  quota.Seq        // of unsaved in the ledger
	busy    bool             // a proposal is under way
}

// elect starts a ledger on node i, or the next that can lead, and tells
// everybody. It reports whether there is one.
func (r *run) elect(i int) bool {
	lead := r.candidate(i)
	if lead == nil {
		return false
	}
	ids := make([]quota.NodeID, 0, len(r.nodes))
	for _, n := range r.nodes {
		ids = append(ids, n.id)
	}
	term := r.log.elect()
	ledger := leader.New(leader.Config{Sync: r.Sync, MaxKeys: r.MaxKeys}, 0, term, lead.id, ids, r.limits, r.levels(lead), lead.clock())
	r.seats = append(r.seats, seat{ledger: ledger, node: lead, term: term})
	s := &r.seats[len(r.seats)-1]
	for _, n := range r.nodes {
		if r.refuses(lead, n) {
			ledger.Suspect(lead.clock(), n.id)
		}
	}
	r.follow(lead, term)
	for _, n := range r.nodes {
		r.tell(r.rng, s, n)
	}
	r.during(s, r.CheckpointEvery, r.tend)
	r.during(s, beaconEvery, r.herald)
	return true
}

// during calls f every d for as long as the leader serves, by a timer that began
// with its process.
func (r *run) during(s *seat, d time.Duration, f func(*seat)) {
	term, n := s.term, s.node
	var tick func()
	tick = func() {
		if s := r.seatOf(term); s != nil {
			f(s)
			r.onNode(r.now.Add(d), n, timer, tick)
		}
	}
	r.onNode(r.now.Add(d-r.now.Sub(n.began)%d), n, timer, tick)
}

// candidate is the first node from i on that a majority sees.
func (r *run) candidate(i int) *node {
	for k := range r.Nodes {
		if n := r.nodes[(i+k)%r.Nodes]; r.canLead(n) {
			return n
		}
	}
	return nil
}

func (r *run) canLead(n *node) bool { return !n.dead && !n.paused && r.majority(n) }

// majority reports whether a node sees more than half of all that vote.
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

// newest is the seat of the newest term.
func (r *run) newest() *seat { return &r.seats[len(r.seats)-1] }

// leading is the node that leads; nil if none does. A rival's leader, if it has
// one, is the first node that lives.
func (r *run) leading() *node {
	if r.rival == nil {
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

// seatOf returns the seat of a term; nil if it is over.
func (r *run) seatOf(term quota.Term) *seat {
	if term == 0 || int(term) > len(r.seats) || r.seats[term-1].ledger == nil {
		return nil
	}
	return &r.seats[term-1]
}

// watch looks whether somebody leads whom a majority sees; else it starts an
// election. It is called whenever something has changed.
func (r *run) watch() {
	if r.rival != nil || len(r.seats) == 0 {
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

// vacate lets the newest leader be replaced when the time of an election is
// over. If nobody can be elected then, the next change tries again.
func (r *run) vacate(next int) {
	s := r.newest()
	if r.killed == 0 {
		r.killed, r.killedTerm = r.now, s.term
	}
	r.vacant = true
	r.watchN++
	this, term := r.watchN, s.term
	r.after(r.Election, func() {
		if r.watchN != this {
			return
		}
		r.vacant = false
		if old := r.seatOf(term); old != nil && !old.deaf {
			r.resign(old)
		}
		r.elect(next)
	})
}

// resign ends a leader that has lost its majority, a little late if the scenario
// says so. One that is paused does so when it wakes.
func (r *run) resign(s *seat) {
	term := s.term
	s.leaves = true
	r.onNode(r.now.Add(r.Linger), s.node, timer, func() { r.over(r.seatOf(term)) })
}

// over ends a seat.
func (r *run) over(s *seat) {
	if s == nil || s.ledger == nil {
		return
	}
	s.last = s.ledger.Booked(r.Limit.LimitName)
	s.ledger, s.unsaved, s.asking = nil, nil, nil
}

// follow ends what a node leads in lower terms.
func (r *run) follow(n *node, term quota.Term) {
	for i := range r.seats[:term-1] {
		if s := &r.seats[i]; s.node == n && !s.deaf {
			r.over(s)
		}
	}
}

// leadsBefore reports whether a node leads in a lower term.
func (r *run) leadsBefore(n *node, term quota.Term) bool {
	return slices.ContainsFunc(r.seats[:term-1], func(s seat) bool { return s.node == n && s.ledger != nil && !s.deaf })
}

// killSeat ends the newest leader's life, or makes it linger. Nothing happens
// while there is none.
func (r *run) killSeat() {
	if r.rival != nil {
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
		r.after(r.Linger, func() { r.over(r.seatOf(term)) })
	default:
		r.over(s)
	}
	r.killed = 0
	r.vacate(s.node.i + 1)
}

// refuses reports whether a connection from one node to another would be refused: its
// process has ended, or is behind something that refuses.
func (r *run) refuses(from, to *node) bool {
	return from != to && r.connected(from, to) && (to.dead || to.refused > 0)
}

// tellSuspect tells a leader that a node has probably ended: nobody takes connections there.
func (r *run) tellSuspect(s *seat, n *node) {
	if s.ledger == nil || !r.connected(n, s.node) {
		return
	}
	term := s.term
	r.deliver(n, s.node, r.delay(r.side, n, s.node), func() {
		if s := r.seatOf(term); s != nil && r.refuses(s.node, n) {
			s.ledger.Suspect(s.node.clock(), n.id)
			r.prove(s, nil)
		}
	})
}

// tellGone tells a leader that the processes of a node before this one are certainly dead:
// another one answers there.
func (r *run) tellGone(s *seat, n *node) {
	if s.ledger == nil || !r.connected(n, s.node) || n.refused > 0 {
		return
	}
	term, inc := s.term, n.inc
	r.deliver(n, s.node, r.delay(r.side, n, s.node), func() {
		if s := r.seatOf(term); s != nil {
			s.ledger.MemberGone(s.node.clock(), n.id, inc)
			r.prove(s, nil)
		}
	})
}

// wall is what a node's clock differs from the wall clock of the log: its skew
// where that is so large that only monotonic time can be meant, else nothing,
// because nobody knows it.
func (r *run) wall(n *node) quota.Time {
	if r.Skew >= time.Hour {
		return n.clock() - r.now
	}
	return 0
}

// shift moves a line of the log to another clock.
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
