package aggregator

import (
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// Handle is one key of one limit, for those that ask for it again and again: it
// remembers where its bucket is. The zero Handle remembers nothing. Any goroutine may
// use it.
type Handle struct{ at atomic.Pointer[cachedPlace] }

// cachedPlace is where a handle has found its bucket, in which set of limits.
type cachedPlace struct {
	of    *Aggregator
	slots *map[quota.LimitName]*limitEntry
	line  *hotEntry
	b     *bucket
}

// Take takes a cost out of what is held: no lock, no map, no clock, no allocation. False
// says that nothing was taken or counted, and that [Aggregator.TrySimple] or a [Call]
// has to decide.
//
// A bucket that was dropped holds nothing, and one of other limits is not looked
// at: so a handle never spends tokens that are gone.
func (h *Handle) Take(cost int64) bool {
	p := h.at.Load()
	return p != nil && p.slots == p.of.table.slots.Load() && p.line.pay(cost, p.b, &p.of.urgent)
}

// Refuses reports whether the cost is refused for certain, and counts it as refused: it
// was just refused, and neither has anything happened to the key since, nor has it had
// the time to gain that much. No lock, no map, no allocation; the clock is read only if
// the key has refused something. False decides nothing.
func (h *Handle) Refuses(clock Clock, cost int64) bool {
	p := h.at.Load()
	return p != nil && p.slots == p.of.table.slots.Load() && cost > 0 && cost <= quota.MaxTokens && p.b.deny.denies(clock, quota.FromTokens(cost))
}

// Find looks a key's bucket up for a handle, after Take has failed and the key was
// decided. The limit need not exist.
func (a *Aggregator) Find(h *Handle, n quota.LimitName, key string) {
	slots := a.table.slots.Load()
	s, key := a.table.resolve(n, key)
	if s == nil || !s.rule.Load().simple {
		h.Forget()
		return
	}
	l, b := s.keys.find(key)
	if l == nil || b == nil {
		return
	}
	if p := h.at.Load(); p == nil || p.line != l || p.slots != slots || p.of != a {
		h.at.Store(&cachedPlace{a, slots, l, b})
	}
}

// Forget makes the handle a zero one.
func (h *Handle) Forget() {
	if h.at.Load() != nil {
		h.at.Store(nil)
	}
}

// LimitHandle is one limit, for those that ask for many of its keys. The zero
// LimitHandle remembers nothing. Any goroutine may use it.
type LimitHandle struct{ at atomic.Pointer[cachedLimit] }

// cachedLimit is where a handle has found its limit, in which set of limits.
type cachedLimit struct {
	of    *Aggregator
	slots *map[quota.LimitName]*limitEntry
	keys  *keys
}

// Take is Handle.Take of one of the keys: no lock, no clock, no allocation.
func (h *LimitHandle) Take(key string, cost int64) bool {
	p := h.at.Load()
	if p == nil || p.slots != p.of.table.slots.Load() {
		return false
	}
	l, b := p.keys.find(key)
	return l != nil && l.pay(cost, b, &p.of.urgent)
}

// FindLimit looks a limit up for a handle, after Take has failed and a key was
// decided. The limit need not exist. One whose keys are not counted by their own name
// alone, or that takes more than one counter, is not found.
func (a *Aggregator) FindLimit(h *LimitHandle, n quota.LimitName) {
	slots := a.table.slots.Load()
	s, key := a.table.resolve(n, "")
	if s == nil || key != "" || !s.rule.Load().simple {
		h.Forget()
		return
	}
	if p := h.at.Load(); p == nil || p.keys != s.keys || p.slots != slots || p.of != a {
		h.at.Store(&cachedLimit{a, slots, s.keys})
	}
}

// Forget makes the handle a zero one.
func (h *LimitHandle) Forget() {
	if h.at.Load() != nil {
		h.at.Store(nil)
	}
}
