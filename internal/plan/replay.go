package plan

import (
	"iter"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Demand is what was requested of one key in a second, or in some seconds if nothing finer is known.
// Seconds without demand are left out.
type Demand struct {
	At        history.Second
	Attempted quota.Units
	Seconds   int // 0 means 1
}

func (d *Demand) end() history.Second { return d.At + history.Second(max(1, d.Seconds)) }

// Outcome is what a limit would have done with demand.
type Outcome struct {
	Attempted quota.Units
	// RefusedAtLeast and RefusedAtMost enclose what would have been refused.
	RefusedAtLeast, RefusedAtMost quota.Units
	// RefusedIfEven is what would have been refused if demand had come evenly.
	RefusedIfEven quota.Units
	// Likely is the best single estimate between the two: RefusedIfEven for one key, and for many keys
	// what a model of their demand is refused.
	Likely quota.Units
	// Estimate means that RefusedAtLeast and RefusedAtMost are not bounds but approximations: what a
	// sliding window gives back, and when a periodic window begins, depends on the exact moments.
	Estimate bool
	// Seconds counts the seconds in which something would have been refused, in the worst case.
	Seconds int
}

// Exact reports whether the refused amount is known exactly.
func (o *Outcome) Exact() bool { return !o.Estimate && o.RefusedAtLeast == o.RefusedAtMost }

// Replayable reports whether demand by the second determines what the tier would have done. It does not
// for a tier that limits requests in flight.
func Replayable(t *quota.Tier) bool { return t.Kind != quota.Concurrency }

// estimated reports whether the outcome depends on the tier's state beyond the demand: on what it counted
// before the first second, or on when its window began.
func estimated(t *quota.Tier) bool {
	return t.Kind != quota.TokenBucket && t.Kind != quota.FixedWindow && t.Kind != quota.CalendarWindow
}

// Replay returns what a tier that is full at the first second would have refused of the demand, which must
// be ordered by time.
func Replay(t *quota.Tier, demand []Demand) Outcome {
	return replay(t, slices.Values(demand))
}

func replay(t *quota.Tier, demand iter.Seq[Demand]) Outcome {
	return ReplayEach(t, demand, func(Demand, quota.Units, quota.Units) {})
}

// ReplayEach is Replay with a callback for each demand. least and most only approximate what would have
// been refused of a single demand; their sums enclose the total.
func ReplayEach(t *quota.Tier, demand iter.Seq[Demand], each func(d Demand, least, most quota.Units)) Outcome {
	out := Outcome{Estimate: estimated(t)}
	var best, worst, even limiter.Meter
	begun := false
	for one := range demand {
		d := &one
		if !begun {
			begun = true
			best = limiter.NewMeter(t, at(d.At))
			worst, even = best, best
		}
		least, most := d.Attempted-eager(&best, t, d), d.Attempted-lazy(&worst, t, d)
		out.Attempted = out.Attempted.Plus(d.Attempted)
		out.RefusedAtLeast = out.RefusedAtLeast.Plus(least)
		out.RefusedAtMost = out.RefusedAtMost.Plus(most)
		out.RefusedIfEven = out.RefusedIfEven.Plus(d.Attempted - evenly(&even, t, d))
		if most > 0 {
			out.Seconds++
		}
		each(one, least, most)
	}
	if t.Kind == quota.TokenBucket && out.RefusedAtMost > 0 { // a meter can take a fraction of a token, a request cannot
		out.RefusedAtMost = min(out.Attempted, out.RefusedAtMost+parts)
	}
	out.RefusedIfEven = min(max(out.RefusedIfEven, out.RefusedAtLeast), out.RefusedAtMost)
	out.Likely = out.RefusedIfEven
	return out
}

// ReplayAll returns what tiers would have refused that must all admit a token, and of which none is charged
// if one refuses. They refuse no less than each tier alone, and no more than the sum of all tiers alone.
func ReplayAll(tiers []quota.Tier, demand []Demand) Outcome {
	var out Outcome
	for i := range tiers {
		out.join(Replay(&tiers[i], demand))
	}
	return out
}

// join adds a tier that must admit as well.
func (o *Outcome) join(t Outcome) {
	if o.Attempted == 0 {
		*o = t
		return
	}
	o.RefusedAtLeast = max(o.RefusedAtLeast, t.RefusedAtLeast)
	o.RefusedAtMost = min(o.Attempted, o.RefusedAtMost.Plus(t.RefusedAtMost))
	o.RefusedIfEven = max(o.RefusedIfEven, t.RefusedIfEven)
	o.Likely = max(o.Likely, t.Likely)
	o.Estimate = o.Estimate || t.Estimate
	o.Seconds = max(o.Seconds, t.Seconds)
}

// Add adds the outcome for other keys in the same time.
func (o *Outcome) Add(k *Outcome) {
	o.Attempted = o.Attempted.Plus(k.Attempted)
	o.RefusedAtLeast = o.RefusedAtLeast.Plus(k.RefusedAtLeast)
	o.RefusedAtMost = o.RefusedAtMost.Plus(k.RefusedAtMost)
	o.RefusedIfEven = o.RefusedIfEven.Plus(k.RefusedIfEven)
	o.Likely = o.Likely.Plus(k.Likely)
	o.Estimate = o.Estimate || k.Estimate
	o.Seconds = max(o.Seconds, k.Seconds)
}

// parts bounds the fractions of tokens that cannot be taken: one at the end, and one for the moment when
// the other meter had a whole token.
const parts = 2 * quota.Token

func at(s history.Second) quota.Time { return quota.Time(s) * quota.Time(time.Second) }

// eager takes what the meter has when each second begins, and the rest from what the second refills, so
// that nothing that was requested overflows.
func eager(m *limiter.Meter, t *quota.Tier, d *Demand) quota.Units {
	wide := *t
	if t.Kind == quota.TokenBucket {
		wide.Burst = quota.MaxTokens // the amount taken as it comes may exceed the burst
	}
	got := quota.Units(0)
	for s := d.At; s < d.end(); s++ {
		m.Advance(at(s), t)
		if got += spend(m, d.Attempted-got); got == d.Attempted {
			break // the next use advances the meter
		}
		got += min(d.Attempted-got, within(m, t, s))
		m.Advance(at(s+1)-1, &wide)
		got += spend(m, d.Attempted-got)
		m.Cap(t.BurstUnits())
	}
	return got
}

// within returns what is admitted by the windows that begin and end within a second, after the meter's current window.
func within(m *limiter.Meter, t *quota.Tier, s history.Second) quota.Units {
	if t.Kind != quota.FixedWindow || t.Rate.Per >= time.Second {
		return 0
	}
	_, end := m.Bounds()
	last, _ := limiter.Window(t, at(s+1)-1)
	return quota.Units(quota.MulDiv(int64(t.BurstUnits()), int64(last.Sub(end)), int64(t.Rate.Per)))
}

// lazy takes no more than the meter has when the demand begins. It takes it when the demand ends, after
// what did not fit has overflowed.
func lazy(m *limiter.Meter, t *quota.Tier, d *Demand) quota.Units {
	m.Advance(at(d.At), t)
	got := max(0, min(d.Attempted, m.Level()))
	m.Advance(at(d.end())-1, t)
	m.Add(-got)
	return got
}

// slots is the number of parts that evenly divides demand into.
const slots = 20

// evenly takes the demand in equal parts.
func evenly(m *limiter.Meter, t *quota.Tier, d *Demand) quota.Units {
	got := quota.Units(0)
	span := quota.Units(d.end()-d.At) * quota.Units(time.Second)
	given := quota.Units(0)
	for i := range quota.Units(slots) {
		m.Advance(at(d.At)+quota.Time(span*(2*i+1)/(2*slots)), t)
		if i == 0 && m.Level() >= d.Attempted {
			return spend(m, d.Attempted) // it passes whenever it comes
		}
		part := d.Attempted/slots*(i+1) - given
		if i == slots-1 {
			part = d.Attempted - given
		}
		given += part
		got += spend(m, part)
	}
	return got
}

func spend(m *limiter.Meter, want quota.Units) quota.Units {
	got := max(0, min(want, m.Level()))
	m.Add(-got)
	return got
}

// Suggest returns the lowest rate, in the tier's own period, that refuses at most the given part of the
// demand, even in the worst case. The burst stays in proportion to the rate, and is at least one token.
// Suggest returns false if even the largest possible rate refuses more.
func Suggest(t quota.Tier, demand []Demand, refused float64) (quota.Tier, bool) {
	return SuggestBy(t, func(next *quota.Tier) bool {
		o := Replay(next, demand)
		return float64(o.RefusedAtMost) <= refused*float64(o.Attempted)
	})
}

// SuggestBy is Suggest with another criterion. If enough accepts a tier, it must accept all larger ones.
func SuggestBy(t quota.Tier, enough func(*quota.Tier) bool) (quota.Tier, bool) {
	does := func(tokens int64) bool {
		next := scaled(t, tokens)
		return enough(&next)
	}
	low, high := int64(0), int64(1) // low always refuses too much
	for ; high < quota.MaxTokens && !does(high); high *= 2 {
		low = high
	}
	high = min(high, quota.MaxTokens)
	if !does(high) {
		return t, false
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; does(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return scaled(t, high), true
}

// scaled returns a tier with another number of tokens per period, and a burst in proportion.
func scaled(t quota.Tier, tokens int64) quota.Tier {
	burst := min(max(1, quota.MulDiv(t.Burst, tokens, max(1, t.Rate.Tokens))), quota.MaxTokens)
	if t.Kind != quota.TokenBucket {
		burst = tokens
	}
	t.Rate.Tokens, t.Burst = tokens, burst
	return t
}
