package aggregator

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// packedState is the state that is kept of a closed bucket: each field of its state that matters before the key is
// opened again. The other fields are set by openBucket, are counters, which the estimate includes first, or are zero
// in a bucket that is closed and at rest. Amounts are Units; times are differences to other times, so that most take
// few bytes or none.
type packedState [packedFields]int64

const (
	packedFlags = iota
	packedEst
	packedEstAt // less closedAt
	packedSentAt
	packedEpoch
	packedTerm
	packedLease // less closedAt
	packedStale // less levelAt
	packedOffset
	packedLevel   // less the estimate
	packedLevelAt // less estAt
	packedShare
	packedLooked // see lastLook; 0 means that it no longer matters
	packedOthers
	packedPresumed
	packedSince // less closedAt; the fields of the window are 0 without one
	packedUntil // less since
	packedWin   // less since
	packedSlope
	packedLag
	packedDemand
	packedWanted
	packedVoids
	packedBeyond
	packedFields
)

// The flags of a packed state, in the order of bucket.flags.
const (
	hadLevel = 1 << iota
	hadNoneFree
	wasFresh
	wasGuessing
	hadLargeOverdraft
	wantedLevel
	wasBound
	wasRecalled
	wasOverdue
	askedAgain
	hasWindow
	wasCentral
)

// atRest reports whether a closed bucket holds nothing and has no pending work, so that a packed state contains all
// of it. Held by b.mu.
func (b *bucket) atRest() bool {
	return b.phase == closed && !b.dead && b.due == 0 && !b.asked.Load() && b.openIdx == 0 &&
		b.inFlight == 0 && b.allocated == 0 && b.rate == 0 && !b.cancelled.any() && b.slot == nil && b.local == nil && b.as != nil
}

// compact returns the packed state of a bucket that is at rest. Held by b.mu.
func (b *bucket) compact(now quota.Time) packedState {
	spent := b.counts().spent()
	est := b.est - (spent - b.estUsed) + b.refunded - b.estBack
	f := packedState{
		packedFlags: b.flags(), packedEst: int64(est), packedEstAt: int64(b.estAt - b.changed), packedSentAt: int64(b.sentAt - b.changed),
		packedEpoch: int64(b.epoch), packedTerm: int64(b.term), packedLease: int64(b.lease - b.changed),
		packedStale: int64(b.stale - b.levelAt), packedOffset: b.offset, packedLevel: int64(b.level - est),
		packedLevelAt: int64(b.levelAt - b.estAt), packedShare: int64(b.share), packedLooked: b.lastLook(now),
		packedOthers: int64(b.others), packedPresumed: int64(b.presumed), packedSlope: int64(b.slope), packedLag: int64(b.lag),
		packedDemand: int64(b.demand), packedWanted: int64(b.wanted), packedVoids: int64(b.voids), packedBeyond: int64(b.beyond),
	}
	if f[packedFlags]&hasWindow != 0 {
		f[packedSince], f[packedUntil], f[packedWin] = int64(b.since-b.changed), int64(b.until-b.since), int64(b.win-b.since)
	}
	return f
}

// lastLook returns the time of the last use of the estimate, less closedAt: 0 if that was so long ago that it makes
// no difference any more. Differences from 0 on are stored plus one.
func (b *bucket) lastLook(now quota.Time) int64 {
	if b.until == 0 && now.Sub(b.looked) > b.stale.Sub(b.levelAt) {
		return 0
	}
	d := int64(b.looked - b.changed)
	if d >= 0 {
		d++
	}
	return d
}

