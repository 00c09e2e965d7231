package plan

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// perSecond returns what a tier refills per second, in units.
func perSecond(t *quota.Tier) float64 {
	return float64(t.Rate.Tokens) * float64(quota.Token) / max(t.Rate.Per.Seconds(), 1e-9)
}

// windowOf returns the number of the window that contains a second, counted from the window of origin.
// Calendar windows are longer or shorter than their period, but never by half a period in total.
func windowOf(t *quota.Tier, s, origin history.Second) float64 {
	start, _ := limiter.Window(t, at(s))
	first, _ := limiter.Window(t, at(origin))
	return math.Round(float64(start-first) / float64(t.Rate.Per))
}

// leastOf returns a lower bound on what one key was refused. Within any stretch, a bucket passes no more
// than the burst and the refill, and windows pass no more than those that the stretch touches. leastOf
// divides the time into the stretches that yield the highest bound.
func (k *Keyed) leastOf(t *quota.Tier, portions []portion) quota.Units {
	origin := k.parts[0].At
	passes := func(s history.Second) float64 { return perSecond(t) * float64(s-origin) }
	if t.Kind != quota.TokenBucket {
		passes = func(s history.Second) float64 { return float64(t.BurstUnits()) * windowOf(t, s, origin) }
	}
	out, in := 0.0, math.Inf(-1) // refused so far, without and with a stretch that continues
	for _, p := range portions {
		part := &k.parts[p.part]
		in = max(in, out+passes(part.At)) + float64(p.u)
		out = max(out, in-passes(part.end()+Late-1)-perSecond(t)*bucketed(t)-float64(t.BurstUnits()))
	}
	return max(0, quota.Units(out)-quota.Token)
}

// bucketed returns 1 for buckets, which refill until the end of a second, and 0 for windows.
func bucketed(t *quota.Tier) float64 {
	if t.Kind == quota.TokenBucket {
		return 1
	}
	return 0
}

// mostOf returns an upper bound on what one key was refused: everything except what would have passed
// whenever it came within its parts.
func (k *Keyed) mostOf(t *quota.Tier, portions []portion) quota.Units {
	sum := quota.Units(0)
	for _, p := range portions {
		sum = sum.Plus(p.u)
	}
	if t.Kind != quota.TokenBucket {
		return sum - k.passWindows(t, portions)
	}
	most := sum - max(k.passBuckets(t, portions, 0), k.passBuckets(t, portions, 1))
	if k.bars == nil {
		return most
	}
	return min(most, k.crowded(t, portions))
}

// passBuckets takes from every part with the given parity what a bucket holds at the part's beginning. It
// skips every other part, so that the parts do not touch.
func (k *Keyed) passBuckets(t *quota.Tier, portions []portion, parity int) (passed quota.Units) {
	level, free := t.BurstUnits(), k.parts[0].At
	for _, p := range portions {
		part := &k.parts[p.part]
		if p.part%2 != parity {
			continue
		}
		refilled := perSecond(t) * float64(max(0, part.At-free))
		level = quota.Units(min(float64(t.BurstUnits()), float64(level)+refilled))
		got := wholeTokens(min(level, p.u))
		level, free, passed = level-got, part.end()+Late, passed.Plus(got)
	}
	return passed
}

// passWindows takes from every part what is left in all windows that it touches. The first of them has
// the least left, because every earlier part that touches a later window also touches the first.
func (k *Keyed) passWindows(t *quota.Tier, portions []portion) (passed quota.Units) {
	got := make([]quota.Units, len(portions))
	taken, first := quota.Units(0), 0 // taken by the earlier portions that touch that window
	for i, p := range portions {
		start, _ := limiter.Window(t, at(k.parts[p.part].At))
		for ; first < i && at(k.parts[portions[first].part].end()+Late) <= start; first++ {
			taken -= got[first]
		}
		got[i] = wholeTokens(max(0, min(p.u, t.BurstUnits()-taken)))
		taken, passed = taken+got[i], passed.Plus(got[i])
	}
	return passed
}

// crowded returns what is refused if demand came in the fewest seconds that can have held it. Each of
// these seconds passes what a bucket refills in a second, or half the burst if that is less: that amount
// can be taken in every second without emptying the bucket, at any moment of the second.
func (k *Keyed) crowded(t *quota.Tier, portions []portion) quota.Units {
	passes := max(0, min(perSecond(t), float64(t.BurstUnits()-quota.Token)/2))
	refused := 0.0
	for _, p := range portions {
		left := float64(p.u)
		for _, b := range k.bars[p.part] {
			demand, free := float64(b.demand), passes*b.weight()
			if left <= 0 || demand <= free {
				break
			}
			part := min(1, left/demand)
			refused += part * (demand - free)
			left -= part * demand
		}
		if k.heldBy(p.part) < p.u { // the rest came even later than Late seconds after the part
			refused += float64(p.u - k.heldBy(p.part))
		}
	}
	return quota.Units(refused) + quota.Token
}

// heldBy returns what was requested in the seconds of a part.
func (k *Keyed) heldBy(part int) (sum quota.Units) {
	for _, b := range k.bars[part] {
		sum = sum.Plus(b.demand)
	}
	return sum
}

func wholeTokens(u quota.Units) quota.Units { return u - u%quota.Token }

// harmless reports whether a key that no list contains is certainly never refused.
func (k *Keyed) harmless(t *quota.Tier) bool {
	if len(k.parts) == 0 {
		return false
	}
	seconds := int64(k.parts[0].Seconds)
	if t.Kind == quota.TokenBucket { // two adjacent parts may touch
		return 2*k.rest <= t.BurstUnits() && float64(k.rest) <= perSecond(t)*float64(max(0, seconds-Late))
	}
	parts := int64(t.Rate.Per/time.Second)/seconds + 2
	return k.rest <= t.BurstUnits()/quota.Units(parts)
}
