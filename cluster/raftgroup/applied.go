package raftgroup

// Applied returns the index of the newest entry that the state machine has applied, or 0 if it
// has applied none since the process started.
func (g *Group) Applied() uint64 { return g.fsm.index.Load() }
