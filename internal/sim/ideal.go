package sim

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// ideal is one central limiter: what the cluster is compared with.
type ideal struct {
	limit  *quota.Limit
	tiers  []quota.Tier
	meters []limiter.Meter
}

func newIdeal(l *quota.Limit, now quota.Time) ideal {
	d := ideal{limit: l, tiers: l.Tiers()}
	for i := range d.tiers {
		d.meters = append(d.meters, limiter.NewMeter(&d.tiers[i], now))
	}
	return d
}

// take charges all tiers, or none.
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

// envelope is what may be admitted at most: a meter for each tier that goes into
// debt instead of refusing. Debt of a sliding window is forgiven like its use,
// and that of other windows when they end.
type envelope struct {
	tiers  []quota.Tier
	meters []limiter.Meter
}

func newEnvelope(l *quota.Limit, now quota.Time) envelope {
	d := newIdeal(l, now)
	return envelope{d.tiers, d.meters}
}

// charge books what was admitted and returns the excess so far, in tokens.
func (e *envelope) charge(now quota.Time, cost quota.Units) float64 {
	worst := 0.0
	for i := range e.meters {
		e.meters[i].Advance(now, &e.tiers[i])
		e.meters[i].Add(-cost)
		worst = math.Max(worst, -float64(e.meters[i].Level())/float64(quota.Token))
	}
	return worst
}
