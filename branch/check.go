package branch

import (
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// lentOf returns how much a table has lent; *aggregator.Aggregator implements it.
type lentOf interface {
	Lent(k quota.Key) quota.Units
}

// Check proves the books after a step, and returns a fault: per key, the sum of what
// clients were lent is what the node's table has lent, and the sums that are kept of
// clients are those of the clients. It is for tests and the simulator, and takes time
// in proportion to the clients' keys.
func (b *Branch) Check(now quota.Time) error {
	b.now = now
	for k, a := range b.keys {
		loan := b.look(k)
		a.learn(&loan)
		var lent, spoken, wait, credit quota.Units
		for i, h := range a.holders {
			h.void()
			lent, spoken, wait, credit = lent+h.lent, spoken+h.beyond, wait+h.wait, credit+h.credit
			if h.lent < 0 || h.unbacked < 0 || h.unbacked > h.lent || h.lost < 0 || h.at != i {
				return fmt.Errorf("%v: %s has %d lent, of it %d unbacked, and %d lost", k, h.c.id, h.lent, h.unbacked, h.lost)
			}
		}
		if t, ok := b.trunk.(lentOf); ok && t.Lent(k) != lent {
			return fmt.Errorf("%v: clients were lent %d, and the table has lent %d", k, lent, t.Lent(k))
		}
		if lent != a.lent {
			return fmt.Errorf("%v: clients were lent %d, and the sum is %d", k, lent, a.lent)
		}
		if credit != a.credit {
			return fmt.Errorf("%v: clients were promised %d, and the sum is %d", k, credit, a.credit)
		}
		if spoken != a.spoken || wait != a.wait {
			return fmt.Errorf("%v: clients' callers wait for %d and overdraw %d, and the sums are %d and %d", k, wait, spoken, a.wait, a.spoken)
		}
	}
	return nil
}
