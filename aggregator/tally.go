package aggregator

import (
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// tally counts the decisions of one counter since the last call of Tally. Padding gives it a cache line of its own,
// so that writes to it do not invalidate the fields of the limit entry that callers read.
type tally struct {
	_                [64]byte
	admitted, failed atomic.Int64 // Units
	unfit            atomic.Int64 // refused like failed, but because the cost can never fit
	_                [40]byte
}

// tallied is the part of a bucket's counters that the tally includes.
type tallied struct{ spent, refused quota.Units }

// tally adds the bucket's counts since the last call. Held by b.mu.
func (b *bucket) tally() {
	c := b.counts()
	now := tallied{c.spent(), c.refused}
	if now == b.tallied {
		return
	}
	b.entry.sum.add(now.spent-b.tallied.spent, now.refused-b.tallied.refused)
	b.tallied = now
}

// skipTally marks the current counts as tallied: they were, in the previous epoch. Held by b.mu.
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

// addAtomic adds u, which may be negative, and saturates.
func addAtomic(n *atomic.Int64, u quota.Units) {
	for {
		was := n.Load()
		if n.CompareAndSwap(was, int64(quota.Units(was).Plus(u))) {
			return
		}
	}
}

// take returns the sums and resets them. A negative sum, because more was taken back than was added since, is kept
// for the next call.
func (t *tally) take() (admitted, refused quota.Units) {
	return takeAbove(&t.admitted), takeAbove(&t.failed).Plus(takeAbove(&t.unfit))
}

func takeAbove(sum *atomic.Int64) quota.Units {
	if sum.Load() <= 0 {
		return 0
	}
	return quota.Units(sum.Swap(0))
}

// tallyAnswer counts a leader's decision for a call that is over. Admissions for a refused call are not counted: the
// leader takes them back.
func (a *Aggregator) tallyAnswer(an *answer, refused bool) {
	s := a.table.find(an.ask.Key.LimitName)
	switch {
	case s == nil || an.ask.Cost <= 0 || !an.used:
	case !an.answer.Allowed:
		s.sum.add(0, an.ask.Cost)
	case !refused && !an.answer.Report:
		s.sum.add(an.ask.Booked(), 0)
	}
}

// tallies holds the limit entries of removed limits, until Tally has passed on their counts.
type tallies struct{ left []*limitEntry }

func (t *tallies) leave(s *limitEntry) {
	if len(t.left) < maxInline { // otherwise Tally is not called
		t.left = append(t.left, s)
	}
}

// Tally calls f for every limit with decisions on this node since the last call, with the admitted and the refused
// cost. Of a limit with several tiers, admissions count in the first tier, refusals in all of them: f may be called
// for each. Counts lag like reports (a few parts of a sync interval while a key is in use), also in ranges without a
// leader. Call it from the goroutine that calls Collect.
func (a *Aggregator) Tally(f func(limit quota.LimitName, admitted, refused quota.Units)) {
	for _, s := range a.entries() {
		s.passTally(f)
	}
	a.table.inline.entries.Range(func(_ quota.LimitName, s *limitEntry) bool {
		s.passTally(f)
		return true
	})
	for _, s := range a.tallies.left {
		s.passTally(f)
	}
	clear(a.tallies.left)
	a.tallies.left = a.tallies.left[:0]
}

// TallyUnfit calls f for every limit with refusals since the last call of costs that can never fit, until f returns
// false; the next call repeats the counts that f did not take. It is for callers that do not call Tally. Call it from
// the goroutine that calls Collect.
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
	for _, s := range a.entries() {
		if !tell(s) {
			return
		}
	}
	a.table.inline.entries.Range(func(_ quota.LimitName, s *limitEntry) bool { return tell(s) })
}

// Unfit adds refusals by other processes of costs that can never fit, for Tally. It counts nothing for unknown
// limits. Any goroutine may call it.
func (a *Aggregator) Unfit(limit quota.LimitName, refused quota.Units) {
	if s := a.table.find(limit); s != nil && refused > 0 {
		addAtomic(&s.sum.unfit, refused)
	}
}

func (s *limitEntry) passTally(f func(limit quota.LimitName, admitted, refused quota.Units)) {
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

// TallyAll is Tally for all decisions, including those of keys that are not due: it visits every key. It is for a
// member that stops.
func (a *Aggregator) TallyAll(f func(limit quota.LimitName, admitted, refused quota.Units)) {
	look := func(s *limitEntry) {
		s.keys.Range(func(b *bucket) {
			b.lock()
			b.tally()
			b.unlock()
		})
	}
	for _, s := range a.entries() {
		look(s)
	}
	a.table.inline.entries.Range(func(_ quota.LimitName, s *limitEntry) bool {
		look(s)
		return true
	})
	a.Tally(f)
}
