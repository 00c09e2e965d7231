package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// decision is what a cluster answered to one request.
type decision struct {
	key     int32
	moment  time.Duration // since the start; halfway between asking and answer
	cost    int64
	allowed bool
	why     quota.Why
	valid   bool // there was an answer
}

// comparison is the difference between a cluster and one ideal bucket per key.
// The ideal buckets are a world of their own: they go on by what they
// themselves admit, not by what the cluster did.
type comparison struct {
	Admitted      int64 // tokens
	IdealAdmitted int64
	Over          int64 // admitted, where the ideal refused
	Under         int64 // refused, where the ideal admitted
	// WorstExcess is the most that the cluster admitted beyond burst + rate x
	// time over any stretch of time, for any key; WorstKey is that key.
	WorstExcess int64
	WorstKey    int32
	IdealByKey  []int64 // tokens that the ideal admitted, per key
	ByKey       []int64 // tokens that the cluster admitted, per key
}

// compare feeds the decisions to ideal buckets, ordered by their moments. It
// sorts decisions in place.
func compare(decisions []decision, keys int, rate quota.Rate, burst int64) comparison {
	slices.SortStableFunc(decisions, func(a, b decision) int { return cmp.Compare(a.moment, b.moment) })
	type world struct {
		ideal limiter.Bucket
		owed  limiter.Bucket // the cluster's admissions, below 0 where they exceed the envelope
		seen  bool
	}
	top := quota.FromTokens(burst)
	worlds := make([]world, keys)
	c := comparison{WorstKey: -1, IdealByKey: make([]int64, keys), ByKey: make([]int64, keys)}
	var worst quota.Units
	for _, d := range decisions {
		if !d.valid {
			continue
		}
		w, now := &worlds[d.key], quota.Time(d.moment)
		if !w.seen {
			*w = world{limiter.NewBucket(top, now), limiter.NewBucket(top, now), true}
		}
		ideal := w.ideal.Take(now, rate, top, quota.FromTokens(d.cost))
		w.owed.Refill(now, rate, top)
		if ideal {
			c.IdealAdmitted += d.cost
			c.IdealByKey[d.key] += d.cost
		}
		if d.allowed {
			c.Admitted += d.cost
			c.ByKey[d.key] += d.cost
			w.owed.Add(-quota.FromTokens(d.cost))
			if excess := -w.owed.Level(); excess > worst {
				worst, c.WorstKey = excess, d.key
			}
		}
		switch {
		case d.allowed && !ideal:
			c.Over += d.cost
		case !d.allowed && ideal:
			c.Under += d.cost
		}
	}
	c.WorstExcess = (worst + quota.Token - 1).Tokens()
	return c
}

// byKey returns what keys got beyond and short of what the ideal gave them. It
// does not see two decisions on a key that only changed places, as they do when
// their moments are closer than a round trip.
func (c *comparison) byKey() (over, under int64) {
	for i, ideal := range c.IdealByKey {
		over += max(c.ByKey[i]-ideal, 0)
		under += max(ideal-c.ByKey[i], 0)
	}
	return over, under
}

// percent returns part in percent of whole; of 1 if the whole is nothing, so
// that the figure stays a number.
func percent(part, whole int64) float64 {
	return 100 * float64(part) / float64(max(whole, 1))
}
