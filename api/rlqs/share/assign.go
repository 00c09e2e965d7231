package share

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Action is what an assignment says.
type Action uint8

// The actions.
const (
	None     Action = iota // not assigned
	AllowAll               // nothing is refused
	DenyAll                // everything is
	Bucket                 // a token bucket, full at first
	Abandon                // the bucket is to be forgotten
)

// Assignment is what a member is to be told of a key.
type Assignment struct {
	Member MemberID
	Key    quota.Key
	Action Action
	// Of a Bucket: the most tokens at once, and how many come in each Fill.
	Max, PerFill int64
	Fill         time.Duration
	TTL          time.Duration
	// Unknown says that an Abandon is of a key without a limit: the member is still
	// known. After any other it is not.
	Unknown bool
}

// Rate is what a Bucket yields, tokens per second.
func (a *Assignment) Rate() float64 {
	if a.Action != Bucket {
		return 0
	}
	return float64(a.PerFill) / a.Fill.Seconds()
}

// fills are the times between fills, shortest first. Envoy knows whole seconds only,
// and fills continuously; the rate is a whole number of tokens in one of them.
var fills = []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// fine is how many tokens in a fill make a rate precise enough: to one percent.
const fine = 100

// bucketOf says a rate and a burst as a bucket, rounded down. A rate of less than a
// token in an hour is none.
func bucketOf(rate, burst float64) Assignment {
	for i, f := range fills {
		n := int64(math.Floor(rate*f.Seconds() + 1e-9))
		if n >= fine || i == len(fills)-1 && n > 0 {
			return Assignment{Action: Bucket, Max: max(1, int64(burst)), PerFill: min(n, math.MaxUint32), Fill: f}
		}
	}
	return Assignment{Action: DenyAll}
}

// distinguish makes a bucket look different from the last one where a client would not
// see it: Envoy compares the time between fills only below the second.
func (a *Assignment) distinguish(last Assignment) {
	if a.Action != Bucket || last.Action != Bucket || a.Max != last.Max || a.PerFill != last.PerFill || a.Fill == last.Fill {
		return
	}
	if a.PerFill > 1 {
		a.PerFill--
	} else {
		a.Max++
	}
}
