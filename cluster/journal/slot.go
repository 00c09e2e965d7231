package journal

import (
	"sync/atomic"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// place is a slot that this process writes.
type place struct {
	j   *Journal
	p   *slot
	at  int
	id  uint64
	seq uint64
}

var _ aggregator.JournalSlot = (*place)(nil)

// Set implements aggregator.JournalSlot with a few stores to memory. It stores the check last and
// atomically, so that neither the compiler nor the processor moves a store of the counts past it.
func (s *place) Set(c quota.Counts) {
	if s.j.closed.Load() {
		return
	}
	s.seq++
	h := &s.p.halves[s.seq&1]
	next := half{
		total: int64(c.Total), saved: int64(c.Saved), before: int64(c.Before), back: int64(c.Back), window: int64(c.Window),
		seq: s.seq,
	}
	h.total, h.saved, h.before, h.back, h.window, h.seq = next.total, next.saved, next.before, next.back, next.window, next.seq
	atomic.StoreUint64(&h.check, next.sum(s.id))
}

// Free implements aggregator.JournalSlot.
func (s *place) Free() { s.j.release(s.at) }
