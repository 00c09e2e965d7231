package sim

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// fault starts a fault and schedules its end.
func (r *run) fault(f *Fault) {
	targets := r.targets(f)
	switch f.Kind {
	case Kill:
		r.each(targets, r.kill)
	case Restart:
		r.each(targets, r.restart)
	case Pause:
		r.each(targets, r.pause)
	case Suspend:
		r.each(targets, r.suspend)
	case Partition:
		r.part(r.groups(f, targets), f.For)
		return
	case Heal:
		r.heal()
		return
	case Slow:
		r.slow(targets, f.Delay, f.For)
		return
	case Refuse:
		r.refuse(targets, f.For)
		return
	}
	if f.For <= 0 {
		return
	}
	processes := make([]quota.Incarnation, len(targets))
	for i, n := range targets {
		processes[i] = n.inc
	}
	r.after(f.For, func() {
		for i, n := range targets {
			switch {
			case n.inc != processes[i]:
			case f.Kind == Kill && n.dead:
				r.restart(n)
			case f.Kind == Pause && n.paused && n.suspendedAt == 0:
				r.resume(n)
			case f.Kind == Suspend && n.suspendedAt > 0:
				n.wake(r.now)
				r.resume(n)
			}
		}
		r.watch()
	})
}

func (r *run) each(nodes []*node, f func(*node)) {
	for _, n := range nodes {
		f(n)
	}
	r.watch()
}

// targets returns the nodes that a fault names. Without a leader, "leader" names none.
func (r *run) targets(f *Fault) []*node {
	var out []*node
	if n := r.leading(); f.Leader && n != nil {
		out = append(out, n)
	}
	for _, i := range f.Nodes {
		if n := r.nodes[i-1]; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// groups returns the groups of a partition; targets without groups are cut off from all others.
func (r *run) groups(f *Fault, targets []*node) [][]int {
	out := slices.Clone(f.Groups)
	if len(targets) > 0 {
		var cut []int
		for _, n := range targets {
			cut = append(cut, n.i+1)
		}
		out = append(out, cut)
	}
	return out
}

// kill ends a node's process. The leader notices as soon as a connection to it is refused.
func (r *run) kill(n *node) {
	if n.dead {
		return
	}
	for i := range r.terms {
		if r.terms[i].node == n {
			r.over(&r.terms[i])
		}
	}
	n.kill(r.now)
	r.lostNode(n)
	if r.baseline != nil {
		return
	}
	for i := range r.terms {
		r.tellSuspect(&r.terms[i], n)
	}
}

// restart starts a new process of a node, without state. Leaders that it can reach tell it so.
func (r *run) restart(n *node) {
	if !n.dead {
		return
	}
	r.boot(n, 0)
	if r.baseline != nil {
		return
	}
	for i := range r.terms {
		if s := &r.terms[i]; s.ledger != nil && !s.node.dead {
			r.tellGone(s, n)
			r.announceTo(r.side, s, n)
		}
	}
}
