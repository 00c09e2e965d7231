package cluster

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
)

// liveErrors keeps what the ledgers have measured whose terms are over, so that
// the node's counters never fall. At most one entry for each limit that there has
// been a report of.
type liveErrors struct {
	mu   sync.Mutex
	past map[quota.LimitName]*quota.LiveError
	kept int // how many ledgers
}

// keep takes over the counters of a ledger that ends.
func (e *liveErrors) keep(l *leader.Ledger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.past == nil {
		e.past = map[quota.LimitName]*quota.LiveError{}
	}
	addAll(e.past, l)
	e.kept++
}

func (e *liveErrors) count() int {
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

// liveErrors is what the node has measured of each limit in force, as a leader. A
// ledger that ends meanwhile would be counted twice, so all is read anew then.
func (n *Node) liveErrors() map[quota.LimitName]*quota.LiveError {
	for range 3 {
		kept := n.live.count()
		out := map[quota.LimitName]*quota.LiveError{}
		for _, s := range n.seats {
			s.with(func(l *leader.Ledger, _ quota.Time) { addAll(out, l) })
		}
		if n.live.addPast(out, kept, n.meta.Current()) {
			return out
		}
	}
	return nil // leaderships move too fast; ask again
}

// addPast adds what was measured in terms that are over, and forgets limits that
// are gone. It returns false if a term has ended since there were kept of them.
func (e *liveErrors) addPast(out map[quota.LimitName]*quota.LiveError, kept int, limits *quota.Limits) bool {
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

// election is how long a range has no leader after a crash, as measured:
// docs/ARCHITECTURE.md.
const election = 600 * time.Millisecond

// bounds is what the stated bound depends on, as it is now.
func (n *Node) bounds() bound.Cluster {
	return bound.Cluster{
		Nodes: len(n.members.View().IDs), Delay: n.routes.worstTrip() / 2, Sync: n.sync(), Lease: n.lease(), Election: election, CutOff: time.Minute,
	}
}

func (n *Node) sync() time.Duration  { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Sync }
func (n *Node) lease() time.Duration { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Lease }

// ownErrors answers for this node, encoded for a peer.
func (n *Node) ownErrors(match func(quota.LimitName) bool) [][]byte {
	var out [][]byte
	limits, at := n.meta.Current(), n.bounds()
	for name, e := range n.liveErrors() {
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

// mergeErrors adds up what all nodes have measured, worst first.
func mergeErrors(answers []*peerv1.CallRatesResult) []*quoratev1.LimitError {
	sums := map[quota.LimitName]*quoratev1.LimitError{}
	for _, a := range answers {
		for _, data := range a.GetLimits() {
			e := &quoratev1.LimitError{}
			if proto.Unmarshal(data, e) != nil {
				continue
			}
			n := quota.LimitName{Namespace: e.Namespace, Limit: e.Limit}
			if sums[n] == nil {
				sums[n] = e
				continue
			}
			addError(sums[n], e)
		}
	}
	out := make([]*quoratev1.LimitError, 0, len(sums))
	for _, e := range sums {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *quoratev1.LimitError) int {
		return cmp.Or(cmp.Compare(b.OverAdmitted, a.OverAdmitted), cmp.Compare(b.NeedlessRefusals, a.NeedlessRefusals),
			cmp.Compare(b.NeedlessRefusalsAtMost, a.NeedlessRefusalsAtMost), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Limit, b.Limit))
	})
	return out[:min(len(out), MaxTop)]
}

func addError(to, e *quoratev1.LimitError) {
	to.Attempted += e.Attempted
	to.Admitted += e.Admitted
	to.OverAdmitted += e.OverAdmitted
	to.OverAdmittedCutOff += e.OverAdmittedCutOff
	to.NeedlessRefusals += e.NeedlessRefusals
	to.NeedlessRefusalsAtMost += e.NeedlessRefusalsAtMost
	to.WorstExcess = max(to.WorstExcess, e.WorstExcess)
	to.WorstExcessBursts = max(to.WorstExcessBursts, e.WorstExcessBursts)
	to.Bound = max(to.Bound, e.Bound)
	to.LongestGap = durationpb.New(max(to.LongestGap.AsDuration(), e.LongestGap.AsDuration()))
}
