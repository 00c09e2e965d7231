package dataplane

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Batch returns a function that decides independent calls, each as Decide does, in order. Those that need a leader wait
// for it together, at most Config.AskWait in all; one leader's answer may then come after that of another, or after a
// later call that needs none. Of calls with equal requests, the first ones are admitted. A leader decides up to
// replica.MaxDecide calls of one limit each in order. Once a leader does not answer, the function decides other calls of
// its ranges without asking it, also when it is called again; and once a grant does not come, without waiting for grants.
// It is safe for concurrent use.
func (d *Decider) Batch() func(calls []quota.Call) {
	silent := new(sync.Map)
	return func(calls []quota.Call) { d.decideAll(silent, calls) }
}

func (d *Decider) decideAll(silent *sync.Map, calls []quota.Call) {
	var w *wait
	var open []*pooled
	for i := range calls {
		c := &calls[i]
		if len(c.Requests) == 0 {
			c.Allowed = true
			continue
		}
		if !c.Refund {
			if held, ok := d.tryHeld(c.Requests); ok {
				c.Out[0], c.Allowed = held, true
				continue
			}
		}
		p := callPool.Get().(*pooled)
		p.Reset(c.Requests, c.Out)
		if p.call = c; c.Refund {
			d.beginRefund(p, &c.Requests[0])
		} else {
			d.decideHere(p)
		}
		if p.Need != aggregator.Nothing {
			if w == nil {
				w = d.newWait(silent, len(calls))
			}
			w.advance(p, false)
		}
		open = append(open, p)
	}
	if w != nil {
		w.send(false)
		w.complete(open...)
	}
	for _, p := range open {
		if !p.call.Refund {
			d.publish(p.Requests, p.Out)
		}
		p.call.Allowed, p.call, p.back = p.allowed, nil, 0
		callPool.Put(p)
	}
	if w != nil {
		admitFirst(calls)
	}
}

// admitFirst exchanges the decisions of calls with equal requests, so that the admitted ones come first: a later call may
// have found the grant for which an earlier one waited.
func admitFirst(calls []quota.Call) {
	refused := map[quota.Request][]*quota.Call{} // by their first request, in order
	for i := range calls {
		c := &calls[i]
		if c.Refund { // calls before it did not find what it gave back
			clear(refused)
		}
		if c.Refund || len(c.Requests) == 0 {
			continue
		}
		same := refused[c.Requests[0]]
		if c.Allowed && !slices.ContainsFunc(c.Out, func(d quota.Decision) bool { return d.Shadow }) {
			at := slices.IndexFunc(same, func(r *quota.Call) bool { return slices.Equal(r.Requests, c.Requests) })
			if at < 0 {
				continue
			}
			first := same[at]
			first.Allowed, c.Allowed = c.Allowed, first.Allowed
			for j := range c.Out {
				first.Out[j], c.Out[j] = c.Out[j], first.Out[j]
			}
			same = slices.Delete(same, at, at+1)
		}
		refused[c.Requests[0]] = append(same, c)
	}
}

// wait is the wait of one caller for the grants and leaders' answers that its calls need. What a leader does not decide
// in time is decided by what this node knows.
type wait struct {
	*Decider
	began    quota.Time
	until    quota.Time                         // no leader's answer is awaited after this
	silent   *sync.Map                          // silence of leaders that earlier calls noticed; nil: none
	calls    int                                // at most
	unsent   map[quota.RangeID][]*decideRequest // until send
	answered chan *decideRequest
	asked    int // calls that wait for an answer
}

// newWait begins the wait of calls. All that they wait is at most Config.AskWait; with a long Config.GrantWait, it is at
// most that and half of Config.AskWait.
func (d *Decider) newWait(silent *sync.Map, calls int) *wait {
	now := d.now()
	return &wait{Decider: d, began: now, until: now.Add(max(d.cfg.AskWait, d.cfg.GrantWait+d.cfg.AskWait/2)), silent: silent, calls: calls}
}

// complete waits until the calls are decided.
func (w *wait) complete(calls ...*pooled) {
	for _, c := range calls {
		w.advance(c, true)
		w.send(true)
	}
	if w.asked == 0 {
		return
	}
	left := w.left()
	w.until = w.now().Add(left)
	timer := time.NewTimer(left)
	defer timer.Stop()
	for ended := false; w.asked > 0; {
		if !ended {
			select {
			case req := <-w.answered:
				w.proceed(req)
				continue
			case <-timer.C:
			case <-w.ctx.Done():
			}
			ended, w.until = true, w.now()
		}
		select {
		case req := <-w.answered: // it came while another call awaited a grant
			w.proceed(req)
			continue
		default:
		}
		for _, c := range calls {
			if c.asked != nil {
				w.settle(c, quota.Answer{}, w.withdraw(c.asked))
				w.advance(c, true)
			}
		}
	}
}

