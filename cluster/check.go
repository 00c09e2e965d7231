package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Check decides whether a request of that cost may pass, and charges it if so.
// A cost of 0 charges nothing and tells whether a cost of 1 would pass. It
// decides from this node's memory and waits for nobody, with two exceptions.
// Where the leader's next grant would tell and this node does not know, it waits
// for that, at most Config.GrantWait: when it holds too little of a hard limit
// while the cluster seems to have enough, and when admitting on the estimate of
// a soft limit would be a guess, because the key is in a burst that other nodes
// may see as well. And where the limit says so (decide: leader), or tokens to
// come are to be reserved (max_debt), it asks the leader, at most
// Config.AskWait.
func (n *Node) Check(k quota.Key, cost int64) quota.Decision {
	d, need, simple := n.agg.TrySimple(n.clock.Now, k.LimitName, k.Key, cost)
	if n.agg.Urgent() {
		n.poke()
	}
	if !simple || need != aggregator.Nothing || n.hub.Watched() {
		c := calls.Get().(*pooled)
		defer calls.Put(c)
		c.reqs[0] = quota.Request{Key: k, Cost: cost, MaxWait: quota.LimitsWait}
		if simple && need == aggregator.Nothing { // decided; somebody watches
			c.out[0] = d
			n.publish(c.reqs[:], c.out[:])
			return d
		}
		c.Reset(c.reqs[:], c.out[:])
		n.decide(&c.Call, nil)
		return c.out[0]
	}
	return d
}

// CheckHeld decides, of checks of one limit, those that Check would decide by what this
// node holds: with no lock and no wait. out, which is as long, has no limit for the others,
// of which nothing was taken or counted. Any goroutine may call it.
func (n *Node) CheckHeld(limit quota.LimitName, checks []quota.Spend, out []quota.Decision) {
	if n.hub.Watched() {
		clear(out)
		return
	}
	n.agg.TryHeldAll(limit, checks, out)
	if n.agg.Urgent() {
		n.poke()
	}
}

// pooled is a call with room for one request.
type pooled struct {
	aggregator.Call
	reqs [1]quota.Request
	out  [1]quota.Decision
}

var calls = sync.Pool{New: func() any { return new(pooled) }}

// Decide decides limits that must all pass: if one refuses, none is charged.
// out has room for a decision of every request; those after the one that refused
// are zero. It waits as Check does.
func (n *Node) Decide(reqs []quota.Request, out []quota.Decision) bool {
	return n.decideIn(nil, reqs, out)
}

// Batch returns Decide for the requests of one call that are decided each for itself, one after
// the other or concurrently. When one of them has waited for a leader in vain, the others of the
// leader's range are decided without it.
func (n *Node) Batch() func(reqs []quota.Request, out []quota.Decision) bool {
	unasked := new(sync.Map)
	return func(reqs []quota.Request, out []quota.Decision) bool { return n.decideIn(unasked, reqs, out) }
}

// decideIn decides requests. unasked, if it is not nil, has the ranges whose leaders are not asked,
// and gets those whose leaders could not be.
func (n *Node) decideIn(unasked *sync.Map, reqs []quota.Request, out []quota.Decision) bool {
	if len(reqs) == 1 && !n.hub.Watched() { // most calls: one limit, and enough is held
		if d, ok := n.agg.TryHeld(reqs[0].Key.LimitName, reqs[0].Key.Key, reqs[0].Cost); ok {
			if n.agg.Urgent() {
				n.poke()
			}
			out[0] = d
			return true
		}
	}
	c := calls.Get().(*pooled)
	defer calls.Put(c)
	c.Reset(reqs, out)
	return n.decide(&c.Call, unasked)
}

func (n *Node) decide(c *aggregator.Call, unasked *sync.Map) bool {
	clear(c.Out)
	ok := n.agg.Decide(n.clock.Now, c)
	if n.agg.Urgent() {
		n.poke()
	}
	if c.Need != aggregator.Nothing {
		ok = n.pursue(c, unasked)
	}
	n.publish(c.Requests, c.Out)
	return ok
}

