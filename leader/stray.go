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

// loggedLevel is what the log says of a bucket; nothing if it has no line.
type loggedLevel struct {
	level      quota.Units
	at, window quota.Time
	there      bool
}

// expected is the level that the next leader would begin with, without members' reports.
func (b *bucket) expected(now quota.Time) quota.Units {
	burst := b.limit.BurstUnits()
	switch start, _ := b.pool.Bounds(); {
	case !b.logged.there:
		return burst
	case b.tier.Kind == quota.TokenBucket:
		return min(burst, b.logged.level.Plus(refill(b.limit.Rate, now.Sub(b.logged.at))))
	case start == b.logged.window:
		return b.logged.level
	}
	return burst
}

// strayed is by how much the level differs from that.
func (b *bucket) strayed(now quota.Time) quota.Units {
	level := b.level()
	if b.endures() {
		m := b.recountable()
		level = min(m.Level(), b.limit.BurstUnits())
	}
	d := level.Plus(-b.expected(now))
	return max(d, -d)
}

// matters reports whether the next checkpoint should have a line of a bucket that has moved: the
// level is far from what the log says, a member lets go of the key or has died, or a promise will
// soon be used up.
func (b *bucket) matters(now quota.Time, lease time.Duration) bool {
	if b.answersLogged() && (b.limit.AsksLeader() || b.own.unwritten) || b.logsAll() || b.strayed(now) > b.limit.BurstUnits()/strayPart || b.late(now, lease) {
		return true
	}
	if !b.endures() {
		return false
	}
	for i := range b.allocations {
		al := &b.allocations[i]
		switch {
		case al.dead:
			if !al.final {
				return true
			}
		case al.closed:
			if al.saved < al.used.Plus(al.over) || al.expects() {
				return true
			}
		case b.promises() && len(al.log().pending) == 0:
			p := b.promise(now, al, lease)
			head := p.high.Plus(-p.total).Plus(-al.out)
			if left, _, _, _ := al.bounds(now); al.log().planned.short || left < head/2 {
				return true
			}
		}
	}
	return false
}

// logsAll reports whether every line matters: where counts are durable by themselves, and not only
// because no promise may be lost; and of a sliding window, because what it returns depends on when it was
// used.
func (b *bucket) logsAll() bool {
	return b.tier.Kind == quota.SlidingWindow || b.endures() && (b.limit.Durable || b.tier.Kind != quota.TokenBucket)
}

// worthWriting reports whether a little difference is ever written: where counts endure, and where it
// is more than what refills while a leader is elected.
func (b *bucket) worthWriting(now quota.Time) bool {
	return b.endures() || b.strayed(now) > b.refill(electing)
}

// electing is how long a range has no leader, at least, when one dies: followers wait that long.
const electing = time.Second

// flushBehind lists buckets for the next checkpoint, however little they have moved, if that was so long ago.
// At most so many at once.
func (l *Ledger) flushBehind(now quota.Time, age time.Duration, most int) {
	for ; most > 0 && l.behind.len() > 0 && now.Sub(l.behind.first().behindSince) >= age; most-- {
		l.visits++
		b := l.behind.pop()
		b.behind = false
		if b.dropped || l.current(b) == nil {
			continue
		}
		if b.advance(now); !b.worthWriting(now) {
			continue
		}
		b.dirty, b.overdue = true, true
		l.note(now, b)
	}
}
