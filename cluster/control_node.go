package cluster

import (
	"context"

	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// storeNode adapts Node to control.Node.
type storeNode struct{ part }

// MetaGroup implements control.Node.
func (n storeNode) MetaGroup() control.Group {
	if g := n.host.Group(raftgroup.MetaGroup); g != nil {
		return g
	}
	return nil
}

func (n storeNode) Behind(late func(control.Progress) bool) []quota.NodeID {
	return n.routes.matching(func(p *peer) bool {
		return p.up() && late(control.Progress{Limits: p.beacon.GetLimitsVersion(), Policies: p.beacon.GetPoliciesRevision(), Security: p.beacon.GetSecurityRevision()})
	})
}

func (n storeNode) Earliest() quota.Time { return n.clock.Earliest() }

func (n storeNode) AwaitMembership(ctx context.Context, what string) error {
	return n.members.Await(ctx, what)
}

// overridden distributes changed overrides of keys; nil stands for
// all keys. It runs on the goroutine that applies the meta group's log, and that
// goroutine holds no lock.
func (n *Node) overridden(keys []quota.Key) {
	n.ranges.Overridden(keys)
	n.UseOverrides(keys)
	n.clients.Overridden(keys)
}

// limitsChanged applies limits that the meta group has committed. The node announces the new
// version only once it decides by it: otherwise a request sent right after would find no limit.
func (n *Node) limitsChanged(limits *quota.Limits) {
	n.ranges.SetLimits(limits)
	n.UseLimits(limits, n.announce)
	n.clients.LimitsChanged()
}
