package quota

// InlineLimits is the sharer that all inline limits are.
var InlineLimits = LimitName{"@inline", "@inline"}

// Sharer returns the name that the keys of a counter count for where limits share a table. All
// inline limits are one sharer, because callers choose their names.
func (n LimitName) Sharer() LimitName {
	if n.IsInline() {
		return InlineLimits
	}
	return n
}

// Share returns the share of a sharer if total is divided equally among the namespaces and the
// inline limits, and the share of each namespace equally among its counters. It is at least 1.
func (s *Limits) Share(n LimitName, total int64) int64 {
	if s == nil {
		return total
	}
	share := total / int64(len(s.spaces)+1)
	if n = n.Sharer(); n != InlineLimits {
		share /= max(1, s.spaces[n.Namespace])
	}
	return max(1, share)
}

// HasRoom reports whether a sharer that has keys may have one more in a table that has room for
// most and holds size. Up to fifteen sixteenths of the table are for all. Half of the rest is for
// those that have less than their share of the table. The other half is divided by the same
// shares: so every sharer gets that much of it, whatever the others do.
func HasRoom(size, most, keys, share int64) bool {
	switch free := most - size; {
	case free > most/16:
		return true
	case free > most/32:
		return keys < share
	default:
		return free > 0 && keys < max(1, share/32)
	}
}
