package quota

// Counts are the cumulative counts of one process for one durable key.
type Counts struct {
	// Total is the admitted cost since the process first opened the key. For a dead process it is an upper bound: it
	// includes the tokens that the process still held.
	Total Units
	// Saved is the part of Total that a leader has committed to the range's log.
	Saved Units
	// Before is the value of Total when the window at Window began; 0 for kinds without windows.
	Before Units
	Back   Units // given back by callers, since Window or, without windows, since the first opening
	Window Time  // start of the window on the leader's clock; 0 for kinds without windows
}

// RecoveredCounts holds the counts of a durable key that a dead process of this node left in its journal. The node's
// next process reports them to the leaders, which book each count once.
type RecoveredCounts struct {
	Opening
	Counts
}

// Opening identifies one opening of a key by one process of a node.
type Opening struct {
	Key         Key
	Incarnation Incarnation // of the process
	Epoch       Seq         // of the opening within the process; later is larger
}
