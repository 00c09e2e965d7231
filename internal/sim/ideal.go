package sim

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// ideal is one central limiter that the cluster is compared with.
type ideal struct {
	limit  *quota.Limit
	tiers  []quota.Tier
	meters []limiter.Meter
}

func newIdeal(l *quota.Limit, tiers []quota.Tier, now quota.Time) ideal {
	return ideal{limit: l, tiers: tiers, meters: newMeters(tiers, now)}
}

func newMeters(tiers []quota.Tier, now quota.Time) []limiter.Meter {
	out := make([]limiter.Meter, len(tiers))
	for i := range tiers {
		out[i] = limiter.NewMeter(&tiers[i], now)
	}
	return out
}

// take charges all tiers or none.
func (d *ideal) take(now quota.Time, cost quota.Units) (ok bool, wait time.Duration) {
	if d.limit.MaxDebt > 0 {
		v := d.meters[0].Take(now, d.limit, cost, quota.LimitsWait)
		return v.Allowed, v.Wait
	}
	for i := range d.meters {
		d.meters[i].Advance(now, &d.tiers[i])
		if d.meters[i].Level() < cost {
			return false, 0
		}
	}
	for i := range d.meters {
		d.meters[i].Add(-cost)
	}
	return true, 0
}

// envelope is the most that may be admitted: a meter for each tier that goes into debt instead of
// refusing. Debt of a sliding window expires like its use, that of other windows at their end.
type envelope struct {
	tiers  []quota.Tier
	meters []limiter.Meter
}

func newEnvelope(tiers []quota.Tier, now quota.Time) envelope {
	return envelope{tiers, newMeters(tiers, now)}
}

// charge books an admission and returns the current excess in tokens: of all tiers, and of windows
// only.
func (e *envelope) charge(now quota.Time, cost quota.Units) (worst, window float64) {
	for i := range e.meters {
		e.meters[i].Advance(now, &e.tiers[i])
		e.meters[i].Add(-cost)
		excess := -float64(e.meters[i].Level()) / float64(quota.Token)
		worst = math.Max(worst, excess)
		if e.tiers[i].Kind.Windowed() {
			window = math.Max(window, excess)
		}
	}
	return worst, window
}

// covers reports whether what was really admitted leaves room for the cost.
func (e *envelope) covers(now quota.Time, cost quota.Units) bool {
	for i := range e.meters {
		e.meters[i].Advance(now, &e.tiers[i])
		if e.meters[i].Level() < cost {
			return false
		}
	}
	return true
}
