package sim

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// settle is how long a run goes on, after the last request and before the next,
// in steps of time that are simulated: long enough for the sweeps and checkpoints
// that find what has become as good as new.
const settle = 5 * time.Second

// skip passes over the time until the next request, if nothing happens in it but
// sweeps, checkpoints and beacons: no node has a key open, so nothing is reported
// or granted, and what levels do in the meantime is known from the time alone.
// Timers keep their distances. Scenarios with loads or faults are not for it.
func (r *run) skip(next quota.Time) {
	if r.Load != nil || len(r.Loads)+len(r.Faults) > 0 || r.KillLeader+r.KillAgain > 0 || r.rival != nil {
		return
	}
	for next.Sub(r.now) > 2*settle && !r.stopped() {
		r.until(r.now.Add(settle))
		if r.quiet() {
			by := (next.Sub(r.now) - settle).Truncate(4 * r.CheckpointEvery) // what is done now and then keeps its turns
			for i := range r.events {                                        // all by the same, so it stays a heap
				r.events[i].at = r.events[i].at.Add(by)
			}
			r.now = r.now.Add(by)
			return
		}
	}
}

// quiet reports whether no node has a key open.
func (r *run) quiet() bool {
	for _, n := range r.nodes {
		if !n.agg.Quiet() {
			return false
		}
	}
	return true
}
