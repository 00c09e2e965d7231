package aggregator

import "github.com/quorate/quorate/internal/quota"

// Held returns what the member holds of a key now: for tests and tools.
func (a *Aggregator) Held(k quota.Key) quota.Units {
	b, ok := a.find(k)
	if !ok {
		return 0
	}
	return quota.Units(b.held.Load())
}
