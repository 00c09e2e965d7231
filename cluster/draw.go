package cluster

import "github.com/quorate/quorate/internal/quota"

// Draw charges up to want tokens of a key for somebody who hands them on, and
// returns how many it got. It decides from this node's memory and waits for
// nobody, but of a limit that its leader decides it asks the leader, at most
// Config.AskWait. It gets no tokens to come: what is handed on is spent at once.
func (n *Node) Draw(k quota.Key, want int64) (got int64) {
	if l, _ := n.Limits().Resolve(k.LimitName, k.Key); l != nil && l.AsksLeader() {
		var out [1]quota.Decision
		if n.Decide([]quota.Request{{Key: k, Cost: want}}, out[:]) {
			got = want
		}
		return got
	}
	got = n.agg.Draw(n.clock.Now, k, want)
	if n.agg.Urgent() {
		n.poke()
	}
	return got
}

// Miss counts what somebody was refused elsewhere, who spends what this node drew.
func (n *Node) Miss(k quota.Key, cost int64) { n.agg.Miss(n.clock.Now, k, cost) }

// Standing tells what this node knows of a key.
func (n *Node) Standing(k quota.Key) quota.Standing { return n.agg.Standing(n.clock.Now, k) }
