package cluster

import (
	"github.com/quorate/quorate/internal/quota"
)

// overridden is told after the overrides of keys have changed; nil stands for
// all keys. It is called on the goroutine that applies the meta group's log,
// under no lock.
func (n *Node) overridden(keys []quota.Key) {
	n.ranges.Overridden(keys)
	n.post(func(now quota.Time) { n.agg.Overridden(now, keys) })
	n.clients.Overridden(keys)
}