// pursue gets what the call needs until it is decided.
func (n *Node) pursue(c *aggregator.Call, unasked *sync.Map) (ok bool) {
	deadline := n.clock.Now().Add(n.cfg.GrantWait)
	for c.Need != aggregator.Nothing {
		if c.Need == aggregator.Leader {
			if a, err := n.askUnless(unasked, c.Ask); err == nil {
				c.Answer(a)
			} else {
				if errors.Is(err, errAskLost) {
					n.agg.Abandon(n.clock.Now, c.Ask)
					n.poke()
				}
				c.Alone = true
				n.stats.unasked.Inc()
			}
			ok = n.agg.Decide(n.clock.Now, c)
			continue
		}
		ok = n.awaitGrant(c, deadline)
	}
	return ok
}

// awaitGrant decides again after the next grant of the key, or finally when the
// wait is over.
func (n *Node) awaitGrant(c *aggregator.Call, deadline quota.Time) bool {
	left := deadline.Sub(n.clock.Now())
	w, waits := n.wait.Add(c.Key)
	if !waits || left == 0 {
		n.stats.waitTimeouts.Inc()
		c.Final = true
		return n.agg.Decide(n.clock.Now, c)
	}
	k := c.Key
	// The grant may have come before the wait began.
	if ok := n.agg.Decide(n.clock.Now, c); c.Need != aggregator.Grant || c.Key != k {
		n.wait.Remove(k, w)
		return ok
	}
	n.poke()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-w:
		c.Woken()
	case <-timer.C:
		n.wait.Remove(k, w)
	case <-n.stop:
		n.wait.Remove(k, w)
		c.Final = true
	}
	return n.agg.Decide(n.clock.Now, c)
}

// Refund gives back tokens that a request took and did not use. Limit is nil in
// the decision if there is no such limit. To a leader that decides the limit itself they go
// at once, so that what the decision says remains is what the next check finds.
func (n *Node) Refund(k quota.Key, cost int64) quota.Decision {
	if d, ok := n.refundAtLeader(k, cost); ok {
		return d
	}
	d := n.agg.Refund(n.clock.Now, k.LimitName, k.Key, cost)
	n.poke()
	return d
}

// refundAtLeader returns false where the refund has to be booked here: the limit is decided
// here, or has several counters, or no leader could be asked.
func (n *Node) refundAtLeader(k quota.Key, cost int64) (quota.Decision, bool) {
	limits := n.Limits()
	l, _ := limits.Resolve(k.LimitName, k.Key)
	if l == nil || !l.AsksLeader() || cost <= 0 || cost > quota.MaxTokens || len(limits.Charges(l.LimitName)) != 1 {
		return quota.Decision{}, false
	}
	c := calls.Get().(*pooled)
	defer calls.Put(c)
	c.reqs[0] = quota.Request{Key: k} // a question what remains, which carries the refund
	clear(c.out[:])
	c.Reset(c.reqs[:], c.out[:])
	n.agg.Decide(n.clock.Now, &c.Call)
	if c.Need != aggregator.Leader {
		return quota.Decision{}, false
	}
	q := c.Ask
	q.Cost = -quota.FromTokens(cost)
	a, err := n.ask(q)
	switch {
	case errors.Is(err, errAskLost): // it may have been booked: it is taken back, and booked here
		if !n.agg.Abandon(n.clock.Now, q) {
			return quota.Decision{Limit: l, Why: quota.WhyUnknown}, true
		}
		return quota.Decision{}, false
	case err != nil || a.Why == quota.WhyNoLimit || !a.Allowed:
		return quota.Decision{}, false
	}
	c.Answer(a)
	n.agg.Decide(n.clock.Now, &c.Call)
	return c.out[0], true
}

// Charge books what has been used already, however little is left, down to
// quota.Limit.OwedUnits below zero. It returns how many tokens were booked.
func (n *Node) Charge(k quota.Key, used int64) (int64, quota.Decision) {
	booked, d := n.agg.Charge(n.clock.Now, k.LimitName, k.Key, used)
	n.poke()
	return booked, d
}
