package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/quota"
)

// What it costs to look further than this node.
const (
	observeLimit = 500 * time.Millisecond // for all questions together
	observeAgain = time.Second            // what was answered holds for so long
	observeCalls = 16                     // questions at a time
)

// observation is what others said of the cluster.
type observation struct {
	at   time.Time
	told *quoratev1.GetStatusResponse // by the meta leader; nil if it did not answer
	lags map[quota.RangeID]int64      // of ranges that this node leads and all of whose voters answered
}

// observer keeps the last observation, so that many who ask cost no more than one.
type observer struct {
	asking chan struct{} // room for one
	last   observation   // of who is asking
}

func newObserver() *observer { return &observer{asking: make(chan struct{}, 1)} }

// FullStatus is Status, with what only others know: how long the meta leader has
// not heard from nodes, what it does with ranges now, and how far the voters of the
// ranges led here are behind. It asks them once a second at most, and for no longer
// than half a second; what is not answered is not there. Safe for concurrent use.
func (n *Node) FullStatus(ctx context.Context) *quoratev1.GetStatusResponse {
	out := n.Status()
	o, ok := n.observe(ctx, out.MembersRevision)
	if !ok {
		return out
	}
	for _, s := range o.told.GetNodes() {
		if i := slices.IndexFunc(out.Nodes, func(have *quoratev1.NodeStatus) bool { return have.Id == s.Id }); i >= 0 {
			out.Nodes[i].Silent = s.Silent
		}
	}
	for _, r := range n.steps(o, out.MembersRevision) {
		if int(r.Id) < len(out.Ranges) {
			out.Ranges[r.Id].Step = r.Step
		}
	}
	for id, lag := range o.lags {
		if r := out.Ranges[id]; r.Leader == out.Node {
			r.Lag = &lag
		}
	}
	return out
}

// observe asks the others, or returns what they said just now of this membership or a newer
// one: what is to be done with the ranges of an older one may be less.
func (n *Node) observe(ctx context.Context, revision uint64) (observation, bool) {
	o := n.observer
	select {
	case o.asking <- struct{}{}:
	case <-ctx.Done():
		return observation{}, false
	}
	defer func() { <-o.asking }()
	if time.Since(o.last.at) < observeAgain && o.last.told.GetMembersRevision() >= revision {
		return o.last, true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeLimit) // others use it too
	defer cancel()
	var wg sync.WaitGroup
	next := observation{}
	wg.Go(func() {
		next.told = n.members.LeaderStatus(ctx)
	})
	next.lags = n.lags(ctx)
	wg.Wait()
	next.at = time.Now()
	o.last = next
	return next, true
}

// StepUnknown is the step of a range, in a status, of which nobody says whether it moves.
const StepUnknown = health.StepUnknown

// steps are the ranges that are not as this membership wants them, or not known to be.
func (n *Node) steps(o observation, revision uint64) []*quoratev1.RangeStatus {
	if o.told.GetMembersRevision() >= revision {
		return o.told.GetRanges()
	}
	out := make([]*quoratev1.RangeStatus, n.cfg.Ranges)
	for r := range out {
		out[r] = &quoratev1.RangeStatus{Id: uint32(r), Step: StepUnknown}
	}
	return out
}

// lags is how many entries the slowest voter of each range that this node leads is
// behind it. Ranges with a voter that does not answer are left out.
func (n *Node) lags(ctx context.Context) map[quota.RangeID]int64 {
	out, v := map[quota.RangeID]int64{}, n.members.View()
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, observeCalls)
	for r := range quota.RangeID(n.cfg.Ranges) {
		g := n.host.Group(raftgroup.OfRange(r))
		if g == nil || n.routes.leader(r) != n.cfg.Self {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			lag := int64(0)
			for _, id := range v.Ranges[r].Voters {
				if id == n.cfg.Self {
					continue
				}
				last, _ := g.Progress()
				index, _, err := n.members.ReplicaProgress(ctx, id, raftgroup.OfRange(r))
				if err != nil {
					return
				}
				lag = max(lag, int64(last)-int64(index))
			}
			mu.Lock()
			defer mu.Unlock()
			out[r] = lag
		})
	}
	wg.Wait()
	return out
}
