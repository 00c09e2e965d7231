package raftgroup

// Applied returns the index of the newest entry that the state machine has applied; 0
// before the first one since the process started.
func (g *Group) Applied() uint64 { return g.fsm.index.Load() }
