package cluster

import "github.com/quorate/quorate/internal/quota"

// Watch begins to watch what happens on this node; see events.Hub.
func (n *Node) Watch(f quota.EventFilter, buffer int) (events <-chan quota.Event, lost func() uint64, stop func()) {
	return n.hub.Watch(f, buffer)
}

// publish tells watchers of decisions.
func (n *Node) publish(reqs []quota.Request, out []quota.Decision) {
	if !n.hub.Watched() {
		return
	}
	now := n.clock.Now()
	for i := range reqs {
		d := &out[i]
		if d.Why == quota.WhyUnknown && d.Limit == nil {
			continue // not reached: a limit before it refused
		}
		e := quota.Event{
			At: now, Kind: quota.EventOf(d), Key: reqs[i].Key, Cost: reqs[i].Cost,
			Wait: d.Wait, Why: d.Why, Shadow: d.Shadow, Near: d.Near,
		}
		if d.Limit != nil {
			e.Limit = d.Limit.LimitName
			e.Dynamic = e.Limit.Limit == quota.Template
		}
		n.hub.Publish(e)
	}
}

func (n *Node) bucketCreated(k quota.Key) { n.bucketEvent(quota.EventCreated, k) }
func (n *Node) bucketRemoved(k quota.Key) { n.bucketEvent(quota.EventRemoved, k) }

// bucketEvent announces the first tier's counter of a bucket. Those of its further tiers and of its floor come and go
// with it.
func (n *Node) bucketEvent(kind quota.EventKind, k quota.Key) {
	if _, tier := k.LimitName.Base(); tier == 1 && n.hub.Watched() {
		n.hub.Publish(quota.Event{At: n.clock.Now(), Kind: kind, Key: k, Limit: k.LimitName, Dynamic: k.LimitName.Limit == quota.Template})
	}
}
