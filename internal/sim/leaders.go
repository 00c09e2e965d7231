package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

func (r *run) start() {
	for i := range r.Nodes {
		n := &node{id: quota.NodeID(string(rune('a'+i%26)) + string(rune('a'+i/26)))}
		if r.Skew > 0 {
			n.skew = quota.Time(r.rng.Int64N(int64(r.Skew)))
		}
		phase := time.Duration(r.rng.Int64N(int64(r.Sync)))
		n.agg = aggregator.New(aggregator.Config{Self: n.id, Incarnation: 1, Nodes: r.Nodes, Ranges: 1, Sync: r.Sync}, r.now+n.skew-quota.Time(phase))
		n.agg.SetLimits(r.now+n.skew, r.limits)
		r.nodes = append(r.nodes, n)
		r.arrive(i)
	}
	r.elect(0)
	if r.rival != nil {
		r.rival.start()
	}
	for _, at := range []time.Duration{r.KillLeader, r.KillAgain} {
		if at > 0 {
			r.after(at, r.kill)
		}
	}
	r.after(time.Second, r.sweep)
}

// elect starts a ledger on node i, or the next that lives, and tells everybody.
func (r *run) elect(i int) {
	for r.nodes[i%r.Nodes].dead {
		i++
	}
	lead := r.nodes[i%r.Nodes]
	ids := []quota.NodeID{}
	for _, n := range r.nodes {
		ids = append(ids, n.id)
	}
	var levels []quota.KeyLevel
	for _, kl := range r.saved {
		kl.At, kl.FullAt, kl.WindowStart = kl.At+r.wall(lead), kl.FullAt+r.wall(lead), kl.WindowStart+r.wall(lead)
		levels = append(levels, kl)
	}
	term := quota.Term(len(r.seats) + 1)
	ledger := leader.New(leader.Config{Sync: r.Sync}, 0, term, lead.id, ids, r.limits, levels, r.now+lead.skew)
	r.seats = append(r.seats, seat{ledger: ledger, node: lead})
	for _, n := range r.nodes {
		if n.dead {
			ledger.MemberGone(r.now+lead.skew, n.id)
			continue
		}
		r.after(r.delay(), func() {
			n.agg.SetLeader(0, lead.id, term)
			r.pump(n)
		})
	}
}

// kill ends the newest leader's life, or makes it linger. Nothing happens while
// there is none.
func (r *run) kill() {
	i := len(r.seats) - 1
	s := &r.seats[i]
	if s.ledger == nil {
		return
	}
	r.killed, r.killedTerm = r.now, quota.Term(len(r.seats))
	end := func() {
		r.seats[i].look(r.now)
		r.seats[i].ledger = nil
	}
	switch {
	case r.KillMember:
		s.node.dead = true
		end()
	case r.Linger > 0:
		r.after(r.Linger, end)
	default:
		end()
	}
	next := slices.Index(r.nodes, s.node) + 1
	r.after(r.Election, func() { r.elect(next) })
}

func (r *run) sweep() {
	for i := range r.seats {
		r.sweepSeat(&r.seats[i], i == len(r.seats)-1)
	}
	for _, n := range r.nodes {
		n.agg.Sweep(r.now + n.skew)
	}
	r.after(time.Second, r.sweep)
}

func (r *run) sweepSeat(s *seat, newest bool) {
	if s.ledger == nil {
		return
	}
	now := r.now + s.node.skew
	s.look(r.now)
	s.ledger.Sweep(now)
	s.look(r.now)
	if !newest {
		return // a leader without its term cannot write to the log
	}
	for _, kl := range s.ledger.Checkpoint(now, 1000) {
		kl.At, kl.FullAt, kl.WindowStart = kl.At-r.wall(s.node), kl.FullAt-r.wall(s.node), kl.WindowStart-r.wall(s.node)
		r.saved[kl.Key] = kl
	}
}

// wall is what a node's clock differs from the wall clock of the log: its skew
// where that is so large that only monotonic time can be meant, else nothing,
// because nobody knows it.
func (r *run) wall(n *node) quota.Time {
	if r.Skew >= time.Hour {
		return n.skew
	}
	return 0
}
