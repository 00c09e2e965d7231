package clientledger

import (
	"fmt"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// allocatedOf returns how much of a key a table has allocated to clients. The Parent of a node and of the simulator is one.
type allocatedOf interface {
	Allocated(k quota.Key) quota.Units
}

var _ allocatedOf = (*aggregator.Aggregator)(nil)

// Check verifies the invariants after a step: the sum of a key's allocations is what the node's
// table has allocated, and the sums that are kept for each key are correct. It is for tests and the
// simulator, and takes time in proportion to the clients' keys.
func (l *Ledger) Check(now quota.Time) error {
	l.now = now
	for k, b := range l.keys {
		fromNode := l.look(k)
		b.learn(&fromNode)
		var allocated, spoken, wait, credit quota.Units
		for i, al := range b.allocations {
			al.void()
			allocated, spoken, wait, credit = allocated+al.allocated, spoken+al.beyond, wait+al.wait, credit+al.credit
			if al.allocated < 0 || al.unbacked < 0 || al.unbacked > al.allocated || al.lost < 0 || al.at != i {
				return fmt.Errorf("%v: %s has %d allocated, of it %d unbacked, and %d lost", k, al.c.id, al.allocated, al.unbacked, al.lost)
			}
		}
		if t, ok := l.parent.(allocatedOf); ok && t.Allocated(k) != allocated {
			return fmt.Errorf("%v: clients were allocated %d, and the table has allocated %d", k, allocated, t.Allocated(k))
		}
		if allocated != b.allocated {
			return fmt.Errorf("%v: clients were allocated %d, and the sum is %d", k, allocated, b.allocated)
		}
		if credit != b.credit {
			return fmt.Errorf("%v: clients were promised %d, and the sum is %d", k, credit, b.credit)
		}
		if spoken != b.spoken || wait != b.wait {
			return fmt.Errorf("%v: clients' callers wait for %d and overdraw %d, and the sums are %d and %d", k, wait, spoken, b.wait, b.spoken)
		}
	}
	return nil
}
