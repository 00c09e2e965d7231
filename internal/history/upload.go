package history

import "github.com/quorate/quorate/internal/quota"

// Process is one incarnation of a node. Its upload of a slot holds everything that it did in the slot. A
// killed process does not upload its last slot.
type Process struct {
	Node        quota.NodeID
	Incarnation quota.Incarnation
}

// Slice holds the counts of one limit in one slot.
type Slice struct {
	Limit  quota.LimitName
	Counts Vector
}

// Upload holds what one process counted in one slot, for the limits owned by one range. The process
// repeats it unchanged until the log has it. The pair (From, Slot) identifies it.
type Upload struct {
	From   Process
	Slot   Slot
	Seen   []Process // processes that From first saw alive in this slot, ordered
	Slices []Slice   // ordered by limit, without duplicates; empty if there was nothing to count
	Last   bool      // the process stops in order: it lives in no later slot
}
