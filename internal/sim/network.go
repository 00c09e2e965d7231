package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// network is what goes wrong between nodes for a while.
type network struct {
	parted   int // partitions so far: the number of the last one
	slowed   int // the same of slow links
	refusals int // the same
}

// reorderedBy is how many delays more a reordered message takes at most.
const reorderedBy = 4

// delay is how long a message takes.
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

// send delivers f at a node after the network's delay, or never, or twice.
func (r *run) send(from, to *node, f func()) { r.pass(from, to, true, f) }

// once is send for answers to calls: they are not repeated.
func (r *run) once(from, to *node, f func()) { r.pass(from, to, false, f) }

// announce is send for what is rare.
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
	r.put(event{at: r.now.Add(d), f: f, from: from, to: to, life: to.life, what: message})
}

// connected reports whether messages pass between two nodes: whether both are
// there is another question.
func (r *run) connected(a, b *node) bool { return a.group == b.group || a == b }

// part divides the nodes into groups, by numbers from 1; those in none are in
// one together. It ends after d, or never if that is 0.
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
				r.join()
			}
		})
	}
	r.watch()
}

// cutOff notes who sees no majority, and who sees one again.
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

// refuse has connections to these nodes refused, for d or for good. Leaders take it for
// the end of their processes, as far as they may.
func (r *run) refuse(nodes []*node, d time.Duration) {
	r.refusals++
	this := r.refusals
	for _, n := range nodes {
		n.refused = this
		for i := range r.seats {
			r.tellSuspect(&r.seats[i], n)
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
	r.join()
}

// join ends all partitions. Nodes that see each other again are told who leads,
// and who is dead.
func (r *run) join() {
	r.parted++
	for _, n := range r.nodes {
		n.group = 0
	}
	r.cutOff()
	r.watch()
	for i := range r.seats {
		r.herald(&r.seats[i])
		for _, n := range r.nodes {
			if n.dead {
				r.tellSuspect(&r.seats[i], n)
			}
		}
	}
}

// slow makes all messages of these nodes take longer, for d or for good; of several
// at one node the last one counts.
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

// herald tells everybody who leads.
func (r *run) herald(s *seat) {
	if s.ledger == nil || s.node.dead {
		return
	}
	for _, n := range r.nodes {
		r.tell(r.side, s, n)
	}
}

// tell tells a node who leads in a term.
func (r *run) tell(rng *rand.Rand, s *seat, n *node) {
	lead, term := s.node, s.term
	if leaderOf(n) >= term && !r.leadsBefore(n, term) {
		return // it would be no news
	}
	r.announce(rng, lead, n, func() {
		r.follow(n, term)
		if term > leaderOf(n) {
			n.agg.SetLeader(0, lead.id, term)
			r.pump(n)
		}
	})
}

// leaderOf is the term that a node follows.
func leaderOf(n *node) quota.Term {
	_, term := n.agg.Leader(0)
	return term
}
