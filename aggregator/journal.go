package aggregator

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Journal keeps what this process has counted on durable keys where its death
// does not lose it. Its methods may be called by any goroutine, some of them
// with a key locked: they must not block, and must not call the Aggregator.
type Journal interface {
	// Slot returns a place for the counts of a key that has just been opened; nil
	// when there is no room, and the key is then forgotten with the process. birth
	// distinguishes this life of the key from earlier ones in the same process;
	// larger is later. Until Set is called the place says that nothing was counted:
	// what a leader grants comes back also if the process dies before it hears of
	// it.
	Slot(k quota.Key, birth quota.Seq) JournalSlot
	// Settled says that a leader has committed what an earlier process had
	// counted: its place is free.
	Settled(k quota.Key, life quota.Incarnation, birth quota.Seq)
}

// JournalSlot is the place of one key. Set is never called twice at a time.
type JournalSlot interface {
	// Set replaces what the limit entry says. A reader after a crash must see all of one
	// call, or all of the one before.
	Set(c quota.Counts)
	// Free gives the place back: a leader has committed what it says. The limit entry is
	// not used afterwards.
	Free()
}

// openPlace takes a place for a key whose counts endure. Held by b.mu.
func (a *Aggregator) openPlace(b *bucket, l *quota.Limit) {
	b.closePlace()
	if a.cfg.Journal != nil && l.Endures() {
		b.place = a.cfg.Journal.Slot(quota.Key{LimitName: b.entry.name, Key: b.key}, b.epoch)
	}
}

func (b *bucket) closePlace() {
	if b.place != nil {
		b.place.Free()
		b.place = nil
	}
}

// note writes down what the key has counted. What is held may be taken without
// the lock at any moment, except for a window: so it counts as used. Held by
// b.mu.
func (b *bucket) note() {
	if b.place == nil {
		return
	}
	total := b.in
	if b.windowed() {
		total -= quota.Units(b.hot().held.Load())
	}
	if b.allocated > 0 && b.limit().Ceiling == quota.Soft { // clients tell it to the next node that they attach to
		total -= b.allocated
	}
	win := b.win
	if b.until == 0 {
		win = 0
	}
	b.place.Set(quota.Counts{Total: min(total.Plus(b.over), quota.Most), Saved: b.saved, Before: b.before, Back: b.refunded, Window: win})
}

// windowed reports whether nobody takes what is held without the lock.
func (b *bucket) windowed() bool { return b.entry.rule.Load().limit.Kind.Windowed() }

// recovered are what earlier processes had counted in one range.
type recovered struct {
	list  []quota.RecoveredCounts
	index map[recoveredKey]int
	at    quota.Time // when to tell them again
	tries int        // since one was committed
}

type recoveredKey struct {
	key   quota.Key
	life  quota.Incarnation
	birth quota.Seq
}

// Recovered takes over what earlier processes of this node had counted: the
// content of the journal at the start. It is reported to the leaders until they
// have committed it. One goroutine at a time, as Collect.
func (a *Aggregator) Recovered(entries []quota.RecoveredCounts) {
	for i := range entries {
		e := &entries[i]
		l := &a.ranges[shard.Of(e.Key, a.cfg.Ranges)].recovered
		id := recoveredKey{e.Key, e.Life, e.Birth}
		if _, twice := l.index[id]; twice || e.Life >= a.cfg.Incarnation {
			continue
		}
		if l.index == nil {
			l.index = map[recoveredKey]int{}
		}
		l.index[id] = len(l.list)
		l.list, l.at = append(l.list, *e), 0
	}
}

// recoveredEvery is the first interval after which counts that no leader has committed are
// reported again; it grows up to a lease as long as none of them is committed.
const recoveredEvery = 500 * time.Millisecond

// reportRecovered reports what earlier processes had counted, in reports of their own.
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
					Key: e.Key, Life: e.Life, Epoch: e.Birth, Overdrawn: e.Total, Refunded: e.Back,
					Window: e.Window, Before: e.Before, Saved: e.Saved,
				})
			}
			out = append(out, rep)
		}
	}
	return out
}

// recoveredAt is when there is something to tell of earlier processes.
func (a *Aggregator) recoveredAt() quota.Time {
	at := quota.Time(math.MaxInt64)
	for r := range a.ranges {
		if rt := &a.ranges[r]; len(rt.recovered.list) > 0 && rt.leader != "" {
			at = min(at, rt.recovered.at)
		}
	}
	return at
}

// settled forgets what a leader has committed of an earlier process.
func (a *Aggregator) settled(rt *route, e *quota.GrantEntry) {
	l := &rt.recovered
	id := recoveredKey{e.Key, e.Life, e.Epoch}
	i, ok := l.index[id]
	if !ok || e.Saved < l.list[i].Total {
		return
	}
	last := len(l.list) - 1
	moved := l.list[last]
	l.index[recoveredKey{moved.Key, moved.Life, moved.Birth}] = i
	l.list[i], l.list = moved, l.list[:last]
	delete(l.index, id)
	l.tries = 0
	if a.cfg.Journal != nil {
		a.cfg.Journal.Settled(e.Key, e.Life, e.Epoch)
	}
}
