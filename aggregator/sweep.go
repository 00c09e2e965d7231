package aggregator

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// idleBucket is a bucket, and the time at which it was closed.
type idleBucket struct {
	b  *bucket
	at quota.Time
}

// Sweep compacts closed keys, and drops those that have been idle long enough and are full again. When the table is
// nearly full, it also drops the longest idle keys of limits that crowd. Call it about once a second.
func (a *Aggregator) Sweep(now quota.Time) {
	a.table.inline.sweep()
	a.relist()
	if !a.neverCompact {
		a.compactIdle(now)
	}
	a.sweepCompact(now)
	a.sweepIdle(now)
	a.idle = fitting(a.idle)
}

// relist adds the restored buckets that were not opened to the idle list: they were only read.
func (a *Aggregator) relist() {
	before := len(a.idle)
	for i := range a.table.compact.shards {
		for _, b := range a.table.compact.shards[i].takeRestored() {
			b.lock()
			if b.phase == closed && !b.dead {
				a.idle = append(a.idle, idleBucket{b, b.changed})
			}
			b.unlock()
		}
	}
	if len(a.idle) > before {
		slices.SortStableFunc(a.idle, func(x, y idleBucket) int { return cmp.Compare(x.at, y.at) })
	}
}

// compactAfter is the time for which a key is closed before it is compacted. Keys that are checked every few seconds
// keep their bucket: packing and restoring one costs as much as some decisions, and allocates a kilobyte.
const compactAfter = 5 * time.Second

// compactIdle compacts keys that are closed and at rest, the longest closed first. A key that is not at rest will be
// soon, when its last turn of the wheel has found nothing to report; keys that closed later wait for it, so that the
// store stays in order.
func (a *Aggregator) compactIdle(now quota.Time) {
	waits := false
	a.idle = slices.DeleteFunc(a.idle, func(e idleBucket) bool {
		if waits || now.Sub(e.at) < a.compactIn {
			return false
		}
		compacted, later := e.b.entry.keys.Compact(now, e, &a.table.compact)
		waits = later
		return compacted
	})
}

// sweepIdle drops idle keys that have a bucket.
func (a *Aggregator) sweepIdle(now quota.Time) {
	a.idle = slices.DeleteFunc(a.idle, func(e idleBucket) bool {
		return a.tight() && e.b.entry.usesItsShare() && a.idleDone(now, e, true)
	})
	n := 0
	for n < len(a.idle) && a.idleDone(now, a.idle[n], false) {
		n++
	}
	// A key that stays, because it is not full for long, must not delay those behind it: each sweep checks a part of
	// them, and within a minute all.
	from := max(n, min(a.looked, len(a.idle)))
	to := min(len(a.idle), from+max(leastLooked, len(a.idle)/60+1))
	kept := copy(a.idle, a.idle[n:from])
	for _, e := range a.idle[from:to] {
		if !a.idleDone(now, e, false) {
			a.idle[kept] = e
			kept++
		}
	}
	a.looked = kept
	kept += copy(a.idle[kept:], a.idle[to:])
	if a.looked == kept {
		a.looked = 0
	}
	clear(a.idle[kept:])
	a.idle = a.idle[:kept]
}

// leastLooked is the least number of idle keys that a sweep checks, if there are as many.
const leastLooked = 4096

// idleDone drops the key if it may be dropped, and reports whether the entry may leave the idle list. pressed means
// that its place is needed.
func (a *Aggregator) idleDone(now quota.Time, e idleBucket, pressed bool) bool {
	b := e.b
	b.lock()
	if b.phase != closed || b.changed != e.at || b.dead {
		b.unlock()
		return true // used again since, or compact
	}
	if !pressed && (now.Sub(e.at) < a.idleFor(b.limit()) || !b.full(now)) {
		b.unlock()
		return false
	}
	b.tally()
	b.dead = true
	b.unlock()
	a.table.drop(b)
	return true
}

// tight reports whether at most half a sixteenth is left of the keys that one limit may have alone (quota.HasRoom).
// So each sweep makes room for new keys of a limit that uses its share.
func (a *Aggregator) tight() bool {
	most := a.table.maxKeys
	return a.table.size.Load() > most-most/16-most/32
}

// idleFor returns the least time for which an unused key of a limit is remembered.
func (a *Aggregator) idleFor(l *quota.Limit) time.Duration {
	if l.Idle > 0 {
		return l.Idle
	}
	return a.cfg.Idle
}

// full reports whether a closed bucket has nothing to remember: it is as full as a new one. It changes nothing. Held
// by b.mu.
func (b *bucket) full(now quota.Time) bool {
	was, l := b.tryState(), b.limit()
	b.roll(now, l)
	full := b.estimate(now, l, true) >= l.BurstUnits() && b.inFlight == 0
	b.state = was
	return full
}

// fitting returns the list, copied into less memory if most of it is unused.
func fitting[T any](list []T) []T {
	if cap(list) > 1024 && len(list) < cap(list)/4 {
		return append(make([]T, 0, 2*len(list)), list...)
	}
	return list
}
