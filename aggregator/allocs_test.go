package aggregator

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// These tests compare counts and ratios, never times: their results are the same on slow and on busy machines.

// TestDecisionsAllocateNothing checks a decision out of held tokens, and a refusal.
func TestDecisionsAllocateNothing(t *testing.T) {
	a, clock := benchTable(t, []string{"k"})
	var h Handle
	a.Find(&h, benchName, "k")
	if !h.Take(1) {
		t.Fatal("the handle takes nothing")
	}
	for name, f := range map[string]func(){
		"Handle.Take": func() { h.Take(1) },
		"TryHeld":     func() { a.TryHeld(benchName, "k", 1) },
		"TrySimple":   func() { a.TrySimple(clock, benchName, "k", 1) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations; want none", name, n)
		}
	}
	empty, emptyClock := refusingTable()
	if n := testing.AllocsPerRun(1000, func() { empty.TrySimple(emptyClock, benchName, "k", 1) }); n != 0 {
		t.Errorf("a refusal: %v allocations; want none", n)
	}
}

// TestHandleBesideTimeRate: a decision of a handle takes at most half the time of golang.org/x/time/rate. Both run in
// turns, and the fastest of many short turns counts: another load on the machine makes turns slower, never faster.
// The ratio is about 0.1.
func TestHandleBesideTimeRate(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("says nothing under the race detector: atomic operations are calls there")
	}
	a, _ := benchTable(t, []string{"k"})
	var h Handle
	a.Find(&h, benchName, "k")
	l := rate.NewLimiter(1e12, 1<<40)
	handle, limiter := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	const calls = 2000
	for range 500 {
		began := time.Now()
		for range calls {
			h.Take(1)
		}
		middle := time.Now()
		for range calls {
			l.Allow()
		}
		handle, limiter = min(handle, middle.Sub(began)), min(limiter, time.Since(middle))
	}
	ratio := float64(handle) / float64(limiter)
	t.Logf("%.2f of x/time/rate's", ratio)
	if ratio > 0.5 {
		t.Errorf("a decision of a handle takes %.2f of what one of x/time/rate takes; want at most half", ratio)
	}
}
