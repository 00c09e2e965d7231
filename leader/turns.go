package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// turns books what h has used since its last report: of it everybody is due a
// part, as the rate is divided.
func (a *account) turns(now quota.Time, h *holder, t terms) {
	took := float64(h.took)
	h.took = 0
	var sum float64
	for i := range a.holders {
		sum += min(a.holders[i].live, t.level)
	}
	if took <= 0 || sum <= 0 {
		return
	}
	h.due -= took
	forget := math.Exp(-now.Sub(a.shared).Seconds() / dueFor.Seconds())
	a.shared = now
	for i := range a.holders {
		o := &a.holders[i]
		fair := min(o.live, t.level)
		most := max(fewDue*float64(quota.Token), fair*dueFor.Seconds())
		o.due = max(-most, min(most, o.due*forget+took*fair/sum))
	}
}

const (
	// dueFor is for how long, on average, it is remembered who had less than its part.
	dueFor = time.Second
	// fewDue tokens are remembered of anybody.
	fewDue = 2
)

// lacks is how many whole tokens the member's callers were refused lately, if it
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
	for i := range a.holders {
		o := &a.holders[i]
		if o == h || o.due <= h.due || !l.busy(o) {
			continue
		}
		if u := l.lacks(now, o); u > 0 {
			sum = sum.Plus(min(u, quota.Units(l.room(a, o))))
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
