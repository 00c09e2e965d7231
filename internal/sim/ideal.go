package sim

import (
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
	return Envelope{tiers, newMeters(tiers, now)}
}

// Charge books an admission and returns the current excess: of all tiers, and of windows only.
func (e *Envelope) Charge(now quota.Time, cost quota.Units) (worst, window quota.Units) {
	for i := range e.meters {
		e.meters[i].Advance(now, &e.tiers[i])
		e.meters[i].Add(-cost)
		excess := -e.meters[i].Level()
		worst = max(worst, excess)
		if e.tiers[i].Kind.Windowed() {
			window = max(window, excess)
		}
	}
	return worst, window
}

// covers reports whether what was really admitted leaves room for the cost.
func (e *Envelope) covers(now quota.Time, cost quota.Units) bool {
	return covers(e.tiers, e.meters, now, cost)
}

// inTokens returns an amount as a number of tokens.
func inTokens(n quota.Units) float64 { return float64(n) / float64(quota.Token) }
