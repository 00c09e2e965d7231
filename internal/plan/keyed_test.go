package plan

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// crowd maps keys to the moments of their requests.
type crowd map[string][]quota.Time

const crowdStart = history.Second(1_000_020)

// newCrowd makes keys of very different size, whose requests come individually, in clumps, or with pauses.
func newCrowd(rng *rand.Rand, minutes int) crowd {
	c := crowd{}
	keys := 2 + rng.IntN(14)
	steep, clumps, pauses := rng.Float64()*2, 1+rng.IntN(8)*rng.IntN(2), rng.IntN(3) == 0
	for i := range keys {
		name := fmt.Sprint("k", i)
		mean := 12 * math.Pow(float64(i+1), -steep)
		var all []quota.Time
		for s := range history.Second(60 * minutes) {
			if pauses && (int(s)/20+i)%3 > 0 {
				continue
			}
			for n := mean / float64(clumps) * (.5 + rng.Float64()); n > rng.Float64(); n-- {
				moment := at(crowdStart+s) + quota.Time(rng.Int64N(int64(time.Second)))
				for range clumps {
					all = append(all, moment)
				}
			}
		}
		slices.Sort(all)
		c[name] = all
	}
	return c
}

// refused returns what a tier refuses of each key.
func (c crowd) refused(t *quota.Tier) map[string]quota.Units {
	out := map[string]quota.Units{}
	for name, moments := range c {
		m := limiter.NewMeter(t, at(crowdStart))
		for _, e := range moments {
			m.Advance(e, t)
			if m.Level() < quota.Token {
				out[name] += quota.Token
				continue
			}
			m.Add(-quota.Token)
		}
	}
	return out
}

func total(m map[string]quota.Units) (sum quota.Units) {
	for _, u := range m {
		sum += u
	}
	return sum
}

// recorded returns what a node records of c: the limit's seconds, and the busiest keys of about each minute.
func (c crowd) recorded(rng *rand.Rand, minutes, top int) ([]history.Point, []Part) {
	points := make([]history.Point, 60*minutes)
	for i := range points {
		points[i] = history.Point{Start: crowdStart + history.Second(i), Seconds: 1, Complete: true}
	}
	parts := make([]Part, minutes)
	for i := range parts {
		parts[i] = Part{At: crowdStart + history.Second(60*i), Seconds: 60}
	}
	late := history.Second(rng.IntN(Late - 2))
	sums := make([]map[string]quota.Units, minutes)
	for name, moments := range c {
		for _, e := range moments {
			s := history.Second(e/quota.Time(time.Second)) - crowdStart
			points[s].Attempted += quota.Token
			if i := int(s-late) / 60; s >= late && i < minutes {
				if sums[i] == nil {
					sums[i] = map[string]quota.Units{}
				}
				sums[i][name] += quota.Token
			}
		}
	}
	for i := range parts {
		for name, u := range sums[i] {
			parts[i].Keys = append(parts[i].Keys, history.KeyTotal{Key: name, Attempted: u})
		}
		slices.SortFunc(parts[i].Keys, func(a, b history.KeyTotal) int {
			return cmp.Or(cmp.Compare(b.Attempted, a.Attempted), cmp.Compare(a.Key, b.Key))
		})
		if len(parts[i].Keys) > top {
			parts[i].Rest, parts[i].Keys = parts[i].Keys[top].Attempted, parts[i].Keys[:top]
		}
	}
	return points, parts
}

