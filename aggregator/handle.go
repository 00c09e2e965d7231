package aggregator

import (
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// Handle caches the place of one key's bucket, for callers that check the key repeatedly. The zero Handle is empty.
// Any goroutine may use it.
type Handle struct{ at atomic.Pointer[cachedPlace] }

// cachedPlace is the place of a bucket, and the set of limits in which it was found.
type cachedPlace struct {
	of      *Aggregator
	entries *map[quota.LimitName]*limitEntry
	line    *hotEntry
	b       *bucket
}

// Take takes a cost out of held tokens, without lock, map, clock or allocation. It returns false if it has taken and
// counted nothing, and [Aggregator.TrySimple] or a [Call] has to decide.
//
// A dropped bucket holds nothing, and a bucket of an earlier set of limits is not used, so a handle never spends
// tokens that are gone.
func (h *Handle) Take(cost int64) bool {
	p := h.at.Load()
	return p != nil && p.entries == p.of.table.entries.Load() && p.line.pay(cost, p.b, &p.of.urgent)
}

// Refuses reports whether the cost certainly cannot pass, and counts it as refused if so: it was just refused, the
// bucket has not been locked since, and could not have gained that much. It uses no lock, map or allocation, and
// reads the clock only if the key has refused something. The clock may be behind that of the other calls: then a
// refusal is repeated for that much longer. False decides nothing.
func (h *Handle) Refuses(clock Clock, cost int64) bool {
	p := h.at.Load()
	return p != nil && p.entries == p.of.table.entries.Load() && cost > 0 && cost <= quota.MaxTokens && p.b.denies(clock, quota.FromTokens(cost))
}

// Find looks up a key's bucket for a handle, after Take has failed and the key was decided. The limit need not exist.
func (a *Aggregator) Find(h *Handle, n quota.LimitName, key string) {
	entries := a.table.entries.Load()
	s, key := a.table.resolve(n, key)
	if s == nil || !s.rule.Load().simple {
		h.Forget()
		return
	}
	l, b := s.keys.find(key)
	if l == nil || b == nil {
		return
	}
	if p := h.at.Load(); p == nil || p.line != l || p.entries != entries || p.of != a {
		h.at.Store(&cachedPlace{a, entries, l, b})
	}
}

// Forget empties the handle.
func (h *Handle) Forget() {
	if h.at.Load() != nil {
		h.at.Store(nil)
	}
}

// LimitHandle caches one limit, for callers that check many of its keys. The zero LimitHandle is empty. Any goroutine
// may use it.
type LimitHandle struct{ at atomic.Pointer[cachedLimit] }

// cachedLimit is the table of a limit's keys, and the set of limits in which it was found.
type cachedLimit struct {
	of      *Aggregator
	entries *map[quota.LimitName]*limitEntry
	keys    *keys
}

// Take is Handle.Take for one of the keys, without lock, clock or allocation.
func (h *LimitHandle) Take(key string, cost int64) bool {
	p := h.at.Load()
	if p == nil || p.entries != p.of.table.entries.Load() {
		return false
	}
	l, b := p.keys.find(key)
	return l != nil && l.pay(cost, b, &p.of.urgent)
}

// FindLimit looks up a limit for a handle, after Take has failed and a key was decided. The limit need not exist. It
// does not find limits that change the names of their keys, or that charge more than one counter.
func (a *Aggregator) FindLimit(h *LimitHandle, n quota.LimitName) {
	entries := a.table.entries.Load()
	s, key := a.table.resolve(n, "")
	if s == nil || key != "" || !s.rule.Load().simple {
		h.Forget()
		return
	}
	if p := h.at.Load(); p == nil || p.keys != s.keys || p.entries != entries || p.of != a {
		h.at.Store(&cachedLimit{a, entries, s.keys})
	}
}

// Forget empties the handle.
func (h *LimitHandle) Forget() {
	if h.at.Load() != nil {
		h.at.Store(nil)
	}
}
