package history

import "github.com/quorate/quorate/internal/quota"

// Query asks for the history of a limit.
type Query struct {
	Limit quota.LimitName
	From  Second // the first second; what is asked for begins with the point that it is in
	End   Second // the first second after what is asked for
	Step  int    // seconds of a point: 1 (of the last hour), 60 or 3600
}

// Answer is what the replicas of a limit's owner range know.
type Answer struct {
	Points []Point // the oldest first; what nothing is known of has none
	// AsOf is until when the owner range's log reaches: nothing is known of what came later.
	AsOf Second
	// RangesCovered of RangesTotal answered; a limit has one owner range, a query about all limits as
	// many as there are ranges.
	RangesCovered, RangesTotal int
}

// KeysQuery asks which keys of a limit were asked for most.
type KeysQuery struct {
	Limit quota.LimitName
	From  Second
	End   Second
	Top   int // at most so many keys, 1 to 1000
}

// KeyTotal is what one key was asked for.
type KeyTotal struct {
	Key       string
	Attempted quota.Units
	Admitted  quota.Units
	// Error is how much more it can have been: lists of the largest that are merged do
	// not say what those below them had.
	Error quota.Units
}

// KeysAnswer has the keys, the one that was asked for most first.
type KeysAnswer struct {
	Keys []KeyTotal
	// Peak is the key with the most attempts in one minute or hour; zero if unknown.
	Peak KeyPeak
	// Rest is the most that a key which is not among them can have been asked for.
	Rest quota.Units
	// Gaps are what the lists of a range or more do not cover, in order: their leader died, or they
	// moved, before it had listed. Unattributed is what the limit was asked for in them, as far as its
	// history has it: so much, at most, is in the counts of no key.
	Gaps                       []Gap
	Unattributed               quota.Units
	AsOf                       Second
	RangesCovered, RangesTotal int
}

// UsedLimit is a limit that was asked for in a stretch of time, and how much.
type UsedLimit struct {
	Limit quota.LimitName
	Point // of the whole stretch
}
