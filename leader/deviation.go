package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// The lines in the log are for a failover. While a key's level is near the one that its last line
// makes the next leader expect, a new line would change little. A quiet key, which gains more than
// is used, needs no line at all.

const (
	// deviationPart is the inverse of the part of the burst by which the level may differ from the log
	// before the next checkpoint writes a line.
	deviationPart = 32
	// writeWithin is how long a smaller difference may last.
	writeWithin = 10 * time.Second
)

// loggedLevel is what the log states about a bucket; zero if it has no line.
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

// deviation is how far the level differs from the expected one.
func (b *bucket) deviation(now quota.Time) quota.Units {
	level := b.level()
	if b.endures() {
		m := b.recountable()
		level = min(m.Level(), b.limit.BurstUnits())
	}
	d := level.Plus(-b.expected(now))
	return max(d, -d)
}

// needsLine reports whether the next checkpoint needs a line of a changed bucket: the level is far
// from the log's, a member closes the key or has died, or a promise will soon be used up.
func (b *bucket) needsLine(now quota.Time, lease time.Duration) bool {
	if b.answersLogged() && (b.limit.AsksLeader() || b.decided != nil && b.decided.own.unwritten) || b.logsAll() || b.deviation(now) > b.limit.BurstUnits()/deviationPart || b.promiseEndsSoon(now, lease) {
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
			if al.unsaved() || al.mayUseMore() {
				return true
			}
		case b.promises() && len(al.log().pending) == 0:
			p := b.promise(now, al, lease)
			head := p.high.Plus(-p.total).Plus(-al.out)
			if left, _, _, _ := al.promisedBounds(now); al.log().planned.short || left < head/2 {
				return true
			}
		}
	}
	return false
}

// logsAll reports whether every change matters: where counts are durable in themselves, and not
// only because no promise may be lost; and for a sliding window, because what it returns depends on
// when it was used.
func (b *bucket) logsAll() bool {
	return b.tier.Kind == quota.SlidingWindow || b.endures() && (b.limit.Durable || b.tier.Kind != quota.TokenBucket)
}

// worthWriting reports whether a small difference is ever written: where counts endure, and where
// it is more than the refill while a leader is elected.
func (b *bucket) worthWriting(now quota.Time) bool {
	return b.endures() || b.deviation(now) > b.maxRefill(electionTime)
}

// electionTime is how long a range has no leader, at least, when one dies: followers wait that long.
const electionTime = time.Second

// flushBehind lists buckets for the next checkpoint whose difference, however small, has lasted for
// age. At most this many at once.
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
		l.noteChanged(now, b)
	}
}
