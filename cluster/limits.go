package cluster

import "github.com/quorate/quorate/internal/quota"

// overridden is told after the overrides of keys have changed; nil stands for
// all keys. It is called on the goroutine that applies the meta group's log,
// under no lock.
func (n *Node) overridden(keys []quota.Key) {
	n.ranges.Overridden(keys)
	n.UseOverrides(keys)
	n.clients.Overridden(keys)
}

// limitsChanged applies limits that the meta group has committed. Nobody is told that they are in
// force before this node decides by them: a request that is sent then would find no limit.
func (n *Node) limitsChanged(limits *quota.Limits) {
	n.ranges.SetLimits(limits)
	n.UseLimits(limits, n.announce)
	n.clients.LimitsChanged()
}
