package aggregator

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// idleBucket is a bucket that was closed then.
type idleBucket struct {
	b  *bucket
	at quota.Time
}

// Sweep compacts keys that are closed, drops those that have been idle long enough and
// are full again, and when the table is nearly full the longest idle of limits that have
// more than their share. Call it about
// once a second.
func (a *Aggregator) Sweep(now quota.Time) {
	a.table.inline.sweep()
	a.relist()
	if !a.warm {
		a.compactIdle(now)
	}
	a.sweepCompact(now)
	a.sweepIdle(now)
	a.idle = fitting(a.idle)
}

// relist notes which of the buckets that were restored have not been opened: somebody
// has only looked at them.
func (a *Aggregator) relist() {
	before := len(a.idle)
	for i := range a.table.compact.shards {
		for _, b := range a.table.compact.shards[i].takeRestored() {
			b.lock()
			if b.phase == closed && !b.dead {
				a.idle = append(a.idle, idleBucket{b, b.closedAt})
			}
			b.unlock()
		}
	}
	if len(a.idle) > before {
		slices.SortStableFunc(a.idle, func(x, y idleBucket) int { return cmp.Compare(x.at, y.at) })
	}
}

// compactAfter is how long a key is closed before it is compact. One that is asked for every
// few seconds is spared the way there and back, which takes as long as some decisions and
// makes a bucket of a kilobyte again.
const compactAfter = 5 * time.Second

// compactIdle compacts what is closed and at rest, the longest closed first. A key that is
// not at rest will be soon, when a last turn of the wheel has found nothing to say; what
// was closed later waits for it, so that the store is in order.
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

// sweepIdle drops what is idle and has not been compact.
func (a *Aggregator) sweepIdle(now quota.Time) {
	a.idle = slices.DeleteFunc(a.idle, func(e idleBucket) bool {
		return a.tight() && e.b.entry.crowds() && a.idleDone(now, e, true)
	})
	n := 0
	for n < len(a.idle) && a.idleDone(now, a.idle[n], false) {
		n++
	}
	// One that stays, because it is not full for long, must not keep those behind
	// it: a part of them is looked at each time, and all within a minute.
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

// leastLooked is how many idle keys a sweep looks at, if there are that many.
const leastLooked = 4096

// idleDone reports whether the entry may leave the queue of idle keys. pressed says that its
// place is needed.
func (a *Aggregator) idleDone(now quota.Time, e idleBucket, pressed bool) bool {
	b := e.b
	b.lock()
	if b.phase != closed || b.closedAt != e.at || b.dead {
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

// tight reports whether the table has no more than half a sixteenth left of what one limit may
// have alone (quota.HasRoom): so each sweep makes room for new keys of a limit that crowds.
func (a *Aggregator) tight() bool {
	most := a.table.maxKeys
	return a.table.size.Load() > most-most/16-most/32
}

// idleFor is how long an unused key of a limit is remembered at least.
func (a *Aggregator) idleFor(l *quota.Limit) time.Duration {
	if l.Idle > 0 {
		return l.Idle
	}
	return a.cfg.Idle
}

// full reports whether a closed bucket has nothing to remember: it is as full as one
// that was never seen. It changes nothing. Held by b.mu.
func (b *bucket) full(now quota.Time) bool {
	was, l := b.state, b.limit()
	b.roll(now, l)
	full := b.estimate(now, l, true) >= l.BurstUnits() && b.inFlight == 0
	b.state = was
	return full
}

// fitting returns a list in no more memory than it has use for.
func fitting[T any](list []T) []T {
	if cap(list) > 1024 && len(list) < cap(list)/4 {
		return append(make([]T, 0, 2*len(list)), list...)
	}
	return list
}
