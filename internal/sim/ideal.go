package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Ideal is one central limiter of one key, with which a cluster is compared. It has no parents.
type Ideal struct {
	limit  *quota.Limit
	tiers  []quota.Tier
	meters []limiter.Meter
}

// NewIdeal returns the ideal limiter of a key that is first used at now. tiers are those of the limit,
// of any kind.
func NewIdeal(l *quota.Limit, tiers []quota.Tier, now quota.Time) Ideal {
	return Ideal{limit: l, tiers: tiers, meters: newMeters(tiers, now)}
}

func newMeters(tiers []quota.Tier, now quota.Time) []limiter.Meter {
	out := make([]limiter.Meter, len(tiers))
	for i := range tiers {
		out[i] = limiter.NewMeter(&tiers[i], now)
	}
	return out
}

// Take charges all tiers or none. wait is how long an admitted caller waits, of a limit that lets
// callers wait.
func (d *Ideal) Take(now quota.Time, cost quota.Units) (ok bool, wait time.Duration) {
	if d.limit.MaxDebt > 0 {
		v := d.meters[0].Take(now, d.limit, cost, quota.LimitsWait)
		return v.Allowed, v.Wait
	}
	if !covers(d.tiers, d.meters, now, cost) {
		return false, 0
	}
	for i := range d.meters {
		d.meters[i].Add(-cost)
	}
	return true, 0
}

// covers reports whether all tiers have room for the cost.
func covers(tiers []quota.Tier, meters []limiter.Meter, now quota.Time, cost quota.Units) bool {
	for i := range meters {
		meters[i].Advance(now, &tiers[i])
		if meters[i].Level() < cost {
			return false
		}
	}
	return true
}

// Envelope is the most that may be admitted of a key: a meter for each tier that goes into debt
// instead of refusing. Debt of a sliding window expires like its use, that of other windows at their
// end.
type Envelope struct {
	tiers  []quota.Tier
	meters []limiter.Meter
}

// NewEnvelope returns the envelope of a key that is first used at now.
func NewEnvelope(tiers []quota.Tier, now quota.Time) Envelope {
	return Envelope{tiers: tiers, meters: newMeters(tiers, now)}
}

// Charge books an admission and returns the current excess: of all tiers, and of windows only.
func (e *Envelope) Charge(now quota.Time, cost quota.Units) (worst, window quota.Units) {
	return e.charge(now, func(int) quota.Units { return cost })
}

// ChargeEach is Charge with a cost of its own for each tier.
func (e *Envelope) ChargeEach(now quota.Time, costs []quota.Units) (worst, window quota.Units) {
	return e.charge(now, func(tier int) quota.Units { return costs[tier] })
}

func (e *Envelope) charge(now quota.Time, cost func(tier int) quota.Units) (worst, window quota.Units) {
	for i := range e.meters {
		e.meters[i].Advance(now, &e.tiers[i])
		charged := cost(i)
		if charged == 0 {
			continue // a level below 0 is not of this charge
		}
		e.meters[i].Add(-charged)
		excess := -e.meters[i].Level()
		worst = max(worst, excess)
		if e.tiers[i].Kind.Windowed() {
			window = max(window, excess)
		}
	}
	return worst, window
}

// Refund gives back a cost that was taken in each tier at a moment: in a window only if that window
// continues, or has taken over its use. It raises no level above its burst.
func (e *Envelope) Refund(now quota.Time, cost quota.Units, takenAt []quota.Time) {
	for i := range e.meters {
		m, t := &e.meters[i], &e.tiers[i]
		m.Advance(now, t)
		from, _ := m.Bounds()
		refund(m, t, cost, takenAt[i] >= from)
	}
}

// Refund gives back a cost that Take charged at a moment.
func (d *Ideal) Refund(now quota.Time, cost quota.Units, takenAt quota.Time) {
	for i := range d.meters {
		m, t := &d.meters[i], &d.tiers[i]
		m.Advance(now, t)
		from, _ := m.Bounds()
		refund(m, t, cost, takenAt >= from)
	}
}

// refund gives back a cost. inWindow says whether it was taken in the window of the meter, if that has windows.
func refund(m *limiter.Meter, t *quota.Tier, cost quota.Units, inWindow bool) {
	if inWindow || !t.Kind.Windowed() {
		m.Add(cost)
		m.Cap(t.BurstUnits())
	}
}

// Retier changes the tiers. Use stays counted. Of a cut below what a window has used, nothing may be admitted
// until the window ends; with forgive, that use is no debt: then the excess is what is admitted beyond it.
func (e *Envelope) Retier(now quota.Time, tiers []quota.Tier, forgive bool) {
	e.covers(now, 0)
	was := slices.Clone(e.meters)
	retier(e.tiers, e.meters, now, tiers)
	if forgive {
		for i := range e.meters {
			m := &e.meters[i]
			m.Add(max(0, min(was[i].Level(), 0)-m.Level()))
		}
	}
	e.tiers = tiers
}

// Resize changes the limit. Use stays counted.
func (d *Ideal) Resize(now quota.Time, l *quota.Limit) {
	tiers := l.Tiers()
	retier(d.tiers, d.meters, now, tiers)
	d.limit, d.tiers = l, tiers
}

func retier(old []quota.Tier, meters []limiter.Meter, now quota.Time, next []quota.Tier) {
	for i := range meters {
		meters[i].Retier(now, &old[i], &next[i])
	}
}

// Reset makes all tiers full.
func (e *Envelope) Reset(now quota.Time) { fill(e.tiers, e.meters, now) }

// Reset makes all tiers full.
func (d *Ideal) Reset(now quota.Time) { fill(d.tiers, d.meters, now) }

func fill(tiers []quota.Tier, meters []limiter.Meter, now quota.Time) {
	for i := range meters {
		meters[i].Advance(now, &tiers[i])
		meters[i].Fill(tiers[i].BurstUnits())
	}
}

// Owe books use after the fact, however low the level is.
func (d *Ideal) Owe(now quota.Time, used quota.Units) {
	for i := range d.meters {
		d.meters[i].Advance(now, &d.tiers[i])
		d.meters[i].Add(-used)
	}
}

// covers reports whether what was really admitted leaves room for the cost.
func (e *Envelope) covers(now quota.Time, cost quota.Units) bool {
	return covers(e.tiers, e.meters, now, cost)
}

// inTokens returns an amount as a number of tokens.
func inTokens(n quota.Units) float64 { return float64(n) / float64(quota.Token) }
