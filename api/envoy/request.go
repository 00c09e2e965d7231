package envoy

import (
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of a request. MaxBytes is many times the size of the headers that a proxy accepts: a
// client of a proxy that fails open must not get past the limit with a long header.
const (
	MaxDescriptors = 128
	MaxBytes       = 2 << 20 // of all keys and values
	maxDomain      = 1024    // bytes
)

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// check returns the error of an invalid request, or nil.
func check(req *request) error {
	n := len(req.Descriptors)
	switch {
	case req.Domain == "":
		return invalid("domain: is empty; must be the namespace of the limits")
	case len(req.Domain) > maxDomain:
		return invalid("domain: is %d bytes; at most %d", len(req.Domain), maxDomain)
	case n == 0:
		return invalid("descriptors: empty; must be 1 to %d", MaxDescriptors)
	case n > MaxDescriptors:
		return invalid("descriptors: %d; at most %d", n, MaxDescriptors)
	}
	bytes := 0
	for i, d := range req.Descriptors {
		size, err := checkDescriptor(i, d)
		if err != nil {
			return err
		}
		if bytes += size; bytes > MaxBytes {
			return invalid("descriptors: their keys and values have more than %d bytes", MaxBytes)
		}
	}
	return nil
}

func checkDescriptor(i int, d *commonv3.RateLimitDescriptor) (bytes int, err error) {
	n := len(d.GetEntries())
	if n > descriptor.MaxEntries {
		return 0, invalid("descriptors[%d].entries: %d; at most %d", i, n, descriptor.MaxEntries)
	}
	for _, e := range d.GetEntries() {
		bytes += len(e.GetKey()) + len(e.GetValue())
	}
	if l := d.GetLimit(); l != nil {
		if _, err := periodOf(l); err != nil {
			return 0, invalid("descriptors[%d].limit.%v", i, err)
		}
	}
	return bytes, nil
}

// units are the lengths of the protocol's units, by the names in both of its enums.
var units = map[string]time.Duration{
	"SECOND": time.Second, "MINUTE": time.Minute, "HOUR": time.Hour, "DAY": day,
	"WEEK": 7 * day, "MONTH": 30 * day, "YEAR": 365 * day,
}

const day = 24 * time.Hour

// periodOf returns the period of a limit that the request carries.
func periodOf(l *commonv3.RateLimitDescriptor_RateLimitOverride) (time.Duration, error) {
	unit, ok := units[l.Unit.String()]
	if !ok {
		return 0, badf("unit: is %v; must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR", l.Unit)
	}
	if l.UnitMultiplier == nil {
		return unit, nil
	}
	n := time.Duration(l.UnitMultiplier.Value)
	if most := quota.MaxPause / unit; n < 1 || n > most {
		return 0, badf("unit_multiplier: is %d; must be 1 to %d with this unit", n, most)
	}
	return n * unit, nil
}

// hits are the hits that a descriptor adds.
type hits struct {
	n        int64
	negative bool
	// explicit says that the number is the descriptor's own, so that it may report use after the fact.
	explicit bool
}

func hitsOf(req *request, d *commonv3.RateLimitDescriptor) hits {
	h := hits{n: max(int64(req.HitsAddend), 1), negative: d.GetIsNegativeHits()}
	if d.GetHitsAddend() != nil {
		// A number that could never pass stays that large.
		h.n, h.explicit = int64(min(d.HitsAddend.Value, uint64(quota.MaxTokens))), true
	}
	return h
}
