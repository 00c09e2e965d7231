package quota

// Counts are what one process has counted on one durable key.
type Counts struct {
	// Total is what was admitted since the key's birth. Of a process that died it
	// may be more, by what the process held.
	Total Units
	// Saved is the part of Total that a leader has committed to the range's log.
	Saved Units
	// Before is what Total was when the window at Window began; 0 for kinds
	// without windows.
	Before Units
	Back   Units // given back by callers since the key's birth, or since the window began
	Window Time  // start of the window on the leader's clock; 0 for kinds without
}

// Afterlife is what a process of this node had counted on a durable key when it
// died: what its journal kept. The node's next process tells it to the leaders,
// which book what they do not know yet, once.
type Afterlife struct {
	Key  Key
	Life Incarnation // of the process that died
	// Birth tells this life of the key from an earlier one in the same process;
	// larger is later.
	Birth Seq
	Counts
}
