package dataplane

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
func (d *Decider) Check(k quota.Key, cost int64) quota.Decision {
	out, need, simple := d.agg.TrySimple(d.now, k.LimitName, k.Key, cost)
	if d.agg.Urgent() {
		d.Wake()
	}
	if !simple || need != aggregator.Nothing || d.events.Watched() {
		c := callPool.Get().(*pooled)
		defer callPool.Put(c)
		c.reqs[0] = quota.Request{Key: k, Cost: cost, MaxWait: quota.LimitsWait}
		if simple && need == aggregator.Nothing { // decided; somebody watches
			c.out[0] = out
			d.publish(c.reqs[:], c.out[:])
			return out
		}
		c.Reset(c.reqs[:], c.out[:])
		d.decide(&c.Call, nil)
		return c.out[0]
	}
	return out
}

// CheckHeld decides, of checks of one limit, those that Check would decide by what this
// node holds: with no lock and no wait. out, which is as long, has no limit for the others,
// of which nothing was taken or counted. Any goroutine may call it.
func (d *Decider) CheckHeld(limit quota.LimitName, checks []quota.Spend, out []quota.Decision) {
	if d.events.Watched() {
		clear(out)
		return
	}
	d.agg.TryHeldAll(limit, checks, out)
	if d.agg.Urgent() {
		d.Wake()
	}
}

// pooled is a call with room for one request.
type pooled struct {
	aggregator.Call
	reqs [1]quota.Request
	out  [1]quota.Decision
}

var callPool = sync.Pool{New: func() any { return new(pooled) }}

// Decide decides limits that must all pass: if one refuses, none is charged.
// out has room for a decision of every request; those after the one that refused
// are zero. It waits as Check does.
func (d *Decider) Decide(reqs []quota.Request, out []quota.Decision) bool {
	return d.decideIn(nil, reqs, out)
}

// Batch returns Decide for the requests of one call that are decided each for itself, one after
// the other or concurrently. When one of them has waited for a leader in vain, the others of the
// leader's range are decided without it.
func (d *Decider) Batch() func(reqs []quota.Request, out []quota.Decision) bool {
	unasked := new(sync.Map)
	return func(reqs []quota.Request, out []quota.Decision) bool { return d.decideIn(unasked, reqs, out) }
}

// decideIn decides requests. unasked, if it is not nil, has the ranges whose leaders are not asked,
// and gets those whose leaders could not be.
func (d *Decider) decideIn(unasked *sync.Map, reqs []quota.Request, out []quota.Decision) bool {
	if len(reqs) == 1 && !d.events.Watched() { // most calls: one limit, and enough is held
		if held, ok := d.agg.TryHeld(reqs[0].Key.LimitName, reqs[0].Key.Key, reqs[0].Cost); ok {
			if d.agg.Urgent() {
				d.Wake()
			}
			out[0] = held
			return true
		}
	}
	c := callPool.Get().(*pooled)
	defer callPool.Put(c)
	c.Reset(reqs, out)
	return d.decide(&c.Call, unasked)
}

func (d *Decider) decide(c *aggregator.Call, unasked *sync.Map) bool {
	clear(c.Out)
	ok := d.agg.Decide(d.now, c)
	if d.agg.Urgent() {
		d.Wake()
	}
	if c.Need != aggregator.Nothing {
		ok = d.complete(c, unasked)
	}
	d.publish(c.Requests, c.Out)
	return ok
}

// complete gets what the call needs until it is decided.
func (d *Decider) complete(c *aggregator.Call, unasked *sync.Map) (ok bool) {
	deadline := d.now().Add(d.cfg.GrantWait)
	for c.Need != aggregator.Nothing {
		if c.Need == aggregator.Leader {
			if a, err := d.askUnless(unasked, c.Ask); err == nil {
				c.Answer(a)
			} else {
				if errors.Is(err, errNoAnswer) {
					d.agg.Abandon(d.now, c.Ask)
					d.Wake()
				}
				c.Alone = true
				d.stats.unasked.Inc()
			}
			ok = d.agg.Decide(d.now, c)
			continue
		}
		ok = d.awaitGrant(c, deadline)
	}
	return ok
}

