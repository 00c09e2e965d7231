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

// Bounds of asking other nodes for their status.
const (
	observeLimit   = 500 * time.Millisecond // timeout of all calls together
	observationTTL = time.Second            // how long an observation stays valid
	observeCalls   = 16                     // concurrent calls
)

// observation holds the answers of other nodes about the cluster.
type observation struct {
	at     time.Time
	status *quoratev1.GetStatusResponse // from the meta leader; nil if it did not answer
	lags   map[quota.RangeID]int64      // only ranges that this node leads and whose voters all answered
}

// observer caches the last observation, so that many callers cost no more than one.
type observer struct {
	asking chan struct{} // a semaphore of one
	last   observation   // guarded by asking
}

// FullStatus returns Status, completed with what only other nodes know: how long each node has been
// silent towards the meta leader, the current step of each range, and how far the voters of the
// ranges led here lag. It asks at most once a second and waits at most half a second; it
// leaves out what was not answered. Safe for concurrent use.
func (n *Node) FullStatus(ctx context.Context) *quoratev1.GetStatusResponse {
	out := n.Status()
	o, ok := n.observe(ctx, out.MembersRevision)
	if !ok {
		return out
	}
	for _, s := range o.status.GetNodes() {
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

// observe asks the other nodes, or returns a recent observation of this revision of the membership
// or a newer one: an older one may lack steps. It returns false if ctx ends first.
func (n *Node) observe(ctx context.Context, revision uint64) (observation, bool) {
	o := n.observer
	select {
	case o.asking <- struct{}{}:
	case <-ctx.Done():
		return observation{}, false
	}
	defer func() { <-o.asking }()
	if time.Since(o.last.at) < observationTTL && o.last.status.GetMembersRevision() >= revision {
		return o.last, true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeLimit) // other callers share the result
	defer cancel()
	var wg sync.WaitGroup
	next := observation{}
	wg.Go(func() {
		next.status = n.members.LeaderStatus(ctx)
	})
	next.lags = n.lags(ctx)
	wg.Wait()
	next.at = time.Now()
	o.last = next
	return next, true
}

// steps returns the ranges that have pending steps towards this membership; every range
// gets health.StepUnknown if the meta leader has not reported on this revision.
func (n *Node) steps(o observation, revision uint64) []*quoratev1.RangeStatus {
	if o.status.GetMembersRevision() >= revision {
		return o.status.GetRanges()
	}
	out := make([]*quoratev1.RangeStatus, n.cfg.Ranges)
	for r := range out {
		out[r] = &quoratev1.RangeStatus{Id: uint32(r), Step: health.StepUnknown}
	}
	return out
}

// lags returns, for each range that this node leads, by how many entries its slowest voter
// lags. It leaves out ranges with a voter that does not answer.
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
