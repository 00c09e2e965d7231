package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/quota"
)

// membershipWait bounds how long a change waits for the membership of a cluster that has just
// started: the meta leader makes it within moveEvery once all nodes are connected.
const membershipWait = 3 * time.Second

// retryPause is the pause between two tries of what waits for a leader or a membership.
const retryPause = 50 * time.Millisecond

// awaitMembership returns nil once the cluster has a membership. Until then the error names the
// nodes that have not connected yet, or says that the meta group has no leader.
func (n *Node) awaitMembership(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, membershipWait)
	defer cancel()
	for !n.meta.Members.Load().Seeded() {
		select {
		case <-ctx.Done():
			return n.noMembership(what)
		case <-time.After(retryPause):
		}
	}
	return nil
}

func (n *Node) noMembership(what string) error {
	if n.routes.metaLeader() == "" {
		return &quota.NoLeaderError{Reason: what + ": the meta group has no leader"}
	}
	if away := n.routes.where(func(p *peer) bool { return !p.up }); len(away) > 0 {
		slices.Sort(away)
		return &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("%s needs a membership, which the cluster makes once all its nodes are connected: %v not connected yet", what, away)}
	}
	return &quota.NoLeaderError{Reason: what + ": the membership is not made yet"}
}

// raised returns the change that raises the cluster's feature level to the lowest of its living
// members, nil if the cluster has that level. own is the level of this node's software.
func raised(t *membership.Table, own uint32) *raftlogv1.ChangeMembers {
	low := own
	for _, id := range t.IDs() {
		if m := t.Member(id); !m.Dead {
			low = min(low, m.Level)
		}
	}
	if low <= t.Level() {
		return nil
	}
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Level{Level: &raftlogv1.RaiseLevel{Level: low}}}
}