// proceed continues with a call whose request was answered.
func (w *wait) proceed(req *decideRequest) {
	w.settle(req.call, req.answer, req.err)
	w.advance(req.call, true)
	w.send(true)
}

// left returns how long a call may still wait for a leader's answer.
func (w *wait) left() time.Duration { return min(w.cfg.AskWait, w.until.Sub(w.now())) }

// advance continues with a call until it is decided or waits for a leader's answer; unless awaitsGrants is set, also
// until it needs a grant.
func (w *wait) advance(c *pooled, awaitsGrants bool) {
	for c.asked == nil && c.Need != aggregator.Nothing {
		if c.Need == aggregator.Leader {
			w.ask(c)
			continue
		}
		if !awaitsGrants {
			return
		}
		most, no := w.cfg.GrantWait, w.silence(shard.Of(c.Key, w.cfg.Ranges), true)
		if c.FirstGrant { // in place of the leader's answer, for which half of the time is left
			most = max(most, w.cfg.AskWait/2)
		}
		start := w.now()
		left := most - start.Sub(w.began)
		if w.noticed(no) {
			left = 0
		}
		if c.allowed = w.waiters.Await(w.ctx, w.agg, w.now, &c.Call, left, w.Wake); c.Final {
			w.stats.waitTimeouts.Inc()
			w.notice(no, left > 0 && w.now().Sub(start) >= most/2)
		}
	}
}

// ask asks the leader that a call needs: at once if that is this node and can decide now, or else with the next send.
func (w *wait) ask(c *pooled) {
	w.stats.asked.Inc()
	r := shard.Of(c.Ask.Key, w.cfg.Ranges)
	if len(w.unsent[r]) == 0 { // this call does not overtake an earlier one
		if a, ok := w.askHere(&c.Ask); ok {
			w.settle(c, a, nil)
			return
		}
	}
	no := w.silence(r, false)
	if w.left() <= 0 || w.noticed(no) {
		w.settle(c, quota.Answer{}, errNotAsked)
		return
	}
	if w.unsent == nil {
		w.unsent, w.answered = map[quota.RangeID][]*decideRequest{}, make(chan *decideRequest, w.calls)
	}
	c.asked = &decideRequest{ask: c.Ask, call: c, at: w.now(), no: no, answered: w.answered}
	w.unsent[r] = append(w.unsent[r], c.asked)
	w.asked++
}

// send sends the requests of ask. A call that finds no slot in the queue continues as after advance, without an answer;
// that says nothing of the leader.
func (w *wait) send(awaitsGrants bool) {
	for len(w.unsent) > 0 {
		for r, reqs := range w.unsent {
			delete(w.unsent, r)
			for _, req := range reqs[w.enqueue(r, reqs):] {
				w.settle(req.call, quota.Answer{}, errNotAsked)
				w.advance(req.call, awaitsGrants)
			}
		}
	}
}

// settle continues with a call after the leader's answer, or without it.
func (w *wait) settle(c *pooled, a quota.Answer, err error) {
	if c.asked != nil {
		// After less than half of the time, a missing answer does not prove that the leader is silent.
		w.notice(c.asked.no, err != nil && w.now().Sub(c.asked.at) >= w.cfg.AskWait/2)
		c.asked = nil
		w.asked--
	}
	cancelled := false
	if err != nil {
		if errors.Is(err, errNoAnswer) {
			cancelled = w.agg.Cancel(w.now, c.Ask)
			w.Wake()
		}
		c.Alone = true
		w.stats.unasked.Inc()
	}
	switch {
	case c.back > 0:
		w.settleRefund(c, a, err, cancelled)
		return
	case err == nil:
		c.Answer(a)
	}
	c.allowed = w.agg.Decide(w.now, &c.Call)
}

// silence is a leader's silence: it did not answer a request, or its grant did not come.
type silence struct {
	leader quota.NodeID
	grant  bool
}

// silence returns the silence that the leader of a range may keep.
func (w *wait) silence(r quota.RangeID, grant bool) silence { return silence{w.node.Leader(r), grant} }

// notice notes a leader's silence for the later calls of the batch, if it is proven.
func (w *wait) notice(s silence, proven bool) {
	if w.silent != nil && proven {
		w.silent.Store(s, true)
	}
}

// noticed reports whether an earlier call of the batch has noticed the silence.
func (w *wait) noticed(s silence) bool {
	if w.silent == nil {
		return false
	}
	_, is := w.silent.Load(s)
	return is
}
