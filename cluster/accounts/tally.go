package accounts

import (
	"hash/maphash"
	"sync"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// maxTallied bounds the names that are tallied between two calls of Tally; what more there
// are count together, as tooMany.
const maxTallied = 10_000

// tooMany is @accounts/~other.
var tooMany = quota.LimitName{Namespace: account.Namespace, Limit: "~other"}

// tally is what operations have asked of accounts, by policy, since it was last taken. Safe
// for concurrent use.
type tally struct {
	mu sync.Mutex
	of map[quota.LimitName]*tallied
}

type tallied struct{ admitted, refused quota.Units }

// Tally passes on what was taken out of accounts, and refused, since the last call, by the names that
// policies have in the history, in millionths of a unit. Each unit is passed on once in the cluster:
//
//   - What a call on one range took is counted by the node that put it into the log, when that is
//     applied there, whoever leads the range by then and whether or not its caller learned of it.
//   - What a transaction took is counted by its coordinator when it learns that it was committed.
//   - What was refused is counted where the call is answered; what is answered by
//     an error is not known to be refused.
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

// count counts what operations took that were applied.
func (t *tally) count(ops []account.Op, under []*account.PolicyRef) {
	t.each(ops, under, func(c *tallied, _ int, u quota.Units) { c.admitted = c.admitted.Plus(u) })
}

// refuse counts what operations were refused for want of balance. Others of their call were not.
func (t *tally) refuse(ops []account.Op, out *account.Outcome) {
	t.each(ops, out.Under, func(c *tallied, i int, u quota.Units) {
		if i < len(out.Results) && out.Results[i].Status == account.Underflow {
			c.refused = c.refused.Plus(u)
		}
	})
}

// each passes on the operations that take something and go by a policy: that of the account, or
// else the one that the operation sets.
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

// maxProposed bounds the entries of a range that are known to be this process's; those that never
// came stay until there are so many.
const maxProposed = 10_000

// proposed are the entries that this process has given to a range's log and not seen applied. They are
// in memory only: what a restart replays is nobody's, and counts no more. Guarded by Replica.mu.
type proposed struct {
	seed  maphash.Seed
	count map[uint64]int // of each hash: two entries of one moment may be the same
	order []uint64       // the oldest first; some are gone
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

// remove reports whether the entry was there.
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
