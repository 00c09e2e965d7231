package history

import "github.com/quorate/quorate/internal/quota"

// Process is one life of a node. What it tells of a block is all that it did in it: a
// process that was killed does not tell its last block.
type Process struct {
	Node        quota.NodeID
	Incarnation quota.Incarnation
}

// Slice is what was counted of one limit in one block.
type Slice struct {
	Limit  quota.LimitName
	Counts Vector
}

// Told is what one process tells the history of a range about one block: everything
// that it counted, or led, of limits whose home the range is. It is told again,
// the same, until it is kept; the pair (From, Block) names it.
type Told struct {
	From   Process
	Block  Block
	Seen   []Process // that it first saw alive in this block, ordered
	Slices []Slice   // ordered by limit, each once; none if there was nothing to count
	Last   bool      // it stops in order: it lives in no later block
}
