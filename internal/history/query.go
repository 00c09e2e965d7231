package history

import "github.com/quorate/quorate/internal/quota"

// Query is a request for the history of a limit.
type Query struct {
	Limit quota.LimitName
	From  Second // first second; the answer begins with the point that contains it
	End   Second // first second after the query's time
	Step  int    // seconds per point: 1 (last hour only), 60 or 3600
}

// Answer holds what the replicas of a limit's owner range know.
type Answer struct {
	Points []Point // oldest first, without points for unknown times
	// AsOf is the time that the owner range's log reaches; nothing later is known.
	AsOf Second
	// RangesCovered of RangesTotal ranges answered. RangesTotal is 1 for a query about one limit, which
	// has one owner range, and the number of ranges for a query about all limits.
	RangesCovered, RangesTotal int
}

// KeysQuery is a request for the most requested keys of a limit.
type KeysQuery struct {
	Limit quota.LimitName
	From  Second
	End   Second
	Top   int // maximum number of keys, 1 to 1000
}

// KeyTotal holds what was requested of one key.
type KeyTotal struct {
	Key       string
	Attempted quota.Units
	Admitted  quota.Units
	// Error bounds how much larger Attempted may really be: merged lists of the largest keys do not
	// say how much the keys below them had.
	Error quota.Units
}

// KeysAnswer holds the keys, the most requested first.
type KeysAnswer struct {
	Keys []KeyTotal
	// Peak is the key with the most attempts in one minute or hour; zero if unknown.
	Peak KeyPeak
	// Rest bounds what was requested of any key that is not in Keys.
	Rest quota.Units
	// Gaps holds the times that the lists of one or more ranges do not cover, in order, because a
	// leader died, or its range moved, before it had listed. Unattributed is what was requested of the
	// limit in them, as far as its history says: at most this much is missing from the counts of keys.
	Gaps                       []Gap
	Unattributed               quota.Units
	AsOf                       Second
	RangesCovered, RangesTotal int
}

// UsedLimit is a limit that was used in a time range, and how much.
type UsedLimit struct {
	Limit quota.LimitName
	Point // for the whole time range
}