// TestKeyed checks that what real meters refuse of each key lies within the bounds for every rule, whenever
// requests came, and that the bounds are narrow enough to be useful.
func TestKeyed(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	widths, errors := map[string][]float64{}, map[string][]float64{}
	const minutes = 8
	for seed := range uint64(*seeds / 10) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := newCrowd(rng, minutes)
		points, parts := c.recorded(rng, minutes, 4+rng.IntN(12))
		all := quota.Units(0)
		for i := range points {
			all += points[i].Attempted
		}
		if all == 0 {
			continue
		}
		rate := 1 + rng.Int64N(12)
		rules := map[string]quota.Tier{
			"bucket": {Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: rate, Per: time.Second}, Burst: 1 + rng.Int64N(4*rate)},
			"fixed":  {Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 20 * rate, Per: 30 * time.Second}, Burst: 20 * rate},
			"long":   {Kind: quota.CalendarWindow, Rate: quota.Rate{Tokens: 50 * rate, Per: time.Minute}, Burst: 50 * rate, Calendar: quota.Calendar{Unit: quota.Minute}},
		}
		for _, kind := range []string{"bucket", "fixed", "long"} {
			rule := rules[kind]
			passed := all - total(c.refused(&rule))
			seen := &Observed{Rule: rule, Attempted: all, Admitted: passed}
			for _, known := range []*Observed{nil, seen} {
				k := NewKeyed(points, parts, known)
				for _, factor := range []float64{.6, .9, 1, 1.2, 2} {
					next := scaled(rule, max(1, int64(float64(rule.Rate.Tokens)*factor)))
					truth, got := total(c.refused(&next)), k.Replay([]quota.Tier{next})
					if truth < got.RefusedAtLeast || truth > got.RefusedAtMost || got.Likely < got.RefusedAtLeast || got.Likely > got.RefusedAtMost || got.Attempted != all {
						t.Fatalf("seed %d, %s %+v (in force %+v, known %v): %d refused, replayed %+v", seed, kind, next, rule, known != nil, truth, got)
					}
					name := fmt.Sprintf("%s, known %-5v", kind, known != nil)
					widths[name] = append(widths[name], float64(got.RefusedAtMost-got.RefusedAtLeast)/float64(all))
					errors[name] = append(errors[name], math.Abs(float64(got.Likely-truth))/float64(all))
				}
			}
		}
	}
	for name, most := range map[string][2]float64{ // medians, as parts of the demand: the width of the bounds, and the error of the estimate
		"bucket, known true ": {.16, .01}, "bucket, known false": {.65, .04},
		"fixed, known true ": {.12, .01}, "fixed, known false": {.5, .02},
		"long, known true ": {.12, .01}, "long, known false": {.4, .02},
	} {
		slices.Sort(widths[name])
		slices.Sort(errors[name])
		n := len(widths[name])
		width, off := widths[name][n/2], errors[name][n/2]
		t.Logf("%s: width %.1f%% (9 of 10: %.1f%%); the estimate is off by %.2f%% (9 of 10: %.2f%%)", name, 100*width, 100*widths[name][n*9/10], 100*off, 100*errors[name][n*9/10])
		if width > most[0] || off > most[1] {
			t.Errorf("%s: the median width is %.1f%% of the demand, and the estimate off by %.2f%%; at most %.0f%% and %.1f%%", name, 100*width, 100*off, 100*most[0], 100*most[1])
		}
	}
}

// manyParts returns the points and parts of a limit with n keys, in 60 parts of the given number of hours.
func manyParts(n int, hours history.Second, u quota.Units) ([]history.Point, []Part) {
	const begin = history.Second(1_790_208_000) // 24 September 2026
	var points []history.Point
	var parts []Part
	for i := range history.Second(60) {
		part := Part{At: begin + i*hours*3600, Seconds: int(hours * 3600)}
		for h := range hours {
			points = append(points, history.Point{Start: part.At + h*3600, Seconds: 3600, Counts: history.Counts{Attempted: quota.Units(n) * u / quota.Units(hours)}})
		}
		for k := range n {
			part.Keys = append(part.Keys, history.KeyTotal{Key: fmt.Sprint("k", k), Attempted: u})
		}
		parts = append(parts, part)
	}
	return points, parts
}

// TestKeyedOfShortWindows checks that the number of windows in two years does not slow down Replay.
func TestKeyedOfShortWindows(t *testing.T) {
	points, parts := manyParts(20, 12*24, 1000*quota.Token)
	k := NewKeyed(points, parts, nil)
	tier := quota.Window(quota.FixedWindow, 100, time.Second)
	begun := time.Now()
	o := k.Replay([]quota.Tier{tier})
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if o.RefusedAtLeast != 0 || o.RefusedAtMost < o.Attempted/2 {
		t.Errorf("got %+v; want anything between nothing and nearly all", o)
	}
}

// TestKeyedOfDaysInNewZealand checks days that begin at noon UTC and, from 27 September, an hour earlier. A
// key that was requested for a day's allowance on the last day of winter and on the first day of summer
// was refused nothing.
func TestKeyedOfDaysInNewZealand(t *testing.T) {
	z, err := zone.Load("Pacific/Auckland")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []quota.CalendarUnit{quota.Day, quota.Week} {
		tier := quota.Per(1000, quota.Calendar{Unit: unit, Zone: z})
		points, parts := manyParts(2, 12, 0)
		for _, part := range parts[5:7] { // until noon UTC on the 27th; in the second part, after eleven
			for j := range part.Keys {
				part.Keys[j].Attempted = 1000 * quota.Token
			}
		}
		if o := NewKeyed(points, parts, nil).Replay([]quota.Tier{tier}); o.Attempted != 4000*quota.Token || o.RefusedAtLeast != 0 {
			t.Errorf("%v: at least %d of %d tokens are refused; want none of 4000", unit, o.RefusedAtLeast.Tokens(), o.Attempted.Tokens())
		}
	}
}
