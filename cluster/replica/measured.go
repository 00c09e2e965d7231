package replica

import (
	"sync"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
)

// measured accumulates the measurements of ledgers whose terms are over, so that the node's counters
// never fall. It holds at most one entry for each limit that was ever reported.
type measured struct {
	mu   sync.Mutex
	past map[quota.LimitName]*quota.LiveError
	kept int // number of ledgers added
}

// keep adds the counters of a ledger that ends.
func (e *measured) keep(l *leader.Ledger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.past == nil {
		e.past = map[quota.LimitName]*quota.LiveError{}
	}
	addAll(e.past, l)
	e.kept++
}

func (e *measured) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kept
}

func addAll(to map[quota.LimitName]*quota.LiveError, l *leader.Ledger) {
	l.LiveErrors(func(n quota.LimitName, o *quota.LiveError) {
		if to[n] == nil {
			to[n] = &quota.LiveError{}
		}
		to[n].Add(o)
	})
}

// liveErrors returns what this node has measured as a leader, for each current limit. If a ledger ends
// during the read, it would be counted twice, so liveErrors reads again. After three attempts it
// returns nil.
func (s *Set) liveErrors() map[quota.LimitName]*quota.LiveError {
	for range 3 {
		kept := s.measured.count()
		out := map[quota.LimitName]*quota.LiveError{}
		s.each(func(l *leader.Ledger, _ quota.Time) { addAll(out, l) })
		if s.measured.addPast(out, kept, s.node.Committed()) {
			return out
		}
	}
	return nil // leaderships change too fast; ask again
}

// addPast adds the measurements of terms that are over, and forgets limits that no longer exist. It
// returns false if another ledger has ended since the caller read kept.
func (e *measured) addPast(out map[quota.LimitName]*quota.LiveError, kept int, limits *quota.Limits) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept != kept {
		return false
	}
	for name, past := range e.past {
		if _, there := limits.Find(name); !there {
			delete(e.past, name)
			continue
		}
		if out[name] == nil {
			out[name] = &quota.LiveError{}
		}
		out[name].Add(past)
	}
	return true
}

// errors returns the measurements of the matching limits, encoded for a peer.
func (s *Set) errors(match func(quota.LimitName) bool) [][]byte {
	var out [][]byte
	limits, at := s.node.Committed(), s.node.Bounds()
	for name, e := range s.liveErrors() {
		l, there := limits.Find(name)
		if there && match(name) {
			out = append(out, snapshotio.Encode(errorProto(name, e, bound.Most(l, at))))
		}
	}
	return out
}

func errorProto(n quota.LimitName, e *quota.LiveError, most float64) *quoratev1.LimitError {
	return &quoratev1.LimitError{
		Namespace: n.Namespace, Limit: n.Limit, Attempted: e.Attempted.Tokens(), Admitted: e.Admitted.Tokens(),
		OverAdmitted: tokens(e.OverAdmitted), OverAdmittedCutOff: tokens(e.CutOff),
		NeedlessRefusals: tokens(e.Needless), NeedlessRefusalsAtMost: tokens(e.NeedlessAtMost),
		WorstExcess: tokens(e.Worst), WorstExcessBursts: e.WorstBurst, LongestGap: durationpb.New(e.Gap), Bound: most,
	}
}

func tokens(u quota.Units) float64 { return float64(u) / float64(quota.Token) }
