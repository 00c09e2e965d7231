package history

import "github.com/quorate/quorate/internal/quota"

// Process is one incarnation of a node. What it uploads of a slot is all that it did in
// it; a process that was killed does not upload its last slot.
type Process struct {
	Node        quota.NodeID
	Incarnation quota.Incarnation
}

// Slice is what was counted of one limit in one slot.
type Slice struct {
	Limit  quota.LimitName
	Counts Vector
}

// Upload is what one process counted in one slot of the limits whose owner a range is.
// It is repeated, the same, until the log has it; the pair (From, Slot) names it.
type Upload struct {
	From   Process
	Slot   Slot
	Seen   []Process // that it first saw alive in this slot, ordered
	Slices []Slice   // ordered by limit, each once; none if there was nothing to count
	Last   bool      // the process stops in order: it lives in no later slot
}
