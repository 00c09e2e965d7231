package sim

import (
	"math"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// arrive plays node i's next request and schedules the one after it. Arrivals
// are Poisson; the rate is looked up anew at least every ten milliseconds.
func (r *run) arrive(i int) {
	const step = 10 * time.Millisecond
	rate := r.Load(i, r.now.Sub(epoch))
	gap := time.Duration(math.MaxInt64)
	if rate > 0 {
		gap = time.Duration(r.rng.ExpFloat64() / rate * float64(time.Second))
	}
	if gap > step {
		r.after(step, func() { r.arrive(i) })
		return
	}
	r.after(gap, func() {
		r.request(r.nodes[i])
		r.arrive(i)
	})
}

func (r *run) request(n *node) {
	if n.dead {
		return
	}
	if r.rival != nil {
		r.count(r.rival.decide(n, "k", quota.Token))
		return
	}
	if d, done := r.check(n, r.Hop > 0); done {
		r.finish(n, d)
	}
}

// finish counts a decision, and releases later what was acquired.
func (r *run) finish(n *node, d quota.Decision) {
	r.count(d)
	if r.Hold == 0 || !d.Allowed {
		return
	}
	r.inFlight++
	r.res.Excess = math.Max(r.res.Excess, r.inFlight-float64(r.Limit.Burst))
	r.after(time.Duration(r.rng.ExpFloat64()*float64(r.Hold)), func() {
		r.inFlight-- // the work of a dead node ends too
		if !n.dead {
			n.agg.Release(func() quota.Time { return r.now + n.skew }, r.Limit.LimitName, "k", 1)
			r.pump(n)
		}
	})
}

// check decides a request of node n, unless it waits: for a grant if it may, or
// for the leader.
func (r *run) check(n *node, waits bool) (d quota.Decision, done bool) {
	c := &aggregator.Call{}
	reqs := []quota.Request{{Key: quota.Key{LimitName: r.Limit.LimitName, Key: "k"}, Cost: 1, MaxWait: quota.LimitsWait}}
	c.Reset(reqs, make([]quota.Decision, 1))
	c.Acquires = r.Hold > 0
	r.decide(n, c)
	switch {
	case c.Need == aggregator.Leader:
		r.ask(n, c)
		return quota.Decision{}, false
	case c.Need == aggregator.Grant && waits:
		until := r.now.Add(r.Hop)
		n.parked = append(n.parked, parked{until})
		r.at(until, func() { r.unpark(n) })
		return quota.Decision{}, false
	case c.Need == aggregator.Grant:
		c.Final = true
		r.decide(n, c)
	}
	return c.Out[0], true
}

func (r *run) decide(n *node, c *aggregator.Call) {
	n.agg.Decide(func() quota.Time { return r.now + n.skew }, c)
	if n.agg.Urgent() {
		r.pump(n)
	}
}

// askWait is how long a node waits for the leader's answer.
const askWait = 100 * time.Millisecond

// ask puts the call's question to the newest leader; a node that hears nothing
// decides alone.
func (r *run) ask(n *node, c *aggregator.Call) {
	done := false
	finish := func(f func()) {
		if done || n.dead {
			return
		}
		done = true
		f()
		c.Final = true
		r.decide(n, c)
		r.count(c.Out[0])
	}
	r.res.Asked++
	r.send(func() {
		s := &r.seats[len(r.seats)-1]
		if s.ledger == nil {
			return
		}
		a := s.ledger.Ask(r.now+s.node.skew, []quota.Ask{c.Ask})[0]
		r.once(func() { finish(func() { c.Answer(a) }) })
	})
	r.after(askWait, func() {
		finish(func() {
			n.agg.Abandon(func() quota.Time { return r.now + n.skew }, c.Ask)
			c.Alone = true
		})
	})
}

// once delivers f after the network's delay, or never: answers are not repeated.
func (r *run) once(f func()) {
	if r.rng.Float64() >= r.Loss {
		r.after(r.delay(), f)
	}
}

// unpark decides the waiting checks of a node anew.
func (r *run) unpark(n *node) {
	waiting := n.parked
	n.parked = nil
	for _, p := range waiting {
		if d, done := r.again(n, p); done {
			r.finish(n, d)
		}
	}
}

// again decides a check that has waited already, once more.
func (r *run) again(n *node, p parked) (quota.Decision, bool) {
	c := &aggregator.Call{}
	reqs := []quota.Request{{Key: quota.Key{LimitName: r.Limit.LimitName, Key: "k"}, Cost: 1, MaxWait: quota.LimitsWait}}
	c.Reset(reqs, make([]quota.Decision, 1))
	c.Acquires, c.Final = r.Hold > 0, r.now >= p.until
	r.decide(n, c)
	if c.Need == aggregator.Grant {
		n.parked = append(n.parked, p)
		return quota.Decision{}, false
	}
	return c.Out[0], true
}

// count compares a decision with the ideal and the envelope.
func (r *run) count(d quota.Decision) {
	ideal, wait := r.ideal.take(r.now, quota.Token)
	if ideal && r.Hold > 0 {
		r.after(time.Duration(r.rng.ExpFloat64()*float64(r.Hold)), func() { r.ideal.meters[0].Add(quota.Token) })
	}
	r.res.Attempted++
	if r.killed > 0 {
		r.res.OutageAttempted++
		if d.Allowed {
			r.res.OutageAdmitted++
		}
	}
	if ideal {
		r.res.Ideal++
		r.res.IdealWaits += wait
	}
	if d.Allowed && r.Hold > 0 {
		r.res.Admitted++
	} else if d.Allowed {
		r.res.Admitted++
		r.res.Waits += d.Wait
		r.res.Excess = math.Max(r.res.Excess, r.envelop.charge(r.now, quota.Token))
	}
	switch {
	case d.Allowed && !ideal:
		r.res.Over++
	case !d.Allowed && ideal:
		r.res.Under++
	}
}