// awaitGrant decides again after the next grant of the key, or finally when the
// wait is over.
func (d *Decider) awaitGrant(c *aggregator.Call, deadline quota.Time) bool {
	left := deadline.Sub(d.now())
	w, waits := d.waiters.Add(c.Key)
	if !waits || left == 0 {
		d.stats.waitTimeouts.Inc()
		c.Final = true
		return d.agg.Decide(d.now, c)
	}
	k := c.Key
	// The grant may have come before the wait began.
	if ok := d.agg.Decide(d.now, c); c.Need != aggregator.Grant || c.Key != k {
		d.waiters.Remove(k, w)
		return ok
	}
	d.Wake()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-w:
		c.Woken()
	case <-timer.C:
		d.waiters.Remove(k, w)
	case <-d.stop:
		d.waiters.Remove(k, w)
		c.Final = true
	}
	return d.agg.Decide(d.now, c)
}

// Refund gives back tokens that a request took and did not use. Limit is nil in
// the decision if there is no such limit. To a leader that decides the limit itself they go
// at once, so that what the decision says remains is what the next check finds.
func (d *Decider) Refund(k quota.Key, cost int64) quota.Decision {
	if out, ok := d.refundAtLeader(k, cost); ok {
		return out
	}
	out := d.agg.Refund(d.now, k.LimitName, k.Key, cost)
	d.Wake()
	return out
}

// refundAtLeader returns false where the refund has to be booked here: the limit is decided
// here, or has several counters, or no leader could be asked.
func (d *Decider) refundAtLeader(k quota.Key, cost int64) (quota.Decision, bool) {
	limits := d.Limits()
	l, _ := limits.Resolve(k.LimitName, k.Key)
	if l == nil || !l.AsksLeader() || cost <= 0 || cost > quota.MaxTokens || len(limits.Charges(l.LimitName)) != 1 {
		return quota.Decision{}, false
	}
	c := callPool.Get().(*pooled)
	defer callPool.Put(c)
	c.reqs[0] = quota.Request{Key: k} // a question what remains, which carries the refund
	clear(c.out[:])
	c.Reset(c.reqs[:], c.out[:])
	d.agg.Decide(d.now, &c.Call)
	if c.Need != aggregator.Leader {
		return quota.Decision{}, false
	}
	q := c.Ask
	q.Cost = -quota.FromTokens(cost)
	a, err := d.ask(q)
	switch {
	case errors.Is(err, errNoAnswer): // it may have been booked: it is taken back, and booked here
		if !d.agg.Abandon(d.now, q) {
			return quota.Decision{Limit: l, Why: quota.WhyUnknown}, true
		}
		return quota.Decision{}, false
	case err != nil || a.Why == quota.WhyNoLimit || !a.Allowed:
		return quota.Decision{}, false
	}
	c.Answer(a)
	d.agg.Decide(d.now, &c.Call)
	return c.out[0], true
}

// Charge books what has been used already, however little is left, down to
// quota.Limit.OwedUnits below zero. It returns how many tokens were booked.
func (d *Decider) Charge(k quota.Key, used int64) (int64, quota.Decision) {
	booked, out := d.agg.Charge(d.now, k.LimitName, k.Key, used)
	d.Wake()
	return booked, out
}

// Draw charges up to want tokens of a key for somebody who hands them on, and
// returns how many it got. It decides from this node's memory and waits for
// nobody, but of a limit that its leader decides it asks the leader, at most
// Config.AskWait. It gets no tokens to come: what is handed on is spent at once.
func (d *Decider) Draw(k quota.Key, want int64) (got int64) {
	if l, _ := d.Limits().Resolve(k.LimitName, k.Key); l != nil && l.AsksLeader() {
		var out [1]quota.Decision
		if d.Decide([]quota.Request{{Key: k, Cost: want}}, out[:]) {
			got = want
		}
		return got
	}
	got = d.agg.Draw(d.now, k, want)
	if d.agg.Urgent() {
		d.Wake()
	}
	return got
}

// Miss counts what somebody was refused elsewhere, who spends what this node drew.
func (d *Decider) Miss(k quota.Key, cost int64) { d.agg.Miss(d.now, k, cost) }

// Standing tells what this node knows of a key.
func (d *Decider) Standing(k quota.Key) quota.Standing { return d.agg.Standing(d.now, k) }
