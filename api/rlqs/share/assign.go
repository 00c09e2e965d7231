package share

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Action is the kind of an assignment.
type Action uint8

// The actions.
const (
	None     Action = iota // no assignment
	AllowAll               // admit every request
	DenyAll                // refuse every request
	Bucket                 // a token bucket that starts full
	Abandon                // the proxy must forget the bucket
)

// Assignment is the message to send to a member about a key.
type Assignment struct {
	Member MemberID
	Key    quota.Key
	Action Action
	// For a Bucket: Max is its capacity in tokens, and PerFill the tokens added in each Fill.
	Max, PerFill int64
	Fill         time.Duration
	TTL          time.Duration
	// Unknown marks the Abandon of a key without a limit: the table keeps the member. It
	// drops the member after any other Abandon.
	Unknown bool
}

// Rate returns the refill rate of a Bucket in tokens per second, and 0 for any other action.
func (a *Assignment) Rate() float64 {
	if a.Action != Bucket {
		return 0
	}
	return float64(a.PerFill) / a.Fill.Seconds()
}

// fills are the possible fill intervals, shortest first. Envoy supports whole seconds only
// and refills continuously. A rate is a whole number of tokens per fill interval.
var fills = []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// precisePerFill is the number of tokens per fill from which rounding costs at most one percent
// (TestMovingSpot/hard 2s).
const precisePerFill = 100

// bucketOf returns the Bucket for a rate in tokens per second and a burst in tokens, both
// rounded down. It returns DenyAll for a rate below one token per hour.
func bucketOf(rate, burst float64) Assignment {
	for i, f := range fills {
		n := int64(math.Floor(rate*f.Seconds() + 1e-9))
		if n >= precisePerFill || i == len(fills)-1 && n > 0 {
			return Assignment{Action: Bucket, Max: max(1, int64(burst)), PerFill: min(n, math.MaxUint32), Fill: f}
		}
	}
	return Assignment{Action: DenyAll}
}

// distinguish changes a bucket that differs from the last one only in its fill interval,
// because Envoy would not see the difference: it compares only the nanoseconds part of fill
// intervals.
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
