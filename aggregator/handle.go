package aggregator

import (
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// Handle is one key of one limit, for those that ask for it again and again: it
// remembers where its bucket is. Any goroutine may use it.
type Handle struct {
	a    *Aggregator
	name quota.LimitName
	key  string
	at   atomic.Pointer[spot]
}

// spot is where a handle has found its bucket, in which set of limits.
type spot struct {
	slots *map[quota.LimitName]*slot
	slot  *slot
	b     *bucket
}

// Handle returns a handle of a key. The limit need not exist yet.
func (a *Aggregator) Handle(n quota.LimitName, key string) *Handle {
	return &Handle{a: a, name: n, key: key}
}

// Take takes a cost out of what is held, as Allow does first of all: no lock, no
// map, no clock, no allocation. False says that nothing was taken or counted, and
// that the key is to be decided with [Aggregator.TrySimple] or a [Call].
//
// A bucket that was dropped holds nothing, and one of other limits is not looked
// at: so a handle never spends what is not there any more.
func (h *Handle) Take(cost int64) bool {
	p := h.at.Load()
	if p == nil || p.slots != h.a.table.slots.Load() {
		return false
	}
	b := p.b
	return b.own.Load() == nil && p.slot.rule.Load().simple && cost > 0 && cost <= quota.MaxTokens && b.take(cost*int64(quota.Token), &h.a.urgent)
}

// Find looks the bucket up again, after Take has failed and the key was decided.
func (h *Handle) Find() {
	slots := h.a.table.slots.Load()
	s, key := h.a.table.resolve(h.name, h.key)
	if s == nil {
		return
	}
	b, ok := s.keys.Load(key)
	if !ok {
		return
	}
	if p := h.at.Load(); p == nil || p.b != b || p.slots != slots {
		h.at.Store(&spot{slots, s, b})
	}
}
