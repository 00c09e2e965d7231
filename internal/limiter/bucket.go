package limiter

import (
	"math/bits"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Bucket is the level of a token bucket. A negative level is debt. The zero Bucket is empty at time
// 0. It is not safe for concurrent use.
//
// Invariant: 0 <= rem < period of the rate of the last refill; rem/period Units are earned beyond
// level.
type Bucket struct {
	level quota.Units
	rem   uint64
	at    quota.Time
}

// NewBucket returns a bucket that holds level at the given time.
func NewBucket(level quota.Units, at quota.Time) Bucket {
	return Bucket{level: level, at: at}
}

// Level returns the level as of the last refill, plus additions and less costs since.
func (b *Bucket) Level() quota.Units { return b.level }

// At returns the time up to which the bucket has been refilled.
func (b *Bucket) At() quota.Time { return b.at }

// Add changes the level by u, which may be negative.
func (b *Bucket) Add(u quota.Units) { b.level += u }

// Cap lowers the level to top if it is higher.
func (b *Bucket) Cap(top quota.Units) {
	if b.level >= top {
		b.level, b.rem = top, 0
	}
}

// Refill advances the bucket to now at the rate, up to top. A now in the past changes nothing, so a
// clock that jumps back does not earn twice.
func (b *Bucket) Refill(now quota.Time, r quota.Rate, top quota.Units) {
	dt := now.Sub(b.at)
	if dt > 0 {
		b.at = now
		b.gain(dt, quota.FromTokens(r.Tokens), r.Per)
	}
	b.Cap(top)
}

// gain adds the yield of u per period over dt and keeps the remainder.
func (b *Bucket) gain(dt time.Duration, u quota.Units, per time.Duration) {
	if u <= 0 || per <= 0 {
		return
	}
	hi, lo := bits.Mul64(uint64(dt), uint64(u))
	lo, carry := bits.Add64(lo, min(b.rem, uint64(per)-1), 0)
	hi += carry
	if hi >= uint64(per) {
		b.level = maxLevel
		return
	}
	var q uint64
	q, b.rem = bits.Div64(hi, lo, uint64(per))
	b.level = raise(b.level, q)
}

// raise returns level+q, at most maxLevel.
func raise(level quota.Units, q uint64) quota.Units {
	if level < 0 { // q pays the debt first: it may be larger than any level
		debt := -uint64(level)
		if q <= debt {
			return -quota.Units(debt - q)
		}
		level, q = 0, q-debt
	}
	if q >= uint64(maxLevel-min(level, maxLevel)) {
		return maxLevel
	}
	return level + quota.Units(q)
}

// maxLevel is larger than every burst, and small enough that sums do not overflow.
const maxLevel = quota.Units(quota.MaxTokens)*quota.Token + 1

// Take refills the bucket and takes cost if the level covers it. This is a complete central token
// bucket; Quorate's error is measured against it.
func (b *Bucket) Take(now quota.Time, r quota.Rate, top, cost quota.Units) bool {
	b.Refill(now, r, top)
	if b.level < cost {
		return false
	}
	b.level -= cost
	return true
}
