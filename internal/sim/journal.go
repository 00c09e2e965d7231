package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// journal is a node's file of durable keys. It outlives the process.
type journal struct {
	incarnation quota.Incarnation // of the writing process
	slots       map[quota.Opening]quota.Counts
}

// forever is the age of every journal: it is never lost.
const forever = 1000 * time.Hour

func newJournal() *journal { return &journal{slots: map[quota.Opening]quota.Counts{}} }

// earlier returns the counts that earlier processes left.
func (j *journal) earlier() []quota.RecoveredCounts {
	var out []quota.RecoveredCounts
	for o, c := range j.slots {
		if o.Incarnation < j.incarnation {
			out = append(out, quota.RecoveredCounts{Opening: o, Counts: c})
		}
	}
	slices.SortFunc(out, func(x, y quota.RecoveredCounts) int {
		return cmp.Or(x.Key.Compare(y.Key), cmp.Compare(x.Incarnation, y.Incarnation), cmp.Compare(x.Epoch, y.Epoch))
	})
	return out
}

// Slot implements aggregator.Journal.
func (j *journal) Slot(k quota.Key, epoch quota.Seq) aggregator.JournalSlot {
	s := journalSlot{j, quota.Opening{Key: k, Incarnation: j.incarnation, Epoch: epoch}}
	s.Set(quota.Counts{})
	return s
}

// Settled implements aggregator.Journal.
func (j *journal) Settled(k quota.Key, incarnation quota.Incarnation, epoch quota.Seq) {
	delete(j.slots, quota.Opening{Key: k, Incarnation: incarnation, Epoch: epoch})
}

// journalSlot is an entry of the journal.
type journalSlot struct {
	*journal
	at quota.Opening
}

// Set implements aggregator.JournalSlot.
func (s journalSlot) Set(c quota.Counts) { s.slots[s.at] = c }

// Free implements aggregator.JournalSlot.
func (s journalSlot) Free() { delete(s.slots, s.at) }
