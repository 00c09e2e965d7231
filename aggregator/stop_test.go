package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestStop checks that a process that stops returns what it holds of each key with its next report, that a key closes
// unless clients hold tokens of it, also if it is used after that, and that the process has stopped once the leader has
// answered.
func TestStop(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		n := quota.LimitName{Namespace: "n", Limit: "l"}
		r := withSecond(t, limit(n, 20, ceiling))
		grant := quota.GrantEntry{Tokens: 10 * tokens, Cap: 10 * tokens, Level: 20 * tokens}
		for _, k := range []string{"used", "lent"} {
			r.check(n, k, 1)
			r.answer(r.collect(), grant)
		}
		lent := r.Allocate(r.clock, quota.Key{LimitName: n, Key: "lent"}, AllocationRequest{Tokens: 4 * tokens})
		if lent.Tokens != 4*tokens {
			t.Fatalf("%v: lent %+v", ceiling, lent)
		}
		r.now = r.now.Add(time.Second)
		r.Stop()
		used := quota.Units(0)
		if ceiling == quota.Soft { // under hard, the checks are refused
			used = tokens
		}
		last := map[string]quota.ReportEntry{}
		for _, again := range []bool{false, true} {
			for rounds := 0; !r.Stopped(); rounds++ {
				if rounds == 3 {
					t.Fatalf("%v, used again %v: it has not stopped after three answers", ceiling, again)
				}
				rep := r.collect()
				for _, e := range rep.Entries {
					last[e.Key.Key] = e
				}
				r.answer(rep, quota.GrantEntry{Level: 20 * tokens})
			}
			if e := last["used"]; !e.Final || e.Held != 0 || e.Used+e.Overdrawn != used {
				t.Errorf("%v, used again %v: last report: final %v, %d used, %d held; want %d used and none held", ceiling, again, e.Final, e.Used+e.Overdrawn, e.Held, used)
			}
			if e := last["lent"]; e.Final || e.Held != 4*tokens {
				t.Errorf("%v: last report of the lent key: final %v, %d held; want the 4 lent", ceiling, e.Final, e.Held)
			}
			if again {
				break
			}
			if d := r.check(n, "used", 1); d.Allowed != (used > 0) || r.Stopped() {
				t.Errorf("%v: used again: %+v; stopped %v", ceiling, d, r.Stopped())
			}
		}
	}
}

// TestStopAtOnce checks that a process that stops reports at once, whatever the interval between reports, also where the
// leader had nothing free, and once more after a report that was on its way.
func TestStopAtOnce(t *testing.T) {
	const sync = 10 * time.Second
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		n := quota.LimitName{Namespace: "n", Limit: "l"}
		r := newRig(t, Config{Sync: sync, Lease: 3 * sync})
		r.limits(limit(n, 20, ceiling))
		r.check(n, "k", 1)
		grant := quota.GrantEntry{Tokens: 10 * tokens, Cap: 10 * tokens, Level: 20 * tokens}
		first := r.collect()
		r.Stop()
		r.collectNothing()
		r.answer(first, grant) // on its way when the process stopped
		r.now = r.now.Add(spacing)
		began := r.now
		last := r.collect()
		if e := last.Entries[0]; r.now != began || !e.Final || e.Held != 0 {
			t.Errorf("%v: after %v: final %v, %d held; want a final report at once", ceiling, r.now.Sub(began), e.Final, e.Held)
		}
		r.answer(last, quota.GrantEntry{Level: 20 * tokens})
		if !r.Stopped() {
			t.Errorf("%v: it has not stopped", ceiling)
		}
	}
}

func (r *rig) collectNothing() {
	r.t.Helper()
	if reports := r.Collect(r.now); len(reports) > 0 {
		r.t.Fatalf("reports %+v before the last one is answered", reports)
	}
}

// TestStopPlaces checks that a process that stops returns the places of a concurrency limit that are free, while requests
// are in flight.
func TestStopPlaces(t *testing.T) {
	n := quota.LimitName{Namespace: "n", Limit: "l"}
	r := newRig(t, Config{})
	r.limits(quota.Limit{LimitName: n, Kind: quota.Concurrency, Burst: 20})
	var c Call
	c.Reset([]quota.Request{{Key: quota.Key{LimitName: n, Key: "k"}, Cost: 1}}, make([]quota.Decision, 1))
	if c.Acquires = true; !r.Decide(r.clock, &c) {
		t.Fatalf("refused: %+v", c.Out[0])
	}
	r.answer(r.collect(), quota.GrantEntry{Tokens: 10 * tokens, Cap: 10 * tokens, Level: 19 * tokens})
	r.answer(r.collect(), quota.GrantEntry{Level: 19 * tokens}) // it is up to date
	r.now = r.now.Add(spacing)
	r.Stop()
	began := r.now
	rep := r.collect()
	if e := rep.Entries[0]; r.now != began || e.Held != 0 || e.InFlight != tokens || e.Final {
		t.Errorf("after %v: %d held, %d in flight, final %v; want only the one in flight, at once", r.now.Sub(began), e.Held, e.InFlight, e.Final)
	}
	if r.answer(rep, quota.GrantEntry{Level: 19 * tokens}); !r.Stopped() {
		t.Error("it waits for the request in flight")
	}
}
