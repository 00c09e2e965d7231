package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// network counts the faults of the network, to tell whether the latest one is still in effect.
type network struct {
	parted   int // number of partitions
	slowed   int // number of slow links
	refusals int // number of refusals
}

// reorderedBy is the largest additional delay of a reordered message, in delays.
const reorderedBy = 4

// delay draws the delay of a message.
func (r *run) delay(rng *rand.Rand, from, to *node) time.Duration {
	d := r.Delay + from.slow + to.slow
	if r.Jitter > 0 {
		d += time.Duration(rng.Int64N(int64(r.Jitter)))
	}
	if r.Reorder > 0 && rng.Float64() < r.Reorder {
		d += time.Duration(rng.Int64N(int64(reorderedBy*r.Delay) + 1))
	}
	return d
}

// send delivers f at a node after the network's delay. The message may be lost or repeated.
func (r *run) send(from, to *node, f func()) { r.pass(from, to, true, f) }

// once is send for responses, which are not repeated.
func (r *run) once(from, to *node, f func()) { r.pass(from, to, false, f) }

// announce is send for rare messages; it draws from the given source.
func (r *run) announce(rng *rand.Rand, from, to *node, f func()) {
	if to.dead || !r.connected(from, to) || to.refused > 0 && from != to {
		return
	}
	d := r.delay(rng, from, to)
	if from == to && r.Near {
		d = 0
	}
	if r.side.Float64() >= r.Loss || from == to {
		r.deliver(from, to, d, f)
	}
}

func (r *run) pass(from, to *node, again bool, f func()) {
	rng := r.rng
	if from == to && r.Near {
		r.deliver(from, to, 0, f)
		return
	}
	if !r.connected(from, to) || again && to.refused > 0 && from != to { // an answer comes on the connection of the question
		return
	}
	if rng.Float64() >= r.Loss {
		r.deliver(from, to, r.delay(rng, from, to), f)
	}
	if again && r.Repeat > 0 && rng.Float64() < r.Repeat {
		r.deliver(from, to, r.delay(rng, from, to), f)
	}
}

func (r *run) deliver(from, to *node, d time.Duration, f func()) {
	r.put(event{at: r.now.Add(d), f: f, from: from, to: to, inc: to.inc, what: message})
}

// connected reports whether messages pass between two nodes, alive or not.
func (r *run) connected(a, b *node) bool { return a.group == b.group || a == b }

// part divides the nodes into groups, by numbers from 1; unlisted nodes form one group. The
// partition ends after d, or never if d is 0.
func (r *run) part(groups [][]int, d time.Duration) {
	for _, n := range r.nodes {
		n.group = 0
	}
	for g, nodes := range groups {
		for _, i := range nodes {
			r.nodes[i-1].group = g + 1
		}
	}
	r.cutOff()
	r.parted++
	this := r.parted
	if d > 0 {
		r.after(d, func() {
			if r.parted == this {
				r.unite()
			}
		})
	}
	r.watch()
}

// cutOff records which nodes lose and regain a majority.
func (r *run) cutOff() {
	for _, n := range r.nodes {
		switch seen := r.majority(n); {
		case seen && n.alone > 0:
			n.missed(n.alone, r.now)
			n.alone = 0
		case !seen && n.alone == 0:
			n.alone = r.now
		}
	}
}

// refuse refuses connections to nodes, for d or permanently. Leaders take that for the end of their
// processes as far as they may.
func (r *run) refuse(nodes []*node, d time.Duration) {
	r.refusals++
	this := r.refusals
	for _, n := range nodes {
		n.refused = this
		for i := range r.terms {
			r.tellSuspect(&r.terms[i], n)
		}
	}
	if d > 0 {
		r.after(d, func() {
			for _, n := range nodes {
				if n.refused == this {
					n.refused = 0
				}
			}
		})
	}
}

// heal ends all partitions, refusals and slow links.
func (r *run) heal() {
	for _, n := range r.nodes {
		n.slow, n.slowed, n.refused = 0, 0, 0
	}
	r.unite()
}

// unite ends all partitions. Nodes that can communicate again learn who leads and who is dead.
func (r *run) unite() {
	r.parted++
	for _, n := range r.nodes {
		n.group = 0
	}
	r.cutOff()
	r.watch()
	for i := range r.terms {
		r.beacon(&r.terms[i])
		for _, n := range r.nodes {
			if n.dead {
				r.tellSuspect(&r.terms[i], n)
			}
		}
	}
}

// slow delays all messages of nodes, for d or permanently. The last call for a node counts.
func (r *run) slow(nodes []*node, by, d time.Duration) {
	r.slowed++
	this := r.slowed
	for _, n := range nodes {
		n.slow, n.slowed = by, this
	}
	if d > 0 {
		r.after(d, func() {
			for _, n := range nodes {
				if n.slowed == this {
					n.slow = 0
				}
			}
		})
	}
}

// beaconEvery bounds how long a lost announcement matters.
const beaconEvery = time.Second

// beacon announces a leader to all nodes.
func (r *run) beacon(s *leadership) {
	if s.ledger == nil || s.node.dead {
		return
	}
	for _, n := range r.nodes {
		r.announceTo(r.side, s, n)
	}
}

// announceTo announces the leader of a term to a node.
func (r *run) announceTo(rng *rand.Rand, s *leadership, n *node) {
	lead, term := s.node, s.term
	if n.dead || leaderOf(n) >= term && !r.leadsBefore(n, term) {
		return // it would be no news
	}
	r.announce(rng, lead, n, func() {
		r.follow(n, term)
		if term > leaderOf(n) {
			n.heard++
			n.agg.SetLeader(0, lead.id, term)
			r.pump(n)
		}
	})
}

// leaderOf returns the term of the leader that a node follows.
func leaderOf(n *node) quota.Term {
	_, term := n.agg.Leader(0)
	return term
}
