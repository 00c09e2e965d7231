package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// bookDeficit books what h has used since its last report: of it everybody is due a
// part, as the rate is divided. parts is the sum of all fair parts.
func (l *Ledger) bookDeficit(now quota.Time, b *bucket, al *allocation, parts float64) {
	took := float64(al.took)
	al.took = 0
	if took <= 0 || parts <= 0 {
		return
	}
	long := b.deficitSeconds()
	forget := l.fades.deficit.fade(now.Sub(b.shared).Seconds(), long)
	b.shared = now
	for i := range b.allocations {
		o := &b.allocations[i]
		fair := b.fairOf(o)
		most := max(fewDeficit*float64(quota.Token), fair*long)
		o.deficit = o.deficit*forget + took*fair/parts
		if o == al {
			o.deficit -= took
		}
		o.deficit = max(-most, min(most, o.deficit))
	}
}

// fairOf is the member's max-min fair part of the rate, as of the last division: a
// second, by what it demands now.
func (b *bucket) fairOf(al *allocation) float64 { return min(al.live, b.most) }

// parts is the sum of all fair parts.
func (b *bucket) parts() (sum float64) {
	for i := range b.allocations {
		sum += b.fairOf(&b.allocations[i])
	}
	return sum
}

const (
	// deficitFor is for how long, on average, it is remembered who had less than its part.
	deficitFor = time.Second
	// fewDeficit tokens are remembered of anybody.
	fewDeficit = 2
)

// deficitSeconds is for how many seconds, on average, it is remembered who had less than
// its part. Under soft it moves the rates, and there chance would move them more
// than floods do.
func (b *bucket) deficitSeconds() float64 {
	if b.limit.Ceiling == quota.Soft {
		return 3 * deficitFor.Seconds()
	}
	return deficitFor.Seconds()
}

// tracksDeficit reports whether what members have had lately counts in what they get: under
// soft, where they overdraw, while there is not enough for all. Under hard that is
// done by turns.
func (b *bucket) tracksDeficit() bool {
	return b.limit.Ceiling == quota.Soft && b.rates() && !math.IsInf(b.most, 1)
}

// withDeficit is a part of the rate with what the member has missed lately: up to twice. Who
// has had more than its part gets less as far as others are charged more.
func (b *bucket) withDeficit(al *allocation, fair float64) float64 {
	if !b.tracksDeficit() {
		return fair
	}
	return min(fair+max(0, b.deficitOf(al))/b.deficitSeconds(), 2*fair)
}

// deficitOf is what the member is due, beyond what chance does where requests come in batches.
func (b *bucket) deficitOf(al *allocation) float64 {
	chance := math.Sqrt(b.fairOf(al) * b.deficitSeconds() * (b.batchSize() - float64(quota.Token)))
	return al.deficit - max(-chance, min(chance, al.deficit))
}

// keeps is what the member has just given back and is left, whatever the pool has: as
// much as it is due, since else a member that asks more often would have it.
func (b *bucket) keeps(al *allocation, want float64) quota.Units {
	if !b.tracksDeficit() {
		return 0
	}
	return min(al.gave, quota.RoundUnits(max(0, min(want, b.deficitOf(al)))))
}

// overdrew reports whether the member has had more than its part, by more than chance.
func (b *bucket) overdrew(al *allocation) bool {
	if !b.tracksDeficit() {
		return false
	}
	part := b.fairOf(al) * b.deficitSeconds()
	return al.deficit < -byChance*math.Sqrt(part*b.batchSize())
}

// byChance is how many standard deviations of a count a member may have had beyond its
// part, for nobody to care.
const byChance = 2

// soon is what the member is likely to use of what it holds until it reports again,
// as far as that is its part.
func (b *bucket) soon(o *allocation) quota.Units {
	return quota.RoundUnits(min(float64(o.standing()), b.fairOf(o)*o.again.Seconds()))
}

// lacks is how many tokens, at least a whole one, the member's callers were refused lately, if it
// is likely to use them soon.
func (l *Ledger) lacks(now quota.Time, al *allocation) quota.Units {
	age := now.Sub(al.unmetAt)
	if al.unmet < quota.Token || al.closed || al.dead || len(al.flight) >= maxFlight {
		return 0
	}
	if age > l.cfg.Sync/2 && (al.charged > 0 || age > 3*l.cfg.Sync || !l.busy(al)) {
		return 0
	}
	return al.unmet
}

// busy reports whether the member is likely to use a token within two intervals.
func (l *Ledger) busy(al *allocation) bool {
	return al.live*2*l.cfg.Sync.Seconds() >= float64(quota.Token)
}

// ahead is how much of the pool is for members whose callers were refused, and
// that have used less of their part than h: it is left to them, and serve gives
// it to them.
func (l *Ledger) ahead(now quota.Time, b *bucket, al *allocation) (sum quota.Units) {
	room := spaces{bucket: b}
	for i := range b.allocations {
		o := &b.allocations[i]
		if o == al || o.deficit <= al.deficit || !l.busy(o) {
			continue
		}
		if u := l.lacks(now, o); u > 0 {
			sum = sum.Plus(min(u, quota.RoundUnits(room.of(l, o))))
		}
	}
	return sum
}

// worthRate reports whether a rate serves the member better than tokens by turns:
// it yields a token in an interval, and under hard, where a fraction is nobody's, its
// part of the burst has the room for a whole one.
func (l *Ledger) worthRate(b *bucket, rate quota.Units, t terms) bool {
	const token = float64(quota.Token)
	if b.limit.Ceiling == quota.Hard && t.burst*t.weight < token {
		return false
	}
	return !t.scattered && float64(rate)*l.cfg.Sync.Seconds() >= max(token, t.least/4)
}
