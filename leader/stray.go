package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// A line in the log is for a failover. While a key's level is near what its last line lets the next
// leader expect, a new line would change little: a quiet key, which gains more than is used of it,
// needs none at all.

const (
	// strayPart of the burst is how far the level may be from what the log says before a line is
	// written with the next checkpoint.
	strayPart = 32
	// writeWithin is how long a smaller difference may last.
	writeWithin = 10 * time.Second
)

// loggedLevel is what the log says of an account; nothing if it has no line.
type loggedLevel struct {
	level      quota.Units
	at, window quota.Time
	there      bool
}

// expected is the level that the next leader would begin with, without members' reports.
func (a *account) expected(now quota.Time) quota.Units {
	burst := a.limit.BurstUnits()
	switch start, _ := a.pool.Bounds(); {
	case !a.logged.there:
		return burst
	case a.tier.Kind == quota.TokenBucket:
		return min(burst, a.logged.level.Plus(refill(a.limit.Rate, now.Sub(a.logged.at))))
	case start == a.logged.window:
		return a.logged.level
	}
	return burst
}

// strayed is by how much the level differs from that.
func (a *account) strayed(now quota.Time) quota.Units {
	level := a.level()
	if a.endures() {
		m := a.recountable()
		level = min(m.Level(), a.limit.BurstUnits())
	}
	d := level.Plus(-a.expected(now))
	return max(d, -d)
}

// matters reports whether the next checkpoint should have a line of an account that has moved: the
// level is far from what the log says, a member lets go of the key or has died, or a promise will
// soon be used up.
func (a *account) matters(now quota.Time, lease time.Duration) bool {
	if a.answersLogged() && (a.limit.AsksLeader() || a.own.unwritten) || a.logsAll() || a.strayed(now) > a.limit.BurstUnits()/strayPart || a.late(now, lease) {
		return true
	}
	if !a.endures() {
		return false
	}
	for i := range a.holders {
		h := &a.holders[i]
		switch {
		case h.dead:
			if !h.final {
				return true
			}
		case h.closed:
			if h.saved < h.used.Plus(h.over) || h.expects() {
				return true
			}
		case a.promises() && len(h.log().pending) == 0:
			p := a.promise(now, h, lease)
			head := p.high.Plus(-p.total).Plus(-h.out)
			if left, _, _, _ := h.bounds(now); h.log().planned.short || left < head/2 {
				return true
			}
		}
	}
	return false
}

// logsAll reports whether every line matters: where counts are durable by themselves, and not only
// because no promise may be lost; and of a sliding window, because what it returns depends on when it was
// used.
func (a *account) logsAll() bool {
	return a.tier.Kind == quota.SlidingWindow || a.endures() && (a.limit.Durable || a.tier.Kind != quota.TokenBucket)
}

// worthALine reports whether a little difference is ever written: where counts endure, and where it
// is more than what refills while a leader is elected.
func (a *account) worthALine(now quota.Time) bool {
	return a.endures() || a.strayed(now) > a.refill(electing)
}

// electing is how long a range has no leader, at least, when one dies: followers wait that long.
const electing = time.Second

// flushBehind lists accounts for the next checkpoint, however little they have moved, if that was so long ago.
// At most so many at once.
func (l *Ledger) flushBehind(now quota.Time, age time.Duration, most int) {
	for ; most > 0 && l.behind.len() > 0 && now.Sub(l.behind.first().behindSince) >= age; most-- {
		l.visits++
		a := l.behind.pop()
		a.behind = false
		if a.dropped || l.current(a) == nil {
			continue
		}
		if a.advance(now); !a.worthALine(now) {
			continue
		}
		a.dirty, a.overdue = true, true
		l.note(now, a)
	}
}
