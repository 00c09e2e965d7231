package aggregator

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// frost is what a closed bucket is remembered by: every field of its state that says
// something before the key is opened again. The others are those that openBucket
// sets, counters, which are taken off the estimate first, and what a bucket that is
// closed and at rest has not. Amounts are Units; times are stored as differences
// from others, so that most take few bytes or none.
type frost [frostFields]int64

const (
	frostFlags = iota
	frostEst
	frostEstAt // from closedAt on
	frostSentAt
	frostEpoch
	frostTerm
	frostLease // from closedAt on
	frostStale // from toldAt on
	frostOffset
	frostLevel  // beyond the estimate
	frostToldAt // from estAt on
	frostShare
	frostLooked // 0 is so long ago that it does not matter
	frostOthers
	frostCeded
	frostSince // from closedAt on; all of the window are 0 without one
	frostUntil // from since on
	frostWin   // from since on
	frostSlope
	frostLag
	frostDemand
	frostWanted
	frostVoids
	frostLent
	frostFields
)

// flags of a frozen bucket.
const (
	wasTold = 1 << iota
	wasDry
	wasFresh
	wasGuessing
	wasNews
	wasCurious
	wasBound
	wasRecalled
	wasOverdue
	wasHurrying
	hasWindow
)

// atRest reports whether a closed bucket is waited for by nobody and holds nothing, so
// that a frost says all of it. Held by b.mu.
func (b *bucket) atRest() bool {
	return b.phase == closed && !b.dead && b.due == 0 && !b.asked.Load() && b.openIdx == 0 &&
		b.inFlight == 0 && b.loans == 0 && b.rate == 0 && !b.abandoned.any() && b.place == nil && b.apart == nil && b.as != nil
}

// freeze returns what the table remembers of a bucket that is at rest. Held by b.mu.
func (b *bucket) freeze(now quota.Time) frost {
	spent := b.counts().spent()
	est := b.est - (spent - b.estUsed) + b.refunded - b.estBack
	f := frost{
		frostFlags: b.flags(), frostEst: int64(est), frostEstAt: int64(b.estAt - b.closedAt), frostSentAt: int64(b.sentAt - b.closedAt),
		frostEpoch: int64(b.epoch), frostTerm: int64(b.term), frostLease: int64(b.lease - b.closedAt),
		frostStale: int64(b.stale - b.toldAt), frostOffset: b.offset, frostLevel: int64(b.level - est),
		frostToldAt: int64(b.toldAt - b.estAt), frostShare: b.share, frostLooked: b.lastLook(now),
		frostOthers: int64(b.others), frostCeded: int64(b.ceded), frostSlope: int64(b.slope), frostLag: int64(b.lag),
		frostDemand: int64(b.demand), frostWanted: int64(b.wanted), frostVoids: int64(b.voids), frostLent: int64(b.lent),
	}
	if f[frostFlags]&hasWindow != 0 {
		f[frostSince], f[frostUntil], f[frostWin] = int64(b.since-b.closedAt), int64(b.until-b.since), int64(b.win-b.since)
	}
	return f
}

// lastLook is when the estimate was last asked for, from closedAt on: 0 if that was so
// long ago that from now on it is the same as never.
func (b *bucket) lastLook(now quota.Time) int64 {
	if b.until == 0 && now.Sub(b.looked) > b.stale.Sub(b.toldAt) {
		return 0
	}
	d := int64(b.looked - b.closedAt)
	if d >= 0 {
		d++
	}
	return d
}

