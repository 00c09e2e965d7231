package aggregator

import (
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// tally is what was counted under one counter since Tally was last called. Each has a
// cache line of its own: what callers read of a limit entry does not move with it.
type tally struct {
	_                [64]byte
	admitted, failed atomic.Int64 // Units
	unfit            atomic.Int64 // refused like failed, as it costs more than can ever pass
	_                [40]byte
}

// tallied is what of a bucket's counters is in there.
type tallied struct{ spent, refused quota.Units }

// tally adds what was counted since the last time. Held by b.mu.
func (b *bucket) tally() {
	c := b.counts()
	now := tallied{c.spent(), c.refused}
	if now == b.tallied {
		return
	}
	b.entry.sum.add(now.spent-b.tallied.spent, now.refused-b.tallied.refused)
	b.tallied = now
}

// skipTally takes what is counted for tallied: it was, in the epoch before. Held by b.mu.
func (b *bucket) skipTally() {
	c := b.counts()
	b.tallied = tallied{c.spent(), c.refused}
}

func (t *tally) add(admitted, refused quota.Units) {
	if admitted != 0 {
		addAtomic(&t.admitted, admitted)
	}
	if refused != 0 {
		addAtomic(&t.failed, refused)
	}
}

// addAtomic adds what may be below 0, up to the ends of the range.
func addAtomic(n *atomic.Int64, u quota.Units) {
	for {
		was := n.Load()
		if n.CompareAndSwap(was, int64(quota.Units(was).Plus(u))) {
			return
		}
	}
}

// take returns what was added, and begins again. If more was taken back than was added since, the
// rest is kept for the next time.
func (t *tally) take() (admitted, refused quota.Units) {
	return takeAbove(&t.admitted), takeAbove(&t.failed).Plus(takeAbove(&t.unfit))
}

func takeAbove(sum *atomic.Int64) quota.Units {
	if sum.Load() <= 0 {
		return 0
	}
	return quota.Units(sum.Swap(0))
}

// tallyAnswer counts what a leader has decided for a call that is over. What it admitted
// for a call that was refused it takes back.
func (a *Aggregator) tallyAnswer(an *answer, refused bool) {
	s := a.table.find(an.ask.Key.LimitName)
	switch {
	case s == nil || an.ask.Cost <= 0 || !an.used:
	case !an.is.Allowed:
		s.sum.add(0, an.ask.Cost)
	case !refused:
		s.sum.add(an.ask.Cost, 0)
	}
}

// tallies are those of limits that were removed, until Tally has passed them on.
type tallies struct{ left []*limitEntry }

func (t *tallies) leave(s *limitEntry) {
	if len(t.left) < maxInline { // or nobody asks for them
		t.left = append(t.left, s)
	}
}

// Tally calls f for every limit with decisions here since the last call, with how much
// was admitted and how much refused. Of a limit with several tiers what was admitted
// counts in the first, what was refused in all of them: f may be called for each. Counts
// are as late as reports are (a few parts of a sync interval while a key is in use),
// those of leaderless ranges too. One goroutine at a time, as Collect.
func (a *Aggregator) Tally(f func(limit quota.LimitName, admitted, refused quota.Units)) {
	for _, s := range a.slots() {
		s.tell(f)
	}
	a.table.inline.slots.Range(func(_ quota.LimitName, s *limitEntry) bool {
		s.tell(f)
		return true
	})
	for _, s := range a.tallies.left {
		s.tell(f)
	}
	clear(a.tallies.left)
	a.tallies.left = a.tallies.left[:0]
}

// TallyUnfit calls f for every limit with refusals since the last call of requests that cost
// more than can ever pass, with how much was refused, until f returns false: the next call
// reports what it did not take. It is for callers that do not call Tally. One goroutine at a
// time.
func (a *Aggregator) TallyUnfit(f func(limit quota.LimitName, refused quota.Units) bool) {
	more := true
	tell := func(s *limitEntry) bool {
		if u := takeAbove(&s.sum.unfit); u > 0 {
			base, _ := s.name.Base()
			if more = f(base, u); !more {
				addAtomic(&s.sum.unfit, u)
			}
		}
		return more
	}
	for _, s := range a.slots() {
		if !tell(s) {
			return
		}
	}
	a.table.inline.slots.Range(func(_ quota.LimitName, s *limitEntry) bool { return tell(s) })
}

// Unfit counts what others refused because it costs more than can ever pass, for Tally. Of a limit
// that is not known nothing is counted. Safe for concurrent use.
func (a *Aggregator) Unfit(limit quota.LimitName, refused quota.Units) {
	if s := a.table.find(limit); s != nil && refused > 0 {
		addAtomic(&s.sum.unfit, refused)
	}
}

func (s *limitEntry) tell(f func(limit quota.LimitName, admitted, refused quota.Units)) {
	admitted, refused := s.sum.take()
	base, tier := s.name.Base()
	if tier == 0 {
		return // the floor: its limit counts it
	}
	if tier > 1 {
		admitted = 0
	}
	if admitted > 0 || refused > 0 {
		f(base, admitted, refused)
	}
}

// TallyAll is Tally of everything that was decided, also of keys whose turn to report has
// not come: it looks at every key. For a member that stops.
func (a *Aggregator) TallyAll(f func(limit quota.LimitName, admitted, refused quota.Units)) {
	look := func(s *limitEntry) {
		s.keys.Range(func(b *bucket) {
			b.lock()
			b.tally()
			b.unlock()
		})
	}
	for _, s := range a.slots() {
		look(s)
	}
	a.table.inline.slots.Range(func(_ quota.LimitName, s *limitEntry) bool {
		look(s)
		return true
	})
	a.Tally(f)
}
