package accounts

import (
	"hash/maphash"
	"sync"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// maxTallied bounds the names tallied between two calls of Tally; any further names share the count
// of tooMany.
const maxTallied = 10_000

// tooMany is @accounts/~other.
var tooMany = quota.LimitName{Namespace: account.Namespace, Limit: "~other"}

// tally counts the units that operations demanded from accounts, by policy, since it was last
// drained. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex
	of map[quota.LimitName]*tallied
}

type tallied struct{ admitted, refused quota.Units }

// Tally passes on the units taken from accounts and the units refused since the last call, by the
// names that policies have in the history, in millionths of a unit. The cluster passes each unit on
// once:
//
//   - A call on one range is counted by the node that proposed it, when that node applies it, no matter
//     which node leads the range by then and whether the caller learned of it.
//   - A transaction is counted by its coordinator, when it learns that the transaction was committed.
//   - A refusal is counted where the call is answered. A call that ends in an error is not known to
//     be refused.
func (s *Service) Tally(add func(l quota.LimitName, admitted, refused quota.Units)) {
	s.tally.drain(add)
}

func (t *tally) drain(add func(l quota.LimitName, admitted, refused quota.Units)) {
	t.mu.Lock()
	all := t.of
	t.of = nil
	t.mu.Unlock()
	for l, c := range all {
		add(l, c.admitted, c.refused)
	}
}

// count adds the units that applied operations took.
func (t *tally) count(ops []account.Op, under []*account.PolicyRef) {
	t.each(ops, under, func(c *tallied, _ int, u quota.Units) { c.admitted = c.admitted.Plus(u) })
}

// refuse adds the units of operations refused for lack of balance. It ignores the other operations
// of their call.
func (t *tally) refuse(ops []account.Op, out *account.Outcome) {
	t.each(ops, out.Under, func(c *tallied, i int, u quota.Units) {
		if i < len(out.Results) && out.Results[i].Status == account.Underflow {
			c.refused = c.refused.Plus(u)
		}
	})
}

// each calls count for the operations that take units and have a policy: the account's, or else the
// one that the operation sets.
func (t *tally) each(ops []account.Op, under []*account.PolicyRef, count func(c *tallied, i int, u quota.Units)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ops {
		p := ops[i].Policy
		if i < len(under) && under[i] != nil {
			p = under[i]
		}
		if d := ops[i].Demand(); d > 0 && p != nil {
			count(t.at(p.LimitName()), i, quota.Units(d)*quota.Token)
		}
	}
}

func (t *tally) at(l quota.LimitName) *tallied {
	c := t.of[l]
	if c == nil && len(t.of) >= maxTallied {
		l = tooMany
		c = t.of[l]
	}
	if c == nil {
		if t.of == nil {
			t.of = map[quota.LimitName]*tallied{}
		}
		c = &tallied{}
		t.of[l] = c
	}
	return c
}

// maxProposed bounds the entries of a range recorded as proposed by this process. Entries that are
// never applied stay until the bound evicts them.
const maxProposed = 10_000

// proposed records the entries that this process has given to a range's log and not yet seen
// applied. It is in memory only: entries that a restart replays belong to no process and are not
// counted again. Guarded by Replica.mu.
type proposed struct {
	seed  maphash.Seed
	count map[uint64]int // per hash: two entries proposed at the same moment may be equal
	order []uint64       // oldest first; may include entries already removed
}

func (p *proposed) add(batch []byte) {
	if p.count == nil {
		p.seed, p.count = maphash.MakeSeed(), map[uint64]int{}
	}
	h := maphash.Bytes(p.seed, batch)
	p.count[h]++
	p.order = append(p.order, h)
	if len(p.order) > maxProposed {
		p.drop(p.order[0])
		p.order = p.order[1:]
	}
}

// remove removes an entry and reports whether it was recorded.
func (p *proposed) remove(batch []byte) bool {
	if len(p.count) == 0 {
		return false
	}
	mine := p.drop(maphash.Bytes(p.seed, batch))
	if len(p.count) == 0 {
		p.order = p.order[:0]
	}
	return mine
}

func (p *proposed) drop(h uint64) bool {
	n := p.count[h]
	switch n {
	case 0:
		return false
	case 1:
		delete(p.count, h)
	default:
		p.count[h] = n - 1
	}
	return true
}
