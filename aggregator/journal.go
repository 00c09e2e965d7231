package aggregator

import "github.com/quorate/quorate/internal/quota"

// Journal keeps what this process has counted on durable keys where its death
// does not lose it. Its methods may be called by any goroutine, some of them
// with a key locked: they must not block, and must not call the Aggregator.
type Journal interface {
	// Slot returns a place for the counts of a key that has just been opened; nil
	// when there is no room, and the key is then forgotten with the process. birth
	// tells this life of the key from an earlier one in the same process; larger
	// is later.
	Slot(k quota.Key, birth quota.Seq) JournalSlot
	// Settled says that a leader has committed what an earlier process had
	// counted: its place is free.
	Settled(k quota.Key, life quota.Incarnation, birth quota.Seq)
}

// JournalSlot is the place of one key. Set is never called twice at a time.
type JournalSlot interface {
	// Set replaces what the slot says. A reader after a crash must see all of one
	// call, or all of the one before.
	Set(c quota.Counts)
	// Free gives the place back: a leader has committed what it says. The slot is
	// not used afterwards.
	Free()
}

// Afterlife tells what earlier processes of this node had counted: what the
// journal held at the start. It is reported to the leaders until they have
// committed it. One goroutine at a time, as Collect.
func (a *Aggregator) Afterlife(entries []quota.Afterlife) {
	a.afterlife = append(a.afterlife, entries...)
}
