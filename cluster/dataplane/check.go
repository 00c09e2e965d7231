package dataplane

import (
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// Check reports whether a request of the given cost may pass, and charges the cost if so. A cost of 0
// charges nothing and reports whether a cost of 1 would pass. Check decides from this node's memory
// and does not block, with two exceptions:
//
//   - It asks the leader, at most Config.AskWait, if the limit requires that (decide: leader, max_debt),
//     or if it is hard, allows it (decide: auto) and memory does not settle the check. Where the first grant
//     of a key will settle it, Check waits for that instead, and asks when half of the time has passed.
//   - It waits for the leader's next grant, at most Config.GrantWait, if admitting on the estimate of a
//     soft limit would be a guess (decide: auto): the key is in a burst that other nodes may see as well.
func (d *Decider) Check(k quota.Key, cost int64) quota.Decision {
	out, need, simple := d.agg.TrySimple(d.now, k.LimitName, k.Key, cost)
	if d.agg.Urgent() {
		d.Wake()
	}
	if !simple || need != aggregator.Nothing || d.events.Watched() {
		c := callPool.Get().(*pooled)
		defer callPool.Put(c)
		c.reqs[0] = quota.Request{Key: k, Cost: cost, MaxWait: quota.LimitsWait}
		if simple && need == aggregator.Nothing { // decided already; publish to the watchers
			c.out[0] = out
			d.publish(c.reqs[:], c.out[:])
			return out
		}
		c.Reset(c.reqs[:], c.out[:])
		d.decide(c)
		return c.out[0]
	}
	return out
}

// CheckHeld decides those checks of one limit that this node can decide from the tokens it holds,
// without a lock or a wait. For every other check it leaves Limit nil in out, and takes and counts
// nothing. out must be as long as checks. CheckHeld is safe for concurrent use.
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

// pooled is a reusable call with room for one request.
type pooled struct {
	aggregator.Call
	reqs    [1]quota.Request
	out     [1]quota.Decision
	allowed bool
	asked   *decideRequest // the queued decide request of the call, until it is answered
	call    *quota.Call    // the call of a batch
	back    int64          // tokens that the call gives back
}

var callPool = sync.Pool{New: func() any { return new(pooled) }}

// AdmitInline makes room for a limit that a request carries, out of its owner's share; see aggregator.Aggregator.AdmitInline.
// Where it returns false, do not decide the limit.
func (d *Decider) AdmitInline(limit quota.LimitName, owner string) bool {
	return d.agg.AdmitInline(limit, owner)
}

// Decide decides limits that must all pass: if one refuses, none is charged. out must have room for one
// decision per request; decisions after the first refusal are zero. Decide waits as Check does.
func (d *Decider) Decide(reqs []quota.Request, out []quota.Decision) bool {
	if held, ok := d.tryHeld(reqs); ok {
		out[0] = held
		return true
	}
	c := callPool.Get().(*pooled)
	defer callPool.Put(c)
	c.Reset(reqs, out)
	return d.decide(c)
}

// tryHeld decides the common case: one limit, of which the node holds enough.
func (d *Decider) tryHeld(reqs []quota.Request) (quota.Decision, bool) {
	if len(reqs) != 1 || d.events.Watched() {
		return quota.Decision{}, false
	}
	held, ok := d.agg.TryHeld(reqs[0].Key.LimitName, reqs[0].Key.Key, reqs[0].Cost)
	if ok && d.agg.Urgent() {
		d.Wake()
	}
	return held, ok
}

func (d *Decider) decide(c *pooled) bool {
	d.decideHere(c)
	if c.Need != aggregator.Nothing {
		d.newWait(nil, 1).complete(c)
	}
	d.publish(c.Requests, c.Out)
	return c.allowed
}

// decideHere decides a call by what this node knows, as far as that is possible.
func (d *Decider) decideHere(c *pooled) {
	clear(c.Out)
	c.allowed = d.agg.Decide(d.now, &c.Call)
	if d.agg.Urgent() {
		d.Wake()
	}
}

// Refund returns tokens that a request took and did not use. The decision has a nil Limit if the limit
// does not exist. If the leader decides the limit, Refund sends the tokens to it at once, so that the
// next check finds what the decision reports as remaining. Refund waits as Check does.
func (d *Decider) Refund(k quota.Key, cost int64) quota.Decision {
	var out [1]quota.Decision
	call := [1]quota.Call{{Requests: []quota.Request{{Key: k, Cost: cost}}, Out: out[:], Refund: true}}
	d.decideAll(nil, call[:])
	return out[0]
}

// beginRefund prepares c to give back the cost of q. If its leader is to book that, c asks what remains, and carries
// the refund. Otherwise it is booked on this node: the limit is decided here, or has several counters.
func (d *Decider) beginRefund(c *pooled, q *quota.Request) {
	c.back = q.Cost
	c.reqs[0] = quota.Request{Key: q.Key}
	c.Reset(c.reqs[:], c.Out)
	limits := d.Limits()
	l, _ := limits.Resolve(q.Key.LimitName, q.Key.Key)
	if l != nil && l.AsksLeader() && q.Cost > 0 && q.Cost <= quota.MaxTokens && len(limits.Charges(l.LimitName)) == 1 {
		if d.decideHere(c); c.Need == aggregator.Leader {
			c.Ask.Cost = -quota.FromTokens(q.Cost)
			return
		}
	}
	d.refundHere(c)
}

// refundHere books a refund on this node.
func (d *Decider) refundHere(c *pooled) {
	k := c.reqs[0].Key
	c.Out[0], c.allowed, c.Need = d.agg.Refund(d.now, k.LimitName, k.Key, c.back), true, aggregator.Nothing
	d.Wake()
}

// settleRefund continues with a refund after the leader's answer, or without it. The leader may have booked what it did
// not answer: unless that is cancelled, it must not be booked here as well.
func (d *Decider) settleRefund(c *pooled, a quota.Answer, err error, cancelled bool) {
	switch {
	case errors.Is(err, errNoAnswer) && !cancelled:
		c.Out[0] = quota.Decision{Limit: c.Out[0].Limit, Why: quota.WhyUnknown}
	case err != nil || a.Why == quota.WhyNoLimit || !a.Allowed:
		d.refundHere(c)
	default:
		c.Ask.Cost = 0
		c.Answer(a)
		c.allowed = d.agg.Decide(d.now, &c.Call)
	}
	c.Need = aggregator.Nothing
}

// Charge books usage that has already happened, whatever remains, down to quota.Limit.OwedUnits below
// zero. It returns how many tokens it booked.
func (d *Decider) Charge(k quota.Key, used int64) (int64, quota.Decision) {
	booked, out := d.agg.Charge(d.now, k.LimitName, k.Key, used)
	d.Wake()
	return booked, out
}

// Draw charges up to want tokens of a key on behalf of a client that hands them on, and returns how many
// it got. It decides from this node's memory. If that is not enough and the leader may be asked, it asks
// for the rest, then for half of it, and so on, until something is admitted or Config.AskWait is over. It
// never takes future tokens, because tokens that are handed on are spent at once. A leader that does not
// answer is not asked for other keys either, for a while: callers draw for many keys, one after another.
func (d *Decider) Draw(k quota.Key, want int64) (got int64) {
	l, _ := d.Limits().Resolve(k.LimitName, k.Key)
	if l == nil || !l.AsksLeader() {
		got = d.agg.Draw(d.now, k, want)
		if d.agg.Urgent() {
			d.Wake()
		}
	}
	if l == nil || !l.MayAsk() || l.Ceiling == quota.Soft && !l.AsksLeader() {
		return got
	}
	// The leader admits a request whole or not at all: where all that is missing is too much, half may do.
	began, decide := d.now(), d.drawBatch()
	for rest := want - got; rest > 0 && d.now().Sub(began) < d.cfg.AskWait; rest /= 2 {
		var out [1]quota.Decision
		call := [1]quota.Call{{Requests: []quota.Request{{Key: k, Cost: rest}}, Out: out[:]}}
		if decide(call[:]); call[0].Allowed {
			return got + rest
		}
	}
	return got
}

// drawBatch returns the batch of the draws of this second.
func (d *Decider) drawBatch() func([]quota.Call) {
	d.drawMu.Lock()
	defer d.drawMu.Unlock()
	if now := d.now(); d.draws == nil || now >= d.drawsEnd {
		d.draws, d.drawsEnd = d.Batch(), now.Add(time.Second)
	}
	return d.draws
}

// Miss counts tokens that a client refused elsewhere, spending what this node drew.
func (d *Decider) Miss(k quota.Key, cost int64) { d.agg.Miss(d.now, k, cost) }

// Standing returns what this node knows about a key.
func (d *Decider) Standing(k quota.Key) quota.Standing { return d.agg.Standing(d.now, k) }
