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
	life  quota.Incarnation // of the writing process
	slots map[place]quota.Counts
}

type place struct {
	key   quota.Key
	life  quota.Incarnation
	birth quota.Seq
}

// forever is the age of every journal: it is never lost.
const forever = 1000 * time.Hour

func newJournal() *journal { return &journal{slots: map[place]quota.Counts{}} }

// earlier returns the counts that earlier processes left.
func (j *journal) earlier() []quota.RecoveredCounts {
	var out []quota.RecoveredCounts
	for p, c := range j.slots {
		if p.life < j.life {
			out = append(out, quota.RecoveredCounts{Key: p.key, Life: p.life, Birth: p.birth, Counts: c})
		}
	}
	slices.SortFunc(out, func(x, y quota.RecoveredCounts) int {
		return cmp.Or(x.Key.Compare(y.Key), cmp.Compare(x.Life, y.Life), cmp.Compare(x.Birth, y.Birth))
	})
	return out
}

// Slot implements aggregator.Journal.
func (j *journal) Slot(k quota.Key, birth quota.Seq) aggregator.JournalSlot {
	s := journalSlot{j, place{k, j.life, birth}}
	s.Set(quota.Counts{})
	return s
}

// Settled implements aggregator.Journal.
func (j *journal) Settled(k quota.Key, life quota.Incarnation, birth quota.Seq) {
	delete(j.slots, place{k, life, birth})
}

// journalSlot is an entry of the journal.
type journalSlot struct {
	*journal
	at place
}

// Set implements aggregator.JournalSlot.
func (s journalSlot) Set(c quota.Counts) { s.slots[s.at] = c }

// Free implements aggregator.JournalSlot.
func (s journalSlot) Free() { delete(s.slots, s.at) }
