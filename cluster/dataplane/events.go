package dataplane

import "github.com/quorate/quorate/internal/quota"

// Watch subscribes to the events of this node; see events.Hub.
func (d *Decider) Watch(f quota.EventFilter, buffer int) (events <-chan quota.Event, lost func() uint64, stop func()) {
	return d.events.Watch(f, buffer)
}

// publish sends decisions to the watchers.
func (d *Decider) publish(reqs []quota.Request, out []quota.Decision) {
	if !d.events.Watched() {
		return
	}
	now := d.now()
	for i := range reqs {
		what := &out[i]
		if what.Why == quota.WhyUnknown && what.Limit == nil {
			continue // not reached: a limit before it refused
		}
		e := quota.Event{
			At: now, Kind: quota.EventOf(what), Key: reqs[i].Key, Cost: reqs[i].Cost,
			Wait: what.Wait, Why: what.Why, Shadow: what.Shadow, Near: what.Near,
		}
		if what.Limit != nil {
			e.Limit = what.Limit.LimitName
			e.Dynamic = e.Limit.Limit == quota.Template
		}
		d.events.Publish(e)
	}
}

// bucketEvent publishes the creation or removal of a bucket's first-tier counter. The counters of its
// further tiers and of its floor come and go with it.
func (d *Decider) bucketEvent(kind quota.EventKind, k quota.Key) {
	if _, tier := k.LimitName.Base(); tier == 1 && d.events.Watched() {
		d.events.Publish(quota.Event{At: d.now(), Kind: kind, Key: k, Limit: k.LimitName, Dynamic: k.LimitName.Limit == quota.Template})
	}
}
