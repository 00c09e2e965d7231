package fairshare

import (
	"math"
	"time"
)

// Level returns the largest amount that any of n claimants gets when avail is divided max-min fairly by demand:
// claimants with a smaller demand get their demand, and the rest is divided equally. It is +Inf if avail covers all
// demands. A demand of 0 or less counts as no claim.
func Level(n int, demand func(i int) float64, avail float64) float64 {
	claimants := 0
	for i := range n {
		if demand(i) > 0 {
			claimants++
		}
	}
	left, level, below := avail, 0.0, 0
	for claimants > below {
		next := left / float64(claimants-below)
		if next <= level {
			return level
		}
		level, left, below = next, avail, 0
		for i := range n {
			if d := demand(i); d > 0 && d <= level {
				left -= d
				below++
			}
		}
	}
	return math.Inf(1)
}

// Deviations is the number of standard deviations up to which a difference of counts is taken for chance.
const Deviations = 3

// Most returns the most that comes of a count of this mean, of events of the given size, but for chance.
func Most(mean, size float64) float64 { return mean + Deviations*math.Sqrt(mean*size) }

const (
	// maxQuiet is how many intervals a claimant may be silent when the demand is far below the limit.
	maxQuiet = 10
	// quietShare is the part of the burst that all claimants may use in that time.
	quietShare = 0.05
)

// Contended reports whether the demand of all claimants is more than half of what is available.
func Contended(demand, avail float64) bool { return demand > avail/2 }

// Quiet returns after how many intervals a claimant should report next: after one while the limit is contended, after
// several while the demand is far below it.
func Quiet(demand, avail, burst float64, interval time.Duration) int {
	if demand <= 0 || Contended(demand, avail) {
		return 1
	}
	return int(min(max(quietShare*burst/demand/interval.Seconds(), 1), maxQuiet))
}

// Follow moves an average rate towards the rate of a count, which covers the given seconds and consists of events of
// the given size. If the count differs from the expected one by more than Deviations of a Poisson process of such
// events, the average changes at once: up to the rate that so few events prove, or down to the counted rate.
// Otherwise the previous average keeps the part fade.
func Follow(avg, count, size, seconds, fade float64) float64 {
	rate := count / seconds
	expected, got := avg*seconds/size, count/size
	margin := Deviations*math.Sqrt(expected) + 1
	switch {
	case got > expected+margin:
		return max(avg, rate*(1-1/math.Sqrt(got))) // the least rate that so few events prove
	case got < expected-margin:
		return rate
	case count == 0 && avg < size/2:
		return 0
	}
	return avg + (1-fade)*(rate-avg)
}
