package sim

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// seen is the result of a check of cost 0.
type seen struct {
	heard     int // what the node had received by then
	remaining int64
	reset     quota.Time // by the node's clock
}

// maxSwings bounds what is recorded of looks that contradict earlier ones.
const maxSwings = 10

// resetSlack returns how far a reset that a node estimated may differ from one that the leader answered:
// the node knows the leader's clock to within a round trip.
func (r *run) resetSlack() time.Duration { return time.Millisecond + 2*(r.Delay+r.varies()) }

// looked compares a check of cost 0 with the node's last one of the key. If the node has received
// nothing since and has not used the key, only time has passed: then the remaining count must not
// fall, and the reset must not move later unless the window may have ended. The reset of a hard sliding
// window is not checked: nodes end that window as soon as the leader's clock may have reached its end,
// and use that has not returned by then moves the reset within the next window.
func (r *run) looked(n *node, key string, d *quota.Decision) {
	now := n.clock()
	is := seen{n.heard, d.Remaining, now.Add(d.ResetAfter)}
	was, ok := n.seen[key]
	if n.seen == nil {
		n.seen = map[string]seen{}
	}
	n.seen[key] = is
	if !ok || was.heard != is.heard {
		return
	}
	r.looks++
	early := r.Limit.Kind == quota.SlidingWindow && r.Limit.Ceiling == quota.Hard
	later := !early && was.reset > now.Add(r.windowEnds()) && is.reset > was.reset.Add(r.resetSlack())
	if (is.remaining < was.remaining || later) && len(r.swings) < maxSwings {
		r.swings = append(r.swings, fmt.Sprintf("%v, node %d, key %s, %v: %d remained, then %d; the reset moved by %v",
			r.since(), n.i+1, key, d.Why, was.remaining, is.remaining, is.reset.Sub(was.reset)))
	}
}

// windowEnds returns how much later than the leader a node may end a window.
func (r *run) windowEnds() time.Duration {
	return 2*r.Sync + 4*(r.Delay+r.varies()) + r.waited
}
