package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// rangeLog stands for the log of the range's Raft group: what is in it is
// ordered, and lost with no minority. It takes entries of the newest term only.
type rangeLog struct {
	term   quota.Term // the newest
	levels map[quota.Key]entry
	prune  int // size at which keys that are full again are dropped
	now    quota.Time

	commits, refused int64
}

// entry is a line, and when it was committed.
type entry struct {
	quota.KeyLevel
	at quota.Time
}

// minPrune keeps small logs from being pruned at every entry.
const minPrune = 1024

func newRangeLog() *rangeLog {
	return &rangeLog{levels: map[quota.Key]entry{}, prune: minPrune}
}

// elect begins the next term.
func (l *rangeLog) elect() quota.Term {
	l.term++
	return l.term
}

// commit takes lines proposed in a term, and reports whether they are in the log:
// a leader of an older term cannot write. Times in them are those of the wall clock,
// now is the true one.
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

// all returns what is committed, in order of the keys.
func (l *rangeLog) all() []entry {
	return slices.SortedFunc(maps.Values(l.levels), func(x, y entry) int { return x.Key.Compare(y.Key) })
}

// levels are what a new leader starts from: the lines of the log, by its clock, and
// when it had applied them.
func (r *run) levels(n *node) []quota.KeyLevel {
	all := r.log.all()
	out := make([]quota.KeyLevel, len(all))
	for i, e := range all {
		shift(&e.KeyLevel, r.wall(n))
		e.Applied = n.local(n.applied(e.at, r.Delay))
		out[i] = e.KeyLevel
	}
	return out
}

// applied is when a node learned of what was committed at a moment: when it was
// told, or when it was back after it had not heard anything.
func (n *node) applied(at quota.Time, delay time.Duration) quota.Time {
	if n.missedFrom <= at && at < n.missedTo {
		at = n.missedTo
	}
	return at.Add(delay)
}

// missed notes that the node has heard nothing since a moment, and does now.
func (n *node) missed(since, now quota.Time) {
	if since > 0 && since < now {
		n.missedFrom, n.missedTo = since, now
	}
}

// tend sweeps and checkpoints.
func (r *run) tend(s *seat) {
	r.sweep(s)
	r.propose(s, s.ledger.Checkpoint)
}

func (r *run) sweep(s *seat) {
	for _, n := range r.nodes { // a report that was on its way has cleared the suspicion
		if r.refuses(s.node, n) {
			s.ledger.Suspect(s.node.clock(), n.id)
		}
	}
	before := s.ledger.Booked(r.Limit.LimitName)
	s.ledger.Sweep(s.node.clock())
	s.booked += before - s.ledger.Booked(r.Limit.LimitName)
	r.prove(s, nil)
}

// propose writes levels that moved to the log: those of a checkpoint. What the log does not take is
// proposed again at the next turn.
func (r *run) propose(s *seat, checkpoint func(now quota.Time, limit int) []quota.KeyLevel) {
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
		s := r.seatOf(term)
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
	asking := s.asking
	s.asking = nil
	for _, again := range asking {
		again(s)
	}
	r.hasten(s)
}

// hasten proposes at once what members wait for.
func (r *run) hasten(s *seat) {
	if s.ledger.Wants() {
		r.propose(s, s.ledger.CheckpointWanted)
	}
}
