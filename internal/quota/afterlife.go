package quota

// Afterlife is what a process of this node had counted on a durable key when it
// died: what its journal kept. The node's next process tells it to the leaders,
// which book what they do not know yet, once.
type Afterlife struct {
	Key  Key
	Life Incarnation // of the process that died
	// Birth tells this life of the key from an earlier one in the same process.
	Birth Seq
	// Total is what the process admitted on the key since Birth, at most. It may
	// be more than that by what the process held when it died.
	Total Units
	// Before is what Total was when the window at Window began; 0 for kinds
	// without windows.
	Before Units
	Back   Units // given back by callers
	Window Time  // start of the window on the leader's clock; 0 for kinds without
}