// thaw makes a bucket that is otherwise new what it was.
func (b *bucket) thaw(f *frost, closedAt quota.Time) {
	b.phase, b.closedAt = closed, closedAt
	b.est, b.estAt = quota.Units(f[frostEst]), closedAt+quota.Time(f[frostEstAt])
	b.toldAt = b.estAt + quota.Time(f[frostToldAt])
	b.stale, b.level = b.toldAt+quota.Time(f[frostStale]), b.est+quota.Units(f[frostLevel])
	b.sentAt, b.lease = closedAt+quota.Time(f[frostSentAt]), closedAt+quota.Time(f[frostLease])
	b.epoch, b.term, b.offset, b.share = quota.Seq(f[frostEpoch]), quota.Term(f[frostTerm]), f[frostOffset], f[frostShare]
	b.others, b.ceded = quota.Units(f[frostOthers]), quota.Units(f[frostCeded])
	b.slope, b.lag = quota.Units(f[frostSlope]), time.Duration(f[frostLag])
	b.demand, b.wanted = quota.Units(f[frostDemand]), quota.Units(f[frostWanted])
	b.voids, b.lent = uint32(f[frostVoids]), quota.Units(f[frostLent])
	switch d := quota.Time(f[frostLooked]); {
	case d > 0:
		b.looked = closedAt + d - 1
	case d < 0:
		b.looked = closedAt + d
	}
	if f[frostFlags]&hasWindow != 0 {
		b.since = closedAt + quota.Time(f[frostSince])
		b.until, b.win = b.since+quota.Time(f[frostUntil]), b.since+quota.Time(f[frostWin])
	}
	b.unflag(f[frostFlags])
}

func (b *bucket) flags() int64 {
	n := int64(0)
	for i, on := range []bool{
		b.told, b.dry, b.fresh, b.guessing, b.news, b.curious, b.bound, b.recalled, b.overdue, b.hurry,
		b.since != 0 || b.until != 0 || b.win != 0,
	} {
		if on {
			n |= 1 << i
		}
	}
	return n
}

func (b *bucket) unflag(n int64) {
	b.told, b.dry, b.fresh, b.guessing = n&wasTold != 0, n&wasDry != 0, n&wasFresh != 0, n&wasGuessing != 0
	b.news, b.curious, b.bound = n&wasNews != 0, n&wasCurious != 0, n&wasBound != 0
	b.recalled, b.overdue, b.hurry = n&wasRecalled != 0, n&wasOverdue != 0, n&wasHurrying != 0
}

// maxFrost is how many bytes a frost takes at most.
const maxFrost = (frostFields + 1) * binary.MaxVarintLen64

// append adds the frost to a record: which fields are not 0, and those.
func (f *frost) append(to []byte) []byte {
	set := uint64(0)
	for i, v := range f {
		if v != 0 {
			set |= 1 << i
		}
	}
	to = binary.AppendUvarint(to, set)
	for ; set != 0; set &= set - 1 {
		to = binary.AppendVarint(to, shortly(bits.TrailingZeros64(set), f[bits.TrailingZeros64(set)]))
	}
	return to
}

// parse reads a frost.
func (f *frost) parse(from []byte) {
	set, n := binary.Uvarint(from)
	for *f = (frost{}); set != 0; set &= set - 1 {
		v, m := binary.Varint(from[n:])
		i := bits.TrailingZeros64(set)
		f[i], n = longly(i, v), n+m
	}
}

// shortly is a field as it is written: how long a level is believed is a number of
// whole milliseconds.
func shortly(i int, v int64) int64 {
	switch {
	case i != frostStale:
		return v
	case v%int64(time.Millisecond) == 0:
		return v/int64(time.Millisecond)<<1 | 1
	}
	return v << 1
}

func longly(i int, v int64) int64 {
	switch {
	case i != frostStale:
		return v
	case v&1 != 0:
		return v >> 1 * int64(time.Millisecond)
	}
	return v >> 1
}

// freezeInto lets a bucket go, which is dead then, if it is as it was and at rest, and
// there is room for what is remembered of it. Its line is the caller's to clear.
func (e *idleBucket) freezeInto(c *cold, hash uint64, now quota.Time) (done, later bool) {
	b := e.b
	b.lock()
	defer b.unlock()
	switch {
	case b.dead || b.phase != closed || b.closedAt != e.at:
		return true, false // used again since
	case !b.atRest():
		return false, true
	}
	b.tally()
	f := b.freeze(now)
	b.dead = c.put(hash, kind{b.slot, b.as}, b.key, b.closedAt, &f)
	return false, false
}
