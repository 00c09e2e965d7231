package sim

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// changes adds to some scenarios callers that give back or charge, limits that are resized or overridden, and
// resets of the key, before until.
func (d draw) changes(s *Scenario, until time.Duration) {
	moment := func() time.Duration {
		return time.Duration(100+d.IntN(int(until.Milliseconds())-100)) * time.Millisecond
	}
	if d.chance(5) && s.Limit.Kind != quota.Concurrency {
		d.refunds(s)
	}
	if d.chance(6) && s.Limit.Kind != quota.Concurrency {
		s.Loads = append(s.Loads, d.charging(s, until))
	}
	if s.Keys.Count > 1 { // nodes apply changes to their keys in an order of their own
		return
	}
	if d.chance(5) {
		for range 1 + d.IntN(3) {
			s.Faults = append(s.Faults, Fault{At: moment(), Kind: Resize, Tiers: d.resized(s)})
		}
	}
	if d.chance(8) {
		for range 1 + d.IntN(2) {
			f := Fault{At: moment(), Kind: Override, Scale: pick[int64](d, .2*quota.Million, .5*quota.Million, quota.Million, 2*quota.Million, 5*quota.Million)}
			if s.fewest()*f.Scale >= quota.Million {
				s.Faults = append(s.Faults, f)
			}
		}
	}
	if d.chance(8) {
		for range 1 + d.IntN(2) {
			s.Faults = append(s.Faults, Fault{At: moment(), Kind: Reset})
		}
	}
}

// refunds lets the callers of some loads give tokens back.
func (d draw) refunds(s *Scenario) {
	for i := range s.Loads {
		if l := &s.Loads[i]; !l.Look && !d.chance(3) {
			l.Refund = pick(d, .1, .5, .9)
		}
	}
}

// charging draws a load of charges after the fact, of a part of what the limit admits.
func (d draw) charging(s *Scenario, until time.Duration) Load {
	l := Load{Charge: true, To: until, Clump: 1, Cost: max(1, s.Limit.Burst*pick[int64](d, 0, 0, 5, 20, 50)/100), Spread: d.spread(s.Nodes)}
	l.Rate = max(1, math.Round(60*perSecond(s)*pick(d, .1, .3, 1)/float64(l.Cost))) / 60
	l.Rate = min(l.Rate, most/10/until.Seconds())
	l.Rate = max(1, math.Round(60*l.Rate)) / 60 // as a file can say it
	return l
}

// resized draws other tiers: a higher or lower rate and burst, another count, or windows of another length.
func (d draw) resized(s *Scenario) []quota.Tier {
	tiers := s.Limit.Tiers()
	for i := range tiers {
		t := &tiers[i]
		by := pick(d, .1, .5, 1, 2, 10)
		t.Burst = min(quota.MaxTokens/100, max(1, int64(float64(t.Burst)*by)))
		switch {
		case t.Kind == quota.TokenBucket:
			t.Rate.Tokens = max(1, int64(float64(t.Rate.Tokens)*pick(d, .1, .5, 1, 2, 10)))
		case t.Kind.Windowed():
			t.Rate.Tokens = t.Burst
			if t.Kind != quota.CalendarWindow && t.Rate.Per < time.Minute {
				t.Rate.Per = t.Rate.Per * pick[time.Duration](d, 1, 1, 1, 2, 4) / pick[time.Duration](d, 1, 1, 2)
			}
		}
	}
	return tiers
}

// fewest returns the smallest burst of all versions of the limit without an override.
func (s *Scenario) fewest() int64 {
	least := s.Limit.Burst
	for _, tiers := range s.resizes() {
		for i := range tiers {
			least = min(least, tiers[i].Burst)
		}
	}
	return least
}
