package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// advance finds the next step of a group and carries it out.
func (n *Node) advance(ctx context.Context, t *membership.Table, g uint32, want shard.Placement) (shard.Step, error) {
	is, err := n.actual(ctx, t, g)
	if err != nil {
		return shard.Step{Do: shard.Wait, Why: err.Error()}, err
	}
	step := next(t, g, want, is)
	switch step.Do {
	case shard.Done, shard.Wait:
		return step, nil
	case shard.Forget:
		p := shard.Placement{Voters: want.Voters, Removed: slices.DeleteFunc(slices.Clone(want.Removed), func(id quota.NodeID) bool { return id == step.Node })}
		_, err := n.commitMembers(ctx, t, &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Place{
			Place: &raftlogv1.PutPlacements{Placements: []*raftlogv1.StoredPlacement{membership.EncodePlacement(g, p)}},
		}})
		return step, err
	}
	n.log.Info("moves", "group", groupName(g), "step", step.Do, "node", step.Node, "why", step.Why)
	ctx, span := n.traceMove(ctx, g, &step)
	err = n.order(ctx, is.Leader, g, step)
	span.End(err)
	return step, err
}

// next is the next step of a group. Every member has a replica of the meta group,
// from its first moment to its last.
func next(t *membership.Table, g uint32, want shard.Placement, is shard.Actual) shard.Step {
	if g != metaGroup {
		return shard.Next(want, false, is)
	}
	late := quota.NodeID("")
	for _, id := range t.IDs() {
		in := slices.Contains(is.Voters, id) || slices.Contains(is.Nonvoters, id)
		switch {
		case leaves(t, id):
			if in {
				want.Removed = append(want.Removed, id)
			}
		case !in && is.Alive[id]:
			return shard.Step{Do: shard.AddNonvoter, Node: id, Why: "it is a new member"}
		case !in:
			late = id
		}
	}
	step := shard.Next(want, true, is)
	if step.Do == shard.Done && late != "" { // else nobody looks again soon, and without it a new member learns of nothing
		return shard.Step{Do: shard.Wait, Node: late, Why: "a new member, it is not connected yet"}
	}
	return step
}

// actual is what a group is now, as its leader tells.
func (n *Node) actual(ctx context.Context, t *membership.Table, g uint32) (shard.Actual, error) {
	is := shard.Actual{Ready: map[quota.NodeID]bool{}, Alive: map[quota.NodeID]bool{}}
	for _, id := range t.IDs() {
		is.Alive[id] = id == n.cfg.Self || n.routes.up(id)
	}
	var res *peerv1.CallGroupResult
	if is.Leader = n.groupLeader(g); is.Leader == "" {
		return is, errors.New("the group has no leader")
	}
	if is.Leader == n.cfg.Self {
		res = n.groupState(ctx, g)
	} else {
		c, err := n.call(ctx, is.Leader, &peerv1.Call{Body: &peerv1.Call_Group{Group: &peerv1.CallGroup{Group: g}}})
		if err != nil {
			return is, err
		}
		res = c.GetGroupResult()
	}
	if !res.GetLeads() {
		return is, fmt.Errorf("%s does not lead the group any more", is.Leader)
	}
	is.Voters, is.Nonvoters = nodeIDs(res.GetVoters()), nodeIDs(res.GetNonvoters())
	for _, id := range res.GetReady() {
		is.Ready[quota.NodeID(id)] = true
	}
	return is, nil
}

func nodeIDs(texts []string) []quota.NodeID {
	out := make([]quota.NodeID, len(texts))
	for i, s := range texts {
		out[i] = quota.NodeID(s)
	}
	return out
}

func (n *Node) groupLeader(g uint32) quota.NodeID {
	if g == metaGroup {
		return n.routes.metaLeader()
	}
	return n.routes.leader(quota.RangeID(g - 1))
}

// groupName is what users and files call a group.
func groupName(g uint32) string {
	if g == metaGroup {
		return "meta"
	}
	return fmt.Sprintf("range-%03d", g-1)
}

// groupState is what a group is, if this node leads it.
func (n *Node) groupState(ctx context.Context, id uint32) *peerv1.CallGroupResult {
	out := &peerv1.CallGroupResult{}
	g := n.host.Group(id)
	if g == nil {
		return out
	}
	if _, _, out.Leads = g.Leader(); !out.Leads {
		return out
	}
	last, _ := g.Progress()
	for _, m := range g.Members() {
		if m.Voter {
			out.Voters = append(out.Voters, string(m.ID))
		} else {
			out.Nonvoters = append(out.Nonvoters, string(m.ID))
		}
		if m.ID == n.cfg.Self || n.caughtUp(ctx, m.ID, id, last) {
			out.Ready = append(out.Ready, string(m.ID))
		}
	}
	return out
}

// A replica is ready when it has nearly all of the log and hears the leader.
const (
	readyEntries = 128
	readyContact = 2 * time.Second
)

func (n *Node) caughtUp(ctx context.Context, id quota.NodeID, group uint32, last uint64) bool {
	if !n.routes.up(id) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	index, contact, err := n.replicaProgress(ctx, id, group)
	return err == nil && contact < readyContact && index+readyEntries >= last
}

// order has the leader of a group carry a step out.
func (n *Node) order(ctx context.Context, leader quota.NodeID, g uint32, s shard.Step) error {
	if leader == n.cfg.Self {
		return n.carryOut(ctx, g, s.Do, s.Node)
	}
	f := &peerv1.Call{Body: &peerv1.Call_Step{Step: &peerv1.CallStep{Group: g, Action: uint32(s.Do), Node: string(s.Node)}}}
	_, err := accountsNode{n}.Call(ctx, leader, f) // waits for a disk: not for the round trip
	return err
}

// carryOut carries a step out as the group's leader. It changes nothing when the
// group is so already.
func (n *Node) carryOut(ctx context.Context, id uint32, do shard.Action, node quota.NodeID) error {
	g := n.host.Group(id)
	if g == nil {
		return raftgroup.ErrNotLeader
	}
	switch do {
	case shard.AddNonvoter:
		return g.AddNonvoter(ctx, node)
	case shard.Promote:
		return g.Promote(ctx, node)
	case shard.Transfer:
		return g.TransferTo(ctx, node)
	case shard.Demote:
		return g.Demote(ctx, node)
	case shard.Remove:
		return g.Remove(ctx, node)
	}
	return fmt.Errorf("this version does not know step %d", do)
}
