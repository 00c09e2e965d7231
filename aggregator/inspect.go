package aggregator

import "github.com/quorate/quorate/internal/quota"

// Held returns the tokens that the member holds of a key, for tests and tools.
func (a *Aggregator) Held(k quota.Key) quota.Units {
	b, ok := a.find(k)
	if !ok {
		return 0
	}
	return quota.Units(b.hot().held.Load())
}

// Quiet reports whether nothing becomes due by time alone: no key is open or urgent, no leader waits for a full
// report, and all counts of earlier processes are settled. Until the next decision or SetLeader, Collect would return
// nothing.
func (a *Aggregator) Quiet() bool {
	if len(a.soon) > 0 || a.urgent.head.Load() != nil {
		return false
	}
	for r := range a.ranges {
		if rt := &a.ranges[r]; len(rt.open) > 0 || len(rt.recovered.list) > 0 || rt.needsFull || rt.full.times > 0 {
			return false
		}
	}
	return true
}
