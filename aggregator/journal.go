package aggregator

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Journal stores this process's counts on durable keys where they outlive it. Its methods may be called by any
// goroutine, some with a key locked: they must not block, and must not call the Aggregator.
type Journal interface {
	// Slot returns a slot for the counts of a key that has just been opened; nil without room, and the counts are
	// then lost with the process. epoch distinguishes this opening of the key from earlier ones in the same process;
	// larger is later. Until the first Set, the slot records that nothing was counted: tokens that a leader granted
	// return to it even if the process dies before it receives them.
	Slot(k quota.Key, epoch quota.Seq) JournalSlot
	// Settled notes that a leader has committed the counts of an earlier process: their slot is free.
	Settled(k quota.Key, incarnation quota.Incarnation, epoch quota.Seq)
}

// JournalSlot is the slot of one key. Calls of Set do not overlap.
type JournalSlot interface {
	// Set replaces the content of the slot. A reader after a crash must see the content of one call completely, the
	// last one or the one before.
	Set(c quota.Counts)
	// Free releases the slot: a leader has committed its content. It is not used afterwards.
	Free()
}

// openSlot takes a journal slot for a key with durable counts. Held by b.mu.
func (a *Aggregator) openSlot(b *bucket, l *quota.Limit) {
	b.closeSlot()
	if a.cfg.Journal != nil && l.Endures() {
		b.rare().slot = a.cfg.Journal.Slot(quota.Key{LimitName: b.entry.name, Key: b.key}, b.epoch)
	}
}

func (b *bucket) closeSlot() {
	if b.slot != nil {
		b.slot.Free()
		b.rare().slot = nil
	}
}

// writeSlot writes the key's counts to its journal slot. Held tokens may be taken without the lock at any moment, except
// for kinds with windows: so they count as used. Held by b.mu.
func (b *bucket) writeSlot() {
	if b.slot == nil {
		return
	}
	total, held := b.in, quota.Units(b.hot().held.Load())
	if b.windowed() || held < 0 { // a grant has taken back tokens that are used
		total -= held
	}
	if b.allocated > 0 && b.limit().Ceiling == quota.Soft { // clients report it to the next node that they attach to
		total -= b.allocated
	}
	win := b.win
	if b.until == 0 {
		win = 0
	}
	b.slot.Set(quota.Counts{Total: min(total.Plus(b.over), quota.Most), Saved: b.saved, Before: b.before, Back: b.refunded, Window: win})
}

// windowed reports whether held tokens are taken only under the lock.
func (b *bucket) windowed() bool { return b.entry.rule.Load().limit.Kind.Windowed() }

// recovered holds the counts of earlier processes in one range.
type recovered struct {
	list  []quota.RecoveredCounts
	index map[recoveredKey]int
	at    quota.Time // time of the next report about them
	tries int        // reports since one was committed
}

type recoveredKey struct {
	key         quota.Key
	incarnation quota.Incarnation
	epoch       quota.Seq
}

// Recovered takes over the counts of this node's earlier processes, read from the journal at the start. They are
// reported to the leaders until these have committed them. Call it from the goroutine that calls Collect.
func (a *Aggregator) Recovered(entries []quota.RecoveredCounts) {
	for i := range entries {
		e := &entries[i]
		l := &a.ranges[shard.Of(e.Key, a.cfg.Ranges)].recovered
		id := recoveredKey{e.Key, e.Incarnation, e.Epoch}
		if _, twice := l.index[id]; twice || e.Incarnation >= a.cfg.Incarnation {
			continue
		}
		if l.index == nil {
			l.index = map[recoveredKey]int{}
		}
		l.index[id] = len(l.list)
		l.list, l.at = append(l.list, *e), 0
	}
}

// recoveredEvery is the first interval after which counts that no leader has committed are reported again; it grows
// up to a lease while none of them is committed.
const recoveredEvery = 500 * time.Millisecond

// reportRecovered reports the counts of earlier processes, in reports of their own.
func (a *Aggregator) reportRecovered(now quota.Time, out []quota.Report) []quota.Report {
	for r := range a.ranges {
		rt := &a.ranges[r]
		if len(rt.recovered.list) == 0 || rt.leader == "" || now < rt.recovered.at {
			continue
		}
		rt.recovered.at = now.Add(min(recoveredEvery<<min(rt.recovered.tries, 10), max(a.cfg.Lease, recoveredEvery)))
		rt.recovered.tries++
		for from := 0; from < len(rt.recovered.list); from += a.cfg.MaxEntries {
			rt.seq++
			rep := quota.Report{Range: quota.RangeID(r), Term: rt.term, From: a.cfg.Self, Incarnation: a.cfg.Incarnation, Seq: rt.seq}
			for _, e := range rt.recovered.list[from:min(from+a.cfg.MaxEntries, len(rt.recovered.list))] {
				rep.Entries = append(rep.Entries, quota.ReportEntry{
					Key: e.Key, Incarnation: e.Incarnation, Epoch: e.Epoch, Overdrawn: e.Total, Refunded: e.Back,
					Window: e.Window, Before: e.Before, Saved: e.Saved,
				})
			}
			out = append(out, rep)
		}
	}
	return out
}

// recoveredAt returns the time of the next report about earlier processes.
func (a *Aggregator) recoveredAt() quota.Time {
	at := quota.Time(math.MaxInt64)
	for r := range a.ranges {
		if rt := &a.ranges[r]; len(rt.recovered.list) > 0 && rt.leader != "" {
			at = min(at, rt.recovered.at)
		}
	}
	return at
}

// dropRecovered drops counts of an earlier process that a leader has committed.
func (a *Aggregator) dropRecovered(rt *route, e *quota.GrantEntry) {
	l := &rt.recovered
	id := recoveredKey{e.Key, e.Incarnation, e.Epoch}
	i, ok := l.index[id]
	if !ok || e.Saved < l.list[i].Total {
		return
	}
	last := len(l.list) - 1
	moved := l.list[last]
	l.index[recoveredKey{moved.Key, moved.Incarnation, moved.Epoch}] = i
	l.list[i], l.list = moved, l.list[:last]
	delete(l.index, id)
	l.tries = 0
	if a.cfg.Journal != nil {
		a.cfg.Journal.Settled(e.Key, e.Incarnation, e.Epoch)
	}
}
