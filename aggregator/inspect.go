package aggregator

import "github.com/quorate/quorate/internal/quota"

// Held returns what the member holds of a key now: for tests and tools.
func (a *Aggregator) Held(k quota.Key) quota.Units {
	b, ok := a.find(k)
	if !ok {
		return 0
	}
	return quota.Units(b.hot().held.Load())
}

// Quiet reports whether nothing becomes due by time alone: no key is open, no key has
// asked to report, no leader waits for reports, and all that earlier processes had
// counted is settled. Until the next decision, or SetLeader, Collect would return
// nothing.
func (a *Aggregator) Quiet() bool {
	if len(a.soon) > 0 || a.urgent.head.Load() != nil {
		return false
	}
	for r := range a.ranges {
		if rt := &a.ranges[r]; len(rt.open) > 0 || len(rt.recovered.list) > 0 || rt.tell || rt.full.times > 0 {
			return false
		}
	}
	return true
}
