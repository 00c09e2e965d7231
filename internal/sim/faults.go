package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// fault starts a fault and schedules its end.
func (r *run) fault(f *Fault) {
	targets := r.targets(f)
	switch f.Kind {
	case Kill:
		r.each(targets, r.kill)
	case Stop:
		r.each(targets, func(n *node) { r.stop(n, f.For) })
		return
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
	case Join:
		r.join(targets)
		return
	case Move:
		r.move(targets)
		return
	case Clock:
		r.setClocks(targets, f.Delay)
		return
	case Switch:
		r.decideAt(f.Decide)
		return
	case Resize:
		r.resize(f.Tiers)
		return
	case Override:
		r.override(f.Scale)
		return
	case Reset:
		r.reset()
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
	r.resized()
	if r.baseline != nil {
		return
	}
	for i := range r.terms {
		r.tellSuspect(&r.terms[i], n)
	}
}

// stopLimit is how long a node that stops waits for the answers to its last reports, as in package dataplane of cluster.
const stopLimit = 500 * time.Millisecond

// stop stops a node's process in order: if it leads, it hands over, and it returns its tokens before it ends. Its clients
// notice the end only. Unless back is 0, it restarts that long after the end.
func (r *run) stop(n *node, back time.Duration) {
	if n.dead {
		return
	}
	end := func() {
		r.each([]*node{n}, r.kill)
		if back > 0 {
			r.after(back, func() { r.each([]*node{n}, r.restart) })
		}
	}
	if r.baseline != nil {
		end()
		return
	}
	if s := r.newest(); s.node == n {
		for i := range r.nodes {
			r.move([]*node{r.nodes[(n.i+1+i)%len(r.nodes)]})
		}
	}
	n.agg.Stop()
	r.pump(n)
	until := r.now.Add(stopLimit)
	var await func()
	await = func() {
		if n.agg.Stopped() || r.now >= until {
			end()
			return
		}
		r.onNode(r.now.Add(5*time.Millisecond), n, timer, await)
	}
	await()
}

// restart starts a new process of a node, without state. Leaders that it can reach tell it so.
func (r *run) restart(n *node) {
	if !n.dead || r.absent(n) && n.removed {
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

// absent reports whether a node is not in the cluster yet.
func (r *run) absent(n *node) bool { return n.inc == 0 }

// join makes nodes members of the cluster: their processes start, and they vote. The others learn of
// it one after another.
func (r *run) join(nodes []*node) {
	for _, n := range nodes {
		if r.absent(n) {
			n.removed = false
			r.restart(n)
		}
	}
	r.watch()
	r.tellAll(func(n *node) { n.agg.SetNodes(r.members()) }, func(s *leadership) { s.ledger.SetNodes(r.members()) })
}

// members returns the number of nodes in the cluster.
func (r *run) members() (count int) {
	for i := range r.Nodes {
		if !slices.Contains(r.joining, i+1) || i < len(r.nodes) && !r.absent(r.nodes[i]) {
			count++
		}
	}
	return count
}

// move lets the leader hand over to the first of the nodes, if that node can lead.
func (r *run) move(to []*node) {
	if r.baseline != nil {
		return
	}
	s := r.newest()
	if len(to) == 0 || s.ledger == nil || r.vacant || to[0] == s.node || !r.canLead(to[0]) {
		return
	}
	r.over(s)
	r.replace(to[0].i, 2*r.Delay)
}

// tellAll applies a change to nodes, and to the leaders on them, up to 300 ms apart. A node without a
// majority learns of it later.
func (r *run) tellAll(member func(*node), lead func(*leadership)) {
	if r.baseline != nil {
		return
	}
	for _, n := range r.nodes {
		var tell func()
		later := func() { r.onNode(r.now.Add(time.Duration(r.side.IntN(300))*time.Millisecond), n, timer, tell) }
		tell = func() {
			if !r.majority(n) {
				later()
				return
			}
			n.heard++
			member(n)
			for i := range r.terms {
				if s := &r.terms[i]; s.node == n && s.ledger != nil {
					lead(s)
				}
			}
			r.informAll(n)
			r.resized()
		}
		later()
	}
}
