package share

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestBriefReports checks that a report that covers less than minGap leaves the demand alone: two reports may arrive at
// once, and a few requests in a millisecond would be thousands a second.
func TestBriefReports(t *testing.T) {
	start := quota.Time(time.Hour)
	h := &member{reportedAt: start}
	h.measure(start, Usage{Allowed: 5})
	if h.known {
		t.Errorf("the first report states no time, and its demand is %v a second", h.demand)
	}
	now := start.Add(time.Second)
	h.measure(now, Usage{Allowed: 60, Denied: 40})
	want := h.demand
	if !h.known || want != 100 {
		t.Fatalf("100 requests in a second: a demand of %v a second, known %t", want, h.known)
	}
	for _, gap := range []time.Duration{0, time.Millisecond, minGap - 1} {
		now = now.Add(gap)
		if h.measure(now, Usage{Allowed: 20}); h.demand != want {
			t.Fatalf("after a report of %v, the demand is %v a second; want %v as before", gap, h.demand, want)
		}
	}
}
