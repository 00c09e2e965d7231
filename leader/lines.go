package leader

import (
	"iter"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Lines holds the lines of a range's log when a term begins. It belongs to one ledger, which reads a line when
// its key is first used: a new leader that read all of them first would grant later.
type Lines interface {
	// Find returns the line of a key; false if the log has none.
	Find(k quota.Key) (quota.KeyLevel, bool)
	// Drop removes the line of a key, if there is one.
	Drop(k quota.Key)
	// All returns all lines, without marks.
	All() iter.Seq[quota.KeyLevel]
}

// LinesOf returns Lines for a list with one line per key.
func LinesOf(list []quota.KeyLevel) Lines {
	ls := &listedLines{list: slices.Clone(list), of: make(map[quota.Key]int, len(list))}
	for i := range list {
		ls.of[list[i].Key] = i
	}
	return ls
}

type listedLines struct {
	list []quota.KeyLevel
	of   map[quota.Key]int // index in list; dropped lines are not in it
}

func (ls *listedLines) Find(k quota.Key) (quota.KeyLevel, bool) {
	i, ok := ls.of[k]
	if !ok {
		return quota.KeyLevel{}, false
	}
	return ls.list[i], true
}

func (ls *listedLines) Drop(k quota.Key) { delete(ls.of, k) }

func (ls *listedLines) All() iter.Seq[quota.KeyLevel] {
	return func(yield func(quota.KeyLevel) bool) {
		for i := range ls.list {
			kl := ls.list[i]
			if _, ok := ls.of[kl.Key]; !ok {
				continue
			}
			kl.Marks = nil
			if !yield(kl) {
				return
			}
		}
	}
}

// useLines takes over the lines of the range's log.
func (l *Ledger) useLines(lines Lines) {
	if lines == nil {
		lines = LinesOf(nil)
	}
	l.lines, l.linesEnd = lines, l.learnsUntil()
	for kl := range lines.All() {
		l.linesEnd = max(l.linesEnd, kl.FullAt, l.started.Add(kl.FullAt.Sub(kl.At))) // whatever the clock of the leader that wrote it
		if kl.Level < quota.Token && len(l.usedUp) < maxAnnounced {
			l.usedUp = append(l.usedUp, kl.Key)
		}
	}
}

// learnsUntil is when members have reported what they used before this leader. Until then, the line of a key that is
// full again shows what has overflowed since (envelope.opened).
func (l *Ledger) learnsUntil() quota.Time { return l.started.Add(l.cfg.Lease) }

// dropLines drops the lines once all of their keys are full again.
func (l *Ledger) dropLines(now quota.Time) {
	if l.linesEnd > 0 && l.linesEnd <= now {
		l.lines, l.linesEnd = LinesOf(nil), 0
	}
}

// forgetLine drops what is known of a key without a bucket.
func (l *Ledger) forgetLine(k quota.Key) {
	delete(l.saved, k)
	l.lines.Drop(k)
}

// unopenedLevels returns the levels of all keys without a bucket that are not known to be full, without marks.
func (l *Ledger) unopenedLevels() iter.Seq[quota.KeyLevel] {
	return func(yield func(quota.KeyLevel) bool) {
		for kl := range l.lines.All() {
			if !yield(kl) {
				return
			}
		}
		for _, kl := range l.saved {
			if !yield(kl.KeyLevel) {
				return
			}
		}
	}
}
