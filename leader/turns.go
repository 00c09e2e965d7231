package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// turns books what h has used since its last report: of it everybody is due a
// part, as the rate is divided. parts is the sum of all fair parts.
func (l *Ledger) turns(now quota.Time, a *account, h *holder, parts float64) {
	took := float64(h.took)
	h.took = 0
	if took <= 0 || parts <= 0 {
		return
	}
	long := a.remembers()
	forget := l.fades.due.fade(now.Sub(a.shared).Seconds(), long)
	a.shared = now
	for i := range a.holders {
		o := &a.holders[i]
		fair := a.fairOf(o)
		most := max(fewDue*float64(quota.Token), fair*long)
		o.due = o.due*forget + took*fair/parts
		if o == h {
			o.due -= took
		}
		o.due = max(-most, min(most, o.due))
	}
}

// fairOf is the member's max-min fair part of the rate, as of the last division: a
// second, by what it demands now.
func (a *account) fairOf(h *holder) float64 { return min(h.live, a.most) }

// parts is the sum of all fair parts.
func (a *account) parts() (sum float64) {
	for i := range a.holders {
		sum += a.fairOf(&a.holders[i])
	}
	return sum
}

const (
	// dueFor is for how long, on average, it is remembered who had less than its part.
	dueFor = time.Second
	// fewDue tokens are remembered of anybody.
	fewDue = 2
)

// remembers is for how many seconds, on average, it is remembered who had less than
// its part. Under soft it moves the rates, and there chance would move them more
// than floods do.
func (a *account) remembers() float64 {
	if a.limit.Ceiling == quota.Soft {
		return 3 * dueFor.Seconds()
	}
	return dueFor.Seconds()
}

// evens reports whether what members have had lately counts in what they get: under
// soft, where they overdraw, while there is not enough for all. Under hard that is
// done by turns.
func (a *account) evens() bool {
	return a.limit.Ceiling == quota.Soft && a.rates() && !math.IsInf(a.most, 1)
}

// evened is a part of the rate with what the member has missed lately: up to twice. Who
// has had more than its part gets less as far as others are charged more.
func (a *account) evened(h *holder, fair float64) float64 {
	if !a.evens() {
		return fair
	}
	return min(fair+max(0, a.owes(h))/a.remembers(), 2*fair)
}

// owes is what the member is due, beyond what chance does where requests come in clumps.
func (a *account) owes(h *holder) float64 {
	chance := math.Sqrt(a.fairOf(h) * a.remembers() * (a.clump() - float64(quota.Token)))
	return h.due - max(-chance, min(chance, h.due))
}

// keeps is what the member has just given back and is left, whatever the pool has: as
// much as it is due, since else a member that asks more often would have it.
func (a *account) keeps(h *holder, want float64) quota.Units {
	if !a.evens() {
		return 0
	}
	return min(h.gave, quota.RoundUnits(max(0, min(want, a.owes(h)))))
}

// overdrew reports whether the member has had more than its part, by more than chance.
func (a *account) overdrew(h *holder) bool {
	if !a.evens() {
		return false
	}
	part := a.fairOf(h) * a.remembers()
	return h.due < -byChance*math.Sqrt(part*a.clump())
}

// byChance is how many standard deviations of a count a member may have had beyond its
// part, for nobody to care.
const byChance = 2

// soon is what the member is likely to use of what it holds until it reports again,
// as far as that is its part.
func (a *account) soon(o *holder) quota.Units {
	return quota.RoundUnits(min(float64(o.standing()), a.fairOf(o)*o.again.Seconds()))
}

// lacks is how many tokens, at least a whole one, the member's callers were refused lately, if it
// is likely to use them soon.
func (l *Ledger) lacks(now quota.Time, h *holder) quota.Units {
	age := now.Sub(h.unmetAt)
	if h.unmet < quota.Token || h.closed || h.dead || len(h.flight) >= maxFlight {
		return 0
	}
	if age > l.cfg.Sync/2 && (h.charged > 0 || age > 3*l.cfg.Sync || !l.busy(h)) {
		return 0
	}
	return h.unmet
}

// busy reports whether the member is likely to use a token within two intervals.
func (l *Ledger) busy(h *holder) bool {
	return h.live*2*l.cfg.Sync.Seconds() >= float64(quota.Token)
}

// ahead is how much of the pool is for members whose callers were refused, and
// that have used less of their part than h: it is left to them, and serve gives
// it to them.
func (l *Ledger) ahead(now quota.Time, a *account, h *holder) (sum quota.Units) {
	room := spaces{a: a}
	for i := range a.holders {
		o := &a.holders[i]
		if o == h || o.due <= h.due || !l.busy(o) {
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
func (l *Ledger) worthRate(a *account, rate quota.Units, t terms) bool {
	const token = float64(quota.Token)
	if a.limit.Ceiling == quota.Hard && t.burst*t.weight < token {
		return false
	}
	return !t.scattered && float64(rate)*l.cfg.Sync.Seconds() >= max(token, t.least/4)
}
