package sim

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func (r *run) delay() time.Duration {
	d := r.Delay
	if r.Jitter > 0 {
		d += time.Duration(r.rng.Int64N(int64(r.Jitter)))
	}
	return d
}

// send delivers f after the network's delay, or never, or twice.
func (r *run) send(f func()) {
	if r.rng.Float64() >= r.Loss {
		r.after(r.delay(), f)
	}
	if r.Repeat > 0 && r.rng.Float64() < r.Repeat {
		r.after(r.delay(), f)
	}
}

// pump sends what a member has to say and wakes it again when it is due.
func (r *run) pump(n *node) {
	if n.dead || r.rival != nil {
		return
	}
	for _, rep := range n.agg.Collect(r.now + n.skew) {
		r.res.Reports++
		r.send(func() { r.report(n, rep) })
	}
	if wake := n.agg.NextWake() - n.skew; wake != n.wakeAt {
		n.wakeAt = wake
		r.at(wake, func() {
			if n.wakeAt == wake {
				n.wakeAt = 0
				r.pump(n)
			}
		})
	}
}

// report is received by whoever led in its term.
func (r *run) report(n *node, rep quota.Report) {
	if rep.Term == 0 || int(rep.Term) > len(r.seats) {
		return
	}
	s := &r.seats[rep.Term-1]
	if s.ledger == nil {
		return
	}
	g, err := s.ledger.Report(r.now+s.node.skew, rep)
	if err != nil {
		return
	}
	if r.killed > 0 && rep.Term > r.killedTerm && !s.ledger.Learning() {
		r.res.Learned, r.killed = r.now.Sub(r.killed), 0
	}
	r.send(func() {
		if n.dead {
			return
		}
		n.agg.Apply(r.now+n.skew, g)
		r.unpark(n)
		if n.agg.Urgent() {
			r.pump(n)
		}
	})
}
