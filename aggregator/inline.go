package aggregator

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/quorate/quorate/internal/quota"
)

// maxInline bounds the limits that callers brought along (quota.Inline) and that are in
// use here at a time. A further one gets no limit entry.
const maxInline = 10_000

// inline holds their limit entries. One is made when its name is first asked for, and goes
// when it has had no keys and no callers between two sweeps.
type inline struct {
	slots *xsync.Map[quota.LimitName, *limitEntry]
	size  atomic.Int64
	fair  atomic.Int64 // how many keys are the share of them all
	keys  atomic.Int64 // how many they have
}

func newInline() inline {
	return inline{slots: xsync.NewMap[quota.LimitName, *limitEntry]()}
}

func (t *inline) find(n quota.LimitName) *limitEntry {
	if !n.IsInline() {
		return nil
	}
	s, _ := t.slots.Load(n)
	return s
}

// limit entry returns the limit entry of a name, and makes it if there is room. It returns nil
// without room, or if the name encodes no limit.
func (t *inline) slot(n quota.LimitName) *limitEntry {
	if s, ok := t.slots.Load(n); ok {
		s.used.Store(true)
		return s
	}
	l, err := n.Inline()
	if err != nil {
		return nil
	}
	if t.size.Add(1) > maxInline {
		t.size.Add(-1)
		return nil
	}
	s := newLimitEntry(n)
	s.all = &t.keys
	s.fair.Store(t.fair.Load())
	s.rule.Store(&rule{limit: l, charges: []charge{{slot: s}}, simple: plain(l)})
	s.used.Store(true)
	if there, loaded := t.slots.LoadOrStore(n, s); loaded {
		t.size.Add(-1)
		return there
	}
	return s
}

// sweep drops the limit entries that nobody uses.
func (t *inline) sweep() {
	t.slots.Range(func(n quota.LimitName, s *limitEntry) bool {
		if !s.used.Swap(false) && s.size.Load() == 0 {
			s.gone.Store(true)
			t.slots.Delete(n)
			t.size.Add(-1)
		}
		return true
	})
}

// again returns the limit entry that took the place of one that is gone while it was about
// to be used; nil if its limit was removed.
func (t *inline) again(s *limitEntry) *limitEntry {
	if !s.name.IsInline() {
		return nil
	}
	return t.slot(s.name)
}
