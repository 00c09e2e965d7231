package plan

import (
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Demand is what one key was asked for in a second. Seconds without demand are left out.
type Demand struct {
	At        history.Second
	Attempted quota.Units
}

// Outcome is what a limit would have done with demand.
type Outcome struct {
	Attempted quota.Units
	// What would have been refused is between these two.
	RefusedAtLeast, RefusedAtMost quota.Units
	// Estimate says that these two are no bounds, only near the truth: what a sliding
	// window gives back, and when a periodic one begins, depends on the moments.
	Estimate bool
	// Seconds in which something would have been refused, in the worst case.
	Seconds int
}

// Exact reports whether there is no doubt.
func (o *Outcome) Exact() bool { return !o.Estimate && o.RefusedAtLeast == o.RefusedAtMost }

// Replayable returns whether demand by the second says what the tier would have
// done: not what is in flight at a time.
func Replayable(t *quota.Tier) bool { return t.Kind != quota.Concurrency }

// Replay returns what a tier, full at the first second, would have refused of the demand,
// which is ordered by time.
func Replay(t *quota.Tier, demand []Demand) Outcome {
	out := Outcome{Estimate: t.Kind == quota.SlidingWindow || t.Kind == quota.PeriodicRefill}
	if len(demand) == 0 {
		return out
	}
	begin := at(demand[0].At)
	best, worst := limiter.NewMeter(t, begin), limiter.NewMeter(t, begin)
	for _, d := range demand {
		out.Attempted = out.Attempted.Plus(d.Attempted)
		out.RefusedAtLeast = out.RefusedAtLeast.Plus(d.Attempted - eager(&best, t, d))
		refused := d.Attempted - lazy(&worst, t, d)
		out.RefusedAtMost = out.RefusedAtMost.Plus(refused)
		if refused > 0 {
			out.Seconds++
		}
	}
	if t.Kind == quota.TokenBucket && out.RefusedAtMost > 0 { // the meter takes a part of a token, a request does not
		out.RefusedAtMost = min(out.Attempted, out.RefusedAtMost+parts)
	}
	return out
}

// parts is what is left of tokens that nobody can take, at most: one at the end, and one
// of the moment when the other meter had it whole.
const parts = 2 * quota.Token

func at(s history.Second) quota.Time { return quota.Time(s) * quota.Time(time.Second) }

// eager takes what there is when the second begins, and the rest out of what the second
// brings: nothing overflows that somebody wanted.
func eager(m *limiter.Meter, t *quota.Tier, d Demand) quota.Units {
	m.Advance(at(d.At), t)
	first := take(m, d.Attempted)
	wide := *t
	if t.Kind == quota.TokenBucket {
		wide.Burst = quota.MaxTokens // what is taken as it comes may be more than the burst
	}
	m.Advance(at(d.At+1)-1, &wide)
	rest := take(m, d.Attempted-first)
	m.Cap(t.BurstUnits())
	return first + rest
}

// lazy takes no more than there is when the second begins, and takes it when the second
// ends, after what did not fit has overflowed.
func lazy(m *limiter.Meter, t *quota.Tier, d Demand) quota.Units {
	m.Advance(at(d.At), t)
	got := max(0, min(d.Attempted, m.Level()))
	m.Advance(at(d.At+1)-1, t)
	m.Add(-got)
	return got
}

func take(m *limiter.Meter, want quota.Units) quota.Units {
	got := max(0, min(want, m.Level()))
	m.Add(-got)
	return got
}

// Suggest returns the least rate, by the tier's own period, of which the demand would
// have been refused at most that part, even in the worst case. The burst stays in
// proportion to the rate, at least one token. It returns false if the largest possible
// rate refuses more.
func Suggest(t quota.Tier, demand []Demand, refused float64) (quota.Tier, bool) {
	scaled := func(tokens int64) quota.Tier {
		next := t
		next.Rate.Tokens = tokens
		next.Burst = max(1, int64(float64(t.Burst)*float64(tokens)/float64(max(1, t.Rate.Tokens))))
		if t.Kind != quota.TokenBucket {
			next.Burst = tokens
		}
		next.Burst = min(next.Burst, quota.MaxTokens)
		return next
	}
	enough := func(tokens int64) bool {
		next := scaled(tokens)
		o := Replay(&next, demand)
		return float64(o.RefusedAtMost) <= refused*float64(o.Attempted)
	}
	low, high := int64(0), int64(1) // low refuses too much
	for ; high < quota.MaxTokens && !enough(high); high *= 2 {
		low = high
	}
	high = min(high, quota.MaxTokens)
	if !enough(high) {
		return t, false
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return scaled(high), true
}
