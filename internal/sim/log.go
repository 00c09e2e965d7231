package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// rangeLog models the log of the range's Raft group: its entries are ordered and survive the loss
// of any minority. It accepts entries of the newest term only.
type rangeLog struct {
	term   quota.Term // the newest
	levels map[quota.Key]entry
	prune  int // size at which full keys are dropped
	now    quota.Time

	commits, refused int64
}

// entry is a level and the time of its commit.
type entry struct {
	quota.KeyLevel
	at quota.Time
}

// minPrune is the size below which the log is not pruned.
const minPrune = 1024

func newRangeLog() *rangeLog {
	return &rangeLog{levels: map[quota.Key]entry{}, prune: minPrune}
}

// elect starts the next term.
func (l *rangeLog) elect() quota.Term {
	l.term++
	return l.term
}

// commit appends levels proposed in a term and reports whether they were accepted: a leader of an
// older term cannot write. Times in the levels are wall-clock times; now is the true time.
func (l *rangeLog) commit(now quota.Time, term quota.Term, lines []quota.KeyLevel) bool {
	if term != l.term {
		l.refused++
		return false
	}
	l.commits++
	for _, kl := range lines {
		l.levels[kl.Key] = entry{kl, now}
		l.now = max(l.now, kl.At)
	}
	if len(l.levels) >= l.prune {
		maps.DeleteFunc(l.levels, func(_ quota.Key, e entry) bool { return e.FullAt <= l.now })
		l.prune = 2*len(l.levels) + minPrune
	}
	return true
}

// all returns the committed levels, sorted by key.
func (l *rangeLog) all() []entry {
	return slices.SortedFunc(maps.Values(l.levels), func(x, y entry) int { return x.Key.Compare(y.Key) })
}

// levels returns what a new leader starts from: the committed levels by its clock, with the time at
// which it applied them.
func (r *run) levels(n *node) []quota.KeyLevel {
	all := r.log.all()
	out := make([]quota.KeyLevel, len(all))
	for i, e := range all {
		shift(&e.KeyLevel, r.wall(n))
		e.Applied = n.local(n.applied(e.at, r.Delay)) + n.follows(r.now)
		out[i] = e.KeyLevel
	}
	return out
}

// applied returns when a node learned of a commit: after the delay, or when it could communicate
// again.
func (n *node) applied(at quota.Time, delay time.Duration) quota.Time {
	if n.missedFrom <= at && at < n.missedTo {
		at = n.missedTo
	}
	return at.Add(delay)
}

// missed records that the node has received nothing between since and now.
func (n *node) missed(since, now quota.Time) {
	if since > 0 && since < now {
		n.missedFrom, n.missedTo = since, now
	}
}

// checkpoint sweeps and checkpoints.
func (r *run) checkpoint(s *leadership) {
	r.sweep(s)
	r.propose(s, s.ledger.Checkpoint)
}

func (r *run) sweep(s *leadership) {
	for _, n := range r.nodes { // a report that was on its way has cleared the suspicion
		if r.refuses(s.node, n) {
			s.ledger.Suspect(s.node.clock(), n.id)
		}
	}
	before := s.ledger.Booked(r.Limit.LimitName)
	s.ledger.Sweep(s.node.clock())
	s.booked += before - s.ledger.Booked(r.Limit.LimitName)
	r.pushed(s)
	r.prove(s, nil)
}

// propose writes the levels of a checkpoint to the log. A checkpoint that was not committed is
// proposed again at the next turn.
func (r *run) propose(s *leadership, checkpoint func(now quota.Time, limit int) []quota.KeyLevel) {
	if s.busy {
		return
	}
	if s.unsaved == nil {
		if s.unsaved = checkpoint(s.node.clock(), 1<<30); len(s.unsaved) == 0 {
			s.unsaved = nil
			return
		}
		s.number = s.ledger.Written()
		for i := range s.unsaved {
			shift(&s.unsaved[i], -r.wall(s.node))
		}
	}
	s.busy = true
	term := s.term
	r.onNode(r.now.Add(r.CommitDelay), s.node, timer, func() {
		s := r.leadershipOf(term)
		if s == nil {
			return
		}
		s.busy = false
		if r.majority(s.node) && r.log.commit(r.now, term, s.unsaved) {
			s.unsaved = nil
			r.saved(s)
		}
	})
}

// saved reports a commit to the leader, and delivers what members waited for.
func (r *run) saved(s *leadership) {
	grants := s.ledger.Saved(s.node.clock(), s.number)
	r.prove(s, nil)
	for _, g := range grants {
		for _, n := range r.nodes {
			if n.id == g.To && !n.dead {
				r.grant(s, n, g)
			}
		}
	}
	asking := s.asking
	s.asking = nil
	for _, again := range asking {
		again(s)
	}
	r.commitWanted(s)
}

// commitWanted proposes the levels that members wait for, without waiting for the next turn.
func (r *run) commitWanted(s *leadership) {
	if s.ledger.Wants() {
		r.propose(s, s.ledger.CheckpointWanted)
	}
}
