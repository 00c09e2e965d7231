package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// call is a decision in progress.
type call struct {
	aggregator.Call
	req [1]quota.Request
	out [1]quota.Decision
}

// parked is a check that waits for a grant.
type parked struct {
	until quota.Time
	key   string
	cost  int64
}

// request plays a request at a node. A dead node ignores it; a paused one gets it when it resumes.
func (r *run) request(n *node, key string, cost int64) {
	switch {
	case n.dead:
	case n.paused:
		r.step(event{at: r.now, to: n, life: n.life, what: request, f: func() { r.play(n, key, cost) }})
	default:
		r.play(n, key, cost)
	}
}

func (r *run) play(n *node, key string, cost int64) {
	if r.baseline != nil {
		r.count(n, key, cost, r.baseline.decide(n, key, quota.FromTokens(cost)))
		return
	}
	n.rouse()
	if d, done := r.check(n, parked{key: key, cost: cost}, r.Hop > 0); done {
		r.finish(n, key, cost, d)
	}
}

// finish counts a decision and schedules the release of what was acquired.
func (r *run) finish(n *node, key string, cost int64, d quota.Decision) {
	r.count(n, key, cost, d)
	if r.Hold == 0 || !d.Allowed {
		return
	}
	t := r.tally(key)
	t.inFlight += float64(cost)
	r.res.Excess = math.Max(r.res.Excess, t.inFlight-float64(r.Limit.Burst))
	life := n.life
	r.after(r.hold(r.rng), func() {
		t.inFlight -= float64(cost) // the work of a dead node ends too
		r.step(event{at: r.now, to: n, life: life, what: message, f: func() {
			n.agg.Release(n.clock, r.Limit.LimitName, key, cost)
			r.pump(n)
		}})
	})
}

// check decides a request at node n unless it has to wait: for a grant, if it may, or for the
// leader.
func (r *run) check(n *node, p parked, waits bool) (d quota.Decision, done bool) {
	c := r.newCall(p)
	r.decide(n, c)
	switch {
	case c.Need == aggregator.Leader:
		r.ask(n, p, c)
		return quota.Decision{}, false
	case c.Need == aggregator.Grant && waits:
		p.until = r.now.Add(r.Hop)
		n.parked = append(n.parked, p)
		r.onNode(p.until, n, timer, func() { r.unpark(n) })
		r.free(c)
		return quota.Decision{}, false
	case c.Need == aggregator.Grant:
		c.Final = true
		r.decide(n, c)
	}
	r.free(c)
	return c.out[0], true
}

func (r *run) newCall(p parked) *call {
	c := r.call
	r.call = nil
	if c == nil {
		c = &call{}
	}
	c.req[0] = quota.Request{Key: r.key(p.key), Cost: p.cost, MaxWait: quota.LimitsWait}
	c.Reset(c.req[:], c.out[:])
	c.Acquires = r.Hold > 0
	return c
}

func (r *run) free(c *call) { r.call = c }

func (r *run) key(k string) quota.Key { return quota.Key{LimitName: r.Limit.LimitName, Key: k} }

func (r *run) decide(n *node, c *call) {
	n.agg.Decide(n.clock, &c.Call)
	if n.agg.Urgent() {
		r.pump(n)
	}
}

// askWait is how long a node waits for the leader's answer.
const askWait = 100 * time.Millisecond

// ask sends a decide request to the leader that the node knows. Without an answer in time the node
// decides alone.
func (r *run) ask(n *node, p parked, c *call) {
	done := false
	finish := func(f func()) {
		if done {
			return
		}
		done = true
		f()
		c.Final = true
		r.decide(n, c)
		r.count(n, p.key, p.cost, c.out[0])
	}
	r.res.Asked++
	if _, term := n.agg.Leader(0); term > 0 {
		lead, life, first := r.terms[term-1].node, n.life, quota.Time(0)
		r.send(n, lead, func() {
			s := r.leadershipOf(term)
			if s == nil {
				return
			}
			r.answer(s, c.Ask, func(a quota.Answer) {
				if first == 0 { // a question that comes again gets the same answer
					first = r.now
				}
				if n.life == life {
					r.once(lead, n, func() {
						finish(func() {
							c.Answer(a)
							r.keepAnswered(first, p, &a)
						})
					})
				}
			})
		})
	}
	r.onNode(r.now.Add(askWait), n, timer, func() {
		finish(func() {
			n.agg.Abandon(n.clock, c.Ask)
			c.Alone = true
			r.res.Alone++
		})
	})
}

// keepAnswered records when the leader made a decision: the time until the caller is told varies.
func (r *run) keepAnswered(at quota.Time, p parked, a *quota.Answer) {
	if r.Check && a.Allowed {
		r.answered = append(r.answered, answered{at, p.key, quota.FromTokens(p.cost)})
	}
}

// answered is an admission by a leader that its caller was told of.
type answered struct {
	at   quota.Time
	key  string
	cost quota.Units
}

// answeredExcess returns the excess of the leaders' decisions, by the time when they were made.
func (r *run) answeredExcess() float64 {
	slices.SortStableFunc(r.answered, func(x, y answered) int { return cmp.Compare(x.at, y.at) })
	most, keys := 0.0, map[string]*envelope{}
	for _, a := range r.answered {
		if keys[a.key] == nil {
			e := newEnvelope(r.tiers, a.at)
			keys[a.key] = &e
		}
		all, _ := keys[a.key].charge(a.at, a.cost)
		most = math.Max(most, all)
	}
	return most
}

// answer answers a decide request, or repeats it after the commit that it waits for. If that never
// happens, there is no answer.
func (r *run) answer(s *leadership, q quota.Ask, tell func(quota.Answer)) {
	a := s.ledger.Ask(s.node.clock(), []quota.Ask{q})[0]
	r.prove(s, nil, q.Key)
	if !a.Unsaved {
		tell(a)
		return
	}
	if len(s.asking) < maxAsking {
		s.asking = append(s.asking, func(s *leadership) { r.answer(s, q, tell) })
	}
	r.commitWanted(s)
}

// maxAsking bounds the requests that wait for a commit, as in a real node.
const maxAsking = 4096

// unpark decides a node's waiting checks again.
func (r *run) unpark(n *node) {
	waiting := n.parked
	n.parked = nil
	for _, p := range waiting {
		if d, done := r.again(n, p); done {
			r.finish(n, p.key, p.cost, d)
		}
	}
}

// again decides a waiting check again.
func (r *run) again(n *node, p parked) (quota.Decision, bool) {
	c := r.newCall(p)
	c.Final = r.now >= p.until
	r.decide(n, c)
	defer r.free(c)
	if c.Need == aggregator.Grant {
		n.parked = append(n.parked, p)
		return quota.Decision{}, false
	}
	return c.out[0], true
}
