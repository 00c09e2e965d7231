package aggregator

// Stop closes all keys, for a process that ends in order: each returns its tokens with a report that is final. A key of
// which clients or callers in flight hold tokens returns the others and stays open. Decisions continue; a key that is
// used after that reports once more. The goroutine that calls Collect must call Stop.
func (a *Aggregator) Stop() {
	a.stopping = true
	for r := range a.ranges {
		for _, b := range a.ranges[r].open {
			b.lock()
			a.markUrgent(b)
			b.unlock()
		}
	}
}

// Stopped reports whether, after Stop, the leaders have answered the last report of every key. It ignores ranges without
// a leader, and does not wait until a leader has logged a report. The goroutine that calls Collect must call Stopped.
func (a *Aggregator) Stopped() bool {
	if len(a.soon) > 0 || a.urgent.head.Load() != nil {
		return false
	}
	for r := range a.ranges {
		rt := &a.ranges[r]
		for _, b := range rt.open {
			b.lock()
			held := b.phase != closing && (b.hot().held.Load() > 0 || b.allocated == 0 && b.undecided == 0 && b.inFlight == 0)
			waits := rt.leader != "" && (b.pending != 0 || held)
			b.unlock()
			if waits {
				return false
			}
		}
	}
	return true
}
