package aggregator

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestPlacesAreWhole: a member keeps only whole places of a concurrency limit. A fraction would stay here, and the
// rest of its place at the leader, so that all are refused although one is free.
func TestPlacesAreWhole(t *testing.T) {
	r := newRig(t, Config{})
	r.limits(quota.Limit{LimitName: hardName, Kind: quota.Concurrency, Burst: 40, Ceiling: quota.Hard})
	acquire := func() bool {
		reqs := []quota.Request{{Key: quota.Key{LimitName: hardName, Key: "k"}, Cost: 1, MaxWait: quota.LimitsWait}}
		c := &Call{}
		c.Reset(reqs, make([]quota.Decision, 1))
		c.Acquires, c.Final = true, true
		return r.Decide(r.clock, c)
	}
	if acquire() {
		t.Fatal("acquired what nobody has granted")
	}
	r.answer(r.collect(), quota.GrantEntry{Tokens: 20 * tokens, Level: 40 * tokens, Free: 20 * tokens, Cap: 20 * tokens})
	if !acquire() {
		t.Fatal("refused although 20 are held")
	}
	e := r.collect().Entries[0]
	if e.InFlight != tokens || e.Held >= 19*tokens || e.Held%tokens != 0 {
		t.Errorf("%v in flight, %v kept of 19; want 1, and whole places fewer than 19", e.InFlight, e.Held)
	}
}
