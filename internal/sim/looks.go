package sim

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// seen is the result of a check of cost 0.
type seen struct {
	heard     int // what the node had received by then
	at        quota.Time
	remaining int64
	reset     quota.Time // by the node's clock
}

// maxSwings bounds what is recorded of looks that contradict earlier ones.
const maxSwings = 10

// resetSlack is the rounding error of a reset time.
const resetSlack = time.Millisecond

// looked compares a check of cost 0 with the node's last one of the key. If the node has received
// nothing since, and no node has used the key for a while, only time has passed: then the remaining
// count must not fall, and the reset must not move later.
func (r *run) looked(n *node, key string, d *quota.Decision) {
	now := n.clock()
	is := seen{n.heard, r.now, d.Remaining, now.Add(d.ResetAfter)}
	was, ok := n.seen[key]
	if n.seen == nil {
		n.seen = map[string]seen{}
	}
	n.seen[key] = is
	if !ok || was.heard != is.heard || r.tally(key).used.Add(r.settles()) > was.at {
		return
	}
	r.looks++
	later := was.reset > now.Add(r.settles()) && is.reset > was.reset.Add(resetSlack)
	if (is.remaining < was.remaining || later) && len(r.swings) < maxSwings {
		r.swings = append(r.swings, fmt.Sprintf("%v, node %d, key %s, %v: %d remained, then %d; the reset moved by %v",
			r.since(), n.i+1, key, d.Why, was.remaining, is.remaining, is.reset.Sub(was.reset)))
	}
}

// settles returns how long after the last admission the nodes still expect others to continue: they
// extrapolate it until the next grants, which are rare once a key is quiet.
func (r *run) settles() time.Duration {
	return 2*time.Second + 2*r.Sync + 4*(r.Delay+r.varies()) + r.waited
}

// modes returns the limit, and what it is after each change.
func (s *Scenario) modes() []quota.Limit {
	all := []quota.Limit{s.Limit}
	for i := range s.Faults {
		if s.Faults[i].Kind == Switch {
			l := s.Limit
			l.Decide = s.Faults[i].Decide
			all = append(all, l)
		}
	}
	return all
}
