package aggregator

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// maxInline bounds the inline limits (quota.Inline) that are in use on this node. A further one is an unknown limit.
const maxInline = 10_000

// inline holds the limit entries of inline limits. An entry is made when its name is first looked up, and dropped when
// it had neither keys nor callers between two sweeps.
//
// An entry of a limit that a request carries (Aggregator.AdmitInline) counts for its owner, as long as any caller uses it.
// Other entries, such as those of the rules in a node's own files, count for nobody: only the total bounds them.
type inline struct {
	entries *xsync.Map[quota.LimitName, *limitEntry]
	places  *fairshare.Pool // a place for each entry, shared among owners
	fair    atomic.Int64    // their common share of the table, in keys
	keys    atomic.Int64    // their keys
}

// nobody is the owner of entries of limits that no request carries.
const nobody = ""

func newInline() inline {
	return inline{entries: xsync.NewMap[quota.LimitName, *limitEntry](), places: fairshare.NewPerFree(maxInline)}
}

// AdmitInline makes room for the inline limit of a request, out of the share of its owner. Where it returns false, without
// room, the request must not be decided. The owner is the caller of this node, or "" if that is not known: then the
// limit's namespace shares instead. Any goroutine may call it.
func (a *Aggregator) AdmitInline(n quota.LimitName, owner string) bool {
	if owner == nobody {
		owner = n.Namespace
	}
	return a.table.inline.findOrAdd(n, owner) != nil
}

func (t *inline) find(n quota.LimitName) *limitEntry {
	if !n.IsInline() {
		return nil
	}
	s, _ := t.entries.Load(n)
	return s
}

// findOrAdd returns the limit entry of a name, and makes it if there is room; nil without room, or if the name encodes
// no limit.
func (t *inline) findOrAdd(n quota.LimitName, owner string) *limitEntry {
	if s, ok := t.entries.Load(n); ok {
		s.used.Store(true)
		return s
	}
	l, err := n.Inline()
	if err != nil {
		return nil
	}
	if t.places.TryAcquire(owner, 1) != fairshare.NotFull {
		return nil
	}
	s := newLimitEntry(n)
	s.all, s.owner = &t.keys, owner
	s.fair.Store(t.fair.Load())
	s.rule.Store(&rule{limit: l, charges: []charge{{entry: s}}, simple: plain(l)})
	s.used.Store(true)
	if there, loaded := t.entries.LoadOrStore(n, s); loaded {
		t.places.Release(owner, 1)
		return there
	}
	return s
}

// sweep drops limit entries that are not used.
func (t *inline) sweep() {
	t.entries.Range(func(n quota.LimitName, s *limitEntry) bool {
		if !s.used.Swap(false) && s.size.Load() == 0 {
			s.gone.Store(true)
			t.entries.Delete(n)
			t.places.Release(s.owner, 1)
		}
		return true
	})
}

// successor returns the successor of a limit entry that was dropped just before its use; nil if its limit was removed.
func (t *inline) successor(s *limitEntry) *limitEntry {
	if !s.name.IsInline() {
		return nil
	}
	return t.findOrAdd(s.name, s.owner)
}