// restore sets the state of a new bucket from a packed state.
func (b *bucket) restore(f *packedState, closedAt quota.Time) {
	b.phase, b.changed = closed, closedAt
	b.est, b.estAt = quota.Units(f[packedEst]), closedAt+quota.Time(f[packedEstAt])
	b.levelAt = b.estAt + quota.Time(f[packedLevelAt])
	b.stale, b.level = b.levelAt+quota.Time(f[packedStale]), b.est+quota.Units(f[packedLevel])
	b.sentAt, b.lease = closedAt+quota.Time(f[packedSentAt]), closedAt+quota.Time(f[packedLease])
	b.epoch, b.term, b.offset, b.share = quota.Seq(f[packedEpoch]), quota.Term(f[packedTerm]), f[packedOffset], uint32(f[packedShare])
	b.others, b.presumed = quota.Units(f[packedOthers]), quota.Units(f[packedPresumed])
	b.setSlope(quota.Units(f[packedSlope]))
	b.lag = time.Duration(f[packedLag])
	b.demand, b.wanted = quota.Units(f[packedDemand]), quota.Units(f[packedWanted])
	b.voids = uint32(f[packedVoids])
	if beyond := quota.Units(f[packedBeyond]); beyond != 0 {
		b.rare().beyond = beyond
	}
	switch d := quota.Time(f[packedLooked]); {
	case d > 0:
		b.looked = closedAt + d - 1
	case d < 0:
		b.looked = closedAt + d
	}
	if f[packedFlags]&hasWindow != 0 {
		since := closedAt + quota.Time(f[packedSince])
		b.setWindow(since+quota.Time(f[packedWin]), since, since+quota.Time(f[packedUntil]))
	}
	b.unflag(f[packedFlags])
}

func (b *bucket) flags() int64 {
	n := int64(0)
	for i, on := range []bool{
		b.hasLevel, b.noneFree, b.fresh, b.guessing, b.largeOverdraft, b.wantsLevel, b.bound, b.recalled, b.overdue, b.askAgain,
		b.since != 0 || b.until != 0 || b.win != 0, b.central,
	} {
		if on {
			n |= 1 << i
		}
	}
	return n
}

func (b *bucket) unflag(n int64) {
	b.hasLevel, b.noneFree, b.fresh, b.guessing = n&hadLevel != 0, n&hadNoneFree != 0, n&wasFresh != 0, n&wasGuessing != 0
	b.largeOverdraft, b.wantsLevel, b.bound = n&hadLargeOverdraft != 0, n&wantedLevel != 0, n&wasBound != 0
	b.recalled, b.overdue, b.askAgain, b.central = n&wasRecalled != 0, n&wasOverdue != 0, n&askedAgain != 0, n&wasCentral != 0
}

// maxPacked is the greatest size of a packed state in bytes.
const maxPacked = (packedFields + 1) * binary.MaxVarintLen64

// append adds the packed state to a record: a bit set of the fields that are not 0, and these fields.
func (f *packedState) append(to []byte) []byte {
	set := uint64(0)
	for i, v := range f {
		if v != 0 {
			set |= 1 << i
		}
	}
	to = binary.AppendUvarint(to, set)
	for ; set != 0; set &= set - 1 {
		to = binary.AppendVarint(to, encodeField(bits.TrailingZeros64(set), f[bits.TrailingZeros64(set)]))
	}
	return to
}

// parse reads a packed state.
func (f *packedState) parse(from []byte) {
	set, n := binary.Uvarint(from)
	for *f = (packedState{}); set != 0; set &= set - 1 {
		v, m := binary.Varint(from[n:])
		i := bits.TrailingZeros64(set)
		f[i], n = decodeField(i, v), n+m
	}
}

// encodeField encodes a field for a record. packedStale is mostly whole milliseconds: the lowest bit selects the unit.
func encodeField(i int, v int64) int64 {
	switch {
	case i != packedStale:
		return v
	case v%int64(time.Millisecond) == 0:
		return v/int64(time.Millisecond)<<1 | 1
	}
	return v << 1
}

// decodeField is the inverse of encodeField.
func decodeField(i int, v int64) int64 {
	switch {
	case i != packedStale:
		return v
	case v&1 != 0:
		return v >> 1 * int64(time.Millisecond)
	}
	return v >> 1
}

// compactInto packs a bucket that is at rest and still closed since e.at, and marks it dead, if there is room for the
// record. The caller removes its hot entry.
func (e *idleBucket) compactInto(c *compactStore, hash uint64, now quota.Time) (done, later bool) {
	b := e.b
	b.lock()
	defer b.unlock()
	switch {
	case b.dead || b.phase != closed || b.changed != e.at:
		return true, false // used again since
	case !b.atRest():
		return false, true
	}
	b.tally()
	f := b.compact(now)
	b.dead = c.put(hash, kind{b.entry, b.as}, b.key, b.changed, &f)
	return false, false
}
