package cluster

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// election is how long a range has no leader after a crash, as measured:
// docs/ARCHITECTURE.md.
const election = 600 * time.Millisecond

// Bounds returns what the stated bound depends on, as it is now.
func (n replicaNode) Bounds() bound.Cluster {
	return bound.Cluster{
		Nodes: len(n.members.View().IDs), Delay: n.routes.worstTrip() / 2, Sync: n.sync(), Lease: n.lease(), Election: election, CutOff: time.Minute,
	}
}

func (n *Node) sync() time.Duration  { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Sync }
func (n *Node) lease() time.Duration { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Lease }

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
