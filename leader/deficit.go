package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// bookDeficit charges al's use to the deficits: every member's deficit rises
// by its share of that use, and al's falls by the use. parts is the sum of all fair shares.
func (l *Ledger) bookDeficit(now quota.Time, b *bucket, al *allocation, used quota.Units, parts float64) {
	took := float64(used)
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
		deficit := float64(o.deficit)*forget + took*fair/parts
		if o == al {
			deficit -= took
		}
		o.deficit = float32(max(-most, min(most, deficit)))
	}
}

// fairOf is the member's max-min fair share of the rate by its current demand, at the water level
// of the last division, Units per second.
func (b *bucket) fairOf(al *allocation) float64 { return min(float64(al.live), b.waterLevel) }

// parts is the sum of all fair shares.
func (b *bucket) parts() (sum float64) {
	for i := range b.allocations {
		sum += b.fairOf(&b.allocations[i])
	}
	return sum
}

const (
	// deficitFor is the time constant of the decay of deficits.
	deficitFor = time.Second
	// fewDeficit is the number of tokens that the bound of every deficit allows at least.
	fewDeficit = 2
)

// deficitSeconds is the time constant of the decay, in seconds. It is longer under soft, where
// deficits move the rates: over a short time chance would move them more than floods do.
func (b *bucket) deficitSeconds() float64 {
	if b.limit.Ceiling == quota.Soft {
		return 3 * deficitFor.Seconds()
	}
	return deficitFor.Seconds()
}

// tracksDeficit reports whether deficits change rates and levels: under soft, where members
// overdraw, while tokens are scarce. Under hard they only order the members that get tokens.
func (b *bucket) tracksDeficit() bool {
	return b.limit.Ceiling == quota.Soft && b.mayHaveRates() && !math.IsInf(b.waterLevel, 1)
}

// withDeficit is the share of the rate, plus the deficit over its time constant, up to twice the
// share. A member with a negative deficit gets less only because others are charged more.
func (b *bucket) withDeficit(al *allocation, fair float64) float64 {
	if !b.tracksDeficit() {
		return fair
	}
	return min(fair+max(0, b.deficitOf(al))/b.deficitSeconds(), 2*fair)
}

// deficitOf is the deficit, less one standard deviation of the use in batches.
func (b *bucket) deficitOf(al *allocation) float64 {
	chance := math.Sqrt(b.fairOf(al) * b.deficitSeconds() * (b.batchSize() - float64(quota.Token)))
	deficit := float64(al.deficit)
	return deficit - max(-chance, min(chance, deficit))
}

// lendable returns the tokens that the member may get from an empty pool: its deficit, if it asks for
// less than an equal share and for too little to have a rate. The rates of the other members repay
// them. A member whose next requests will probably come later than in three intervals gets none,
// because it would return them unused.
func (l *Ledger) lendable(b *bucket, al *allocation) quota.Units {
	sync := l.cfg.Sync.Seconds()
	tried, _ := al.displayRates(al.reported, l.cfg.Sync) // over a longer time than live, which drops between clumps of requests
	asks := max(float64(al.live), tried)
	if !b.tracksDeficit() || al.rate > 0 || asks >= b.waterLevel || asks*sync >= float64(quota.Token) || float64(al.live)*3*sync < b.batchSize() {
		return 0
	}
	return quota.RoundUnits(max(0, b.deficitOf(al)))
}

// keptOfReturned is the part of the tokens which the member just returned that it gets again, even
// from an empty pool: at most its deficit. Otherwise a member that reports more often would take them.
func (b *bucket) keptOfReturned(al *allocation, returned quota.Units) quota.Units {
	if !b.tracksDeficit() {
		return 0
	}
	return min(returned, quota.RoundUnits(max(0, b.deficitOf(al))))
}

// overdrew reports whether the member has used more than its share, beyond chance.
func (b *bucket) overdrew(al *allocation) bool {
	if !b.tracksDeficit() {
		return false
	}
	part := b.fairOf(al) * b.deficitSeconds()
	return float64(al.deficit) < -chanceDeviations*math.Sqrt(part*b.batchSize())
}

