package sim

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// rangeLog stands for the log of the range's Raft group: what is in it is
// ordered, and lost with no minority. It takes entries of the newest term only.
type rangeLog struct {
	term   quota.Term // the newest
	levels map[quota.Key]quota.KeyLevel
	prune  int // size at which keys that are full again are dropped
	now    quota.Time

	commits, refused int64
}

// minPrune keeps small logs from being pruned at every entry.
const minPrune = 1024

func newRangeLog() *rangeLog {
	return &rangeLog{levels: map[quota.Key]quota.KeyLevel{}, prune: minPrune}
}

// elect begins the next term.
func (l *rangeLog) elect() quota.Term {
	l.term++
	return l.term
}

// commit takes lines proposed in a term, and reports whether they are in the log:
// a leader of an older term cannot write. Times are those of the wall clock.
func (l *rangeLog) commit(term quota.Term, lines []quota.KeyLevel) bool {
	if term != l.term {
		l.refused++
		return false
	}
	l.commits++
	for _, kl := range lines {
		l.levels[kl.Key] = kl
		l.now = max(l.now, kl.At)
	}
	if len(l.levels) >= l.prune {
		maps.DeleteFunc(l.levels, func(_ quota.Key, kl quota.KeyLevel) bool { return kl.FullAt <= l.now })
		l.prune = 2*len(l.levels) + minPrune
	}
	return true
}

// all returns what is committed: what a new leader starts from.
func (l *rangeLog) all() []quota.KeyLevel {
	return slices.SortedFunc(maps.Values(l.levels), func(x, y quota.KeyLevel) int { return x.Key.Compare(y.Key) })
}

// tend sweeps and checkpoints.
func (r *run) tend(s *seat) {
	r.sweep(s)
	r.propose(s)
}

func (r *run) sweep(s *seat) {
	before := s.ledger.Booked(r.Limit.LimitName)
	s.ledger.Sweep(s.node.clock())
	s.booked += before - s.ledger.Booked(r.Limit.LimitName)
	r.prove(s, nil)
}

// propose writes the levels that moved to the log. What the log does not take is
// proposed again at the next turn.
func (r *run) propose(s *seat) {
	if s.busy {
		return
	}
	if s.unsaved == nil {
		if s.unsaved = s.ledger.Checkpoint(s.node.clock(), 1<<30); len(s.unsaved) == 0 {
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
		s := r.seatOf(term)
		if s == nil {
			return
		}
		s.busy = false
		if r.majority(s.node) && r.log.commit(term, s.unsaved) {
			s.unsaved = nil
			r.saved(s)
		}
	})
}

// saved tells a leader what the log has taken, and members what they waited for.
func (r *run) saved(s *seat) {
	grants := s.ledger.Saved(s.node.clock(), s.number)
	r.prove(s, nil)
	for _, g := range grants {
		for _, n := range r.nodes {
			if n.id == g.To && !n.dead {
				r.grant(s, n, g)
			}
		}
	}
	r.hasten(s)
}

// hasten proposes at once what members wait for.
func (r *run) hasten(s *seat) {
	if s.ledger.Wants() {
		r.propose(s)
	}
}