// chanceDeviations is the number of standard deviations of a count by which use may exceed the share
// without consequence.
const chanceDeviations = 2

// expectedUse is what the member will probably use of its tokens until it reports again, at most its
// share.
func (b *bucket) expectedUse(o *allocation) quota.Units {
	return quota.RoundUnits(min(float64(o.standing()), b.fairOf(o)*o.reportWithin(b.sync).Seconds()))
}

// unmetOf is the number of tokens, 0 or at least one, that the member's callers were lately refused,
// if the member will probably use them soon.
func (l *Ledger) unmetOf(now quota.Time, al *allocation) quota.Units {
	unmet, age := al.rarely().unmet, now.Sub(al.rarely().unmetAt)
	if unmet < quota.Token || al.closed || al.dead || al.unacked.Full() {
		return 0
	}
	if age > l.cfg.Sync/2 && (al.charged > 0 || age > 3*l.cfg.Sync || !l.busy(al)) {
		return 0
	}
	return unmet
}

func (al *allocation) setUnmet(u quota.Units, at quota.Time) {
	if r := al.editRare(u != 0); r != nil {
		r.unmet, r.unmetAt = u, at
	}
}

// busy reports whether the member will probably use a token within two intervals.
func (l *Ledger) busy(al *allocation) bool {
	return float64(al.live)*2*l.cfg.Sync.Seconds() >= float64(quota.Token)
}

// reservedBefore is the part of the pool that is reserved for members whose callers were refused, whose deficit is larger
// than al's, and which will probably use it soon (TestRareBesideFlood in internal/sim). They get it from pushReturned or,
// under soft, when they report: there it is at most b.smallAmount, since more would lie unused until then
// (TestOnOffOnManyNodes).
func (l *Ledger) reservedBefore(now quota.Time, b *bucket, al *allocation) (sum quota.Units) {
	room := capRooms{bucket: b}
	for i := range b.allocations {
		o := &b.allocations[i]
		if o == al || o.deficit <= al.deficit || !l.busy(o) {
			continue
		}
		if u := l.unmetOf(now, o); u > 0 {
			sum = sum.Plus(min(u, quota.RoundUnits(room.of(l, o))))
		}
	}
	if b.limit.Ceiling == quota.Soft {
		sum = min(sum, quota.RoundUnits(b.smallAmount()))
	}
	return sum
}

// keptFromAsker is the part of the pool that a decide request of al must leave, where the leader
// decides because tokens are few and al had more than its share, or asks for more than an equal one: one
// request for each member that had less than its share, up to b.smallAmount and half the burst. By the
// order of arrival alone, each member would be served by how often it asks. Where reports have not
// shown al's demand yet, its share is unknown and it leaves nothing.
func (l *Ledger) keptFromAsker(b *bucket, al *allocation) quota.Units {
	if !b.central || !b.mayHaveRates() || al == nil || al.live == 0 {
		return 0
	}
	if tried, _ := al.displayRates(al.reported, l.cfg.Sync); min(float64(al.live), tried) < b.waterLevel && al.deficit >= 0 {
		return 0
	}
	size, sum := b.batchSize(), 0.0
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al && !o.closed && !o.dead && float64(o.deficit) >= max(size, float64(al.deficit)) && l.busy(o) {
			sum += size
		}
	}
	u := min(quota.RoundUnits(min(sum, b.smallAmount())), b.limit.BurstUnits()/2)
	return u - u%quota.Token
}

// worthRate reports whether a rate serves the member better than single tokens: it yields a token
// per interval and a quarter of t.least, and the requests are not scattered. Under hard, where
// fractions are unusable, the member's part of the burst must also have room for a token.
func (l *Ledger) worthRate(b *bucket, rate quota.Units, t terms) bool {
	const token = float64(quota.Token)
	if b.limit.Ceiling == quota.Hard && t.burst*t.weight < token {
		return false
	}
	return !t.scattered && float64(rate)*l.cfg.Sync.Seconds() >= max(token, t.least/4)
}
