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
	req   [1]quota.Request
	out   [1]quota.Decision
	asked []asked
	began quota.Time // by the node's clock
}

// wanted is a caller's request at a node.
type wanted struct {
	key    string
	cost   int64
	charge bool          // the tokens have been used: book them
	back   int64         // tokens that it gives back if it is admitted
	after  time.Duration // from the admission until then
}

// parked is a check that waits for a grant.
type parked struct {
	wanted
	until quota.Time
}

// asked is when a leader admitted the cost in one tier of the limit.
type asked struct {
	tier int // from 1
	at   quota.Time
	held quota.Units // part of the cost that the node spends of its own tokens, when the answer arrives
}

// request plays a request at a node. A dead node ignores it; a paused one gets it when it resumes.
func (r *run) request(n *node, w wanted) {
	switch {
	case n.dead:
	case n.paused:
		r.step(event{at: r.now, to: n, inc: n.inc, what: request, f: func() { r.play(n, w) }})
	default:
		r.play(n, w)
	}
}

func (r *run) play(n *node, w wanted) {
	if r.baseline != nil {
		if w.cost == 0 {
			return
		}
		r.count(n, w.key, w.cost, r.baseline.decide(n, w.key, quota.FromTokens(w.cost)), nil)
		return
	}
	n.rouse()
	if w.charge {
		r.chargeUse(n.agg, n.clock, n.limits, w.key, w.cost)
		delete(n.seen, w.key)
		r.pump(n)
		return
	}
	c := r.newCall(w.key, w.cost)
	c.began = n.clock()
	r.decide(n, c)
	r.conclude(n, parked{wanted: w}, c)
}

// conclude finishes a request unless the decision needs a grant, for which it may wait, or the leader.
func (r *run) conclude(n *node, p parked, c *call) {
	switch {
	case c.Need == aggregator.Leader:
		r.ask(n, p, c)
		return
	case c.Need == aggregator.Grant && r.Hop > 0 && len(c.asked) == 0 && r.now < p.until:
		n.parked = append(n.parked, p)
		r.free(c)
		return
	case c.Need == aggregator.Grant && r.Hop > 0 && len(c.asked) == 0 && p.until == 0:
		p.until = r.now.Add(r.Hop)
		n.parked = append(n.parked, p)
		r.onNode(p.until, n, timer, func() { r.unpark(n) })
		r.free(c)
		return
	case c.Need == aggregator.Grant:
		c.Final = true
		r.decide(n, c)
		r.conclude(n, p, c) // without a first grant, the leader is asked
		return
	}
	if len(r.tiers) == 1 && c.out[0].Allowed && c.out[0].Why == quota.WhyLeader {
		r.asking -= quota.FromTokens(p.cost)
	}
	var taken *aggregator.Taken
	if c.out[0].Allowed && p.back > 0 {
		taken = c.Taken(c.began)
	}
	r.free(c)
	r.finish(n, p.wanted, c.out[0], c.asked, taken)
}

// unpark decides a node's waiting checks again.
func (r *run) unpark(n *node) {
	waiting := n.parked
	n.parked = nil
	for _, p := range waiting {
		c := r.newCall(p.key, p.cost)
		c.Final, c.began = r.now >= p.until, n.clock()
		r.decide(n, c)
		r.conclude(n, p, c)
	}
}

// finish counts a decision and schedules the release of what was acquired, or the refund of what the caller
// gives back.
func (r *run) finish(n *node, w wanted, d quota.Decision, by []asked, taken *aggregator.Taken) {
	key, cost := w.key, w.cost
	if cost == 0 {
		r.looked(n, key, &d)
		return
	}
	if d.Allowed {
		delete(n.seen, key)
	}
	if len(by) > 0 && d.Why != quota.WhyLeader && d.Why != quota.WhyReserved { // the answer came after the limit was switched
		r.tally(key).unsure = true
		if len(r.tiers) == 1 { // a grant decided
			by = nil
		}
	}
	ideal := r.count(n, key, cost, d, by)
	if taken != nil {
		back := r.givesBack(w, ideal, by, taken)
		inc := n.inc
		r.after(w.after, func() {
			r.step(event{at: r.now, to: n, inc: inc, what: message, f: func() {
				n.rouse()
				back(n.agg, n.clock)
				delete(n.seen, w.key)
				r.pump(n)
			}})
		})
	}
	if r.Hold == 0 || !d.Allowed {
		return
	}
	t := r.tally(key)
	burst := float64(r.tiers[0].Burst)
	t.beyond = min(t.beyond, max(0, t.inFlight-burst))
	t.inFlight += float64(cost)
	r.res.Excess = math.Max(r.res.Excess, t.inFlight-burst-t.beyond)
	inc := n.inc
	r.after(r.hold(r.rng), func() {
		t.inFlight -= float64(cost) // the work of a dead node ends too
		r.step(event{at: r.now, to: n, inc: inc, what: message, f: func() {
			n.agg.Release(n.clock, r.Limit.LimitName, key, cost, nil)
			r.pump(n)
		}})
	})
}

func (r *run) newCall(key string, cost int64) *call {
	c := r.call
	r.call = nil
	if c == nil {
		c = &call{}
	}
	c.req[0] = quota.Request{Key: r.key(key), Cost: cost, MaxWait: quota.LimitsWait}
	c.Reset(c.req[:], c.out[:])
	c.Acquires, c.asked = r.Hold > 0, nil
	return c
}

func (r *run) free(c *call) { r.call = c }

func (r *run) key(k string) quota.Key { return quota.Key{LimitName: r.Limit.LimitName, Key: k} }

func (r *run) decide(n *node, c *call) {
	n.agg.Decide(n.clock, &c.Call)
	if n.agg.Urgent() || n.wakeAt == 0 {
		r.pump(n)
	}
}

// askWait is how long a node waits for the leader's answer, as cluster.DefaultAskWait.
const askWait = 200 * time.Millisecond

// ask sends a decide request to the leader that the node knows. Without an answer in time the node
// decides alone.
func (r *run) ask(n *node, p parked, c *call) {
	done, q := false, c.Ask
	finish := func(f func()) {
		if done {
			return
		}
		done = true
		f()
		r.decide(n, c)
		r.conclude(n, p, c)
	}
	r.res.Asked++
	r.asking += q.Cost
	if _, term := n.agg.Leader(0); term > 0 {
		lead, inc, first := r.terms[term-1].node, n.inc, quota.Time(0)
		r.send(n, lead, func() {
			s := r.leadershipOf(term)
			if s == nil {
				return
			}
			tell := func(a quota.Answer) {
				if first == 0 { // a question that comes again gets the same answer
					if first = r.now; a.Allowed {
						r.tally(q.Key.Key).backing.Charge(r.now, q.Booked())
						r.admitting = append(r.admitting, first)
					}
				}
				if n.runs(inc) {
					r.once(lead, n, func() {
						finish(func() {
							if !a.Allowed {
								r.asking -= q.Cost
							}
							n.heard++
							c.Answer(a)
							if a.Allowed {
								_, tier := q.Key.LimitName.Base()
								c.asked = append(c.asked, asked{tier, first, q.Held})
							}
						})
					})
				}
			}
			if r.PerEntry == 0 {
				r.answer(s, q, tell)
			} else {
				r.line(s, 1, func(s *leadership) { r.answer(s, q, tell) })
			}
		})
	}
	r.onNode(r.now.Add(askWait), n, timer, func() {
		finish(func() {
			n.agg.Cancel(n.clock, q)
			r.tally(q.Key.Key).unsure = true
			c.Alone = true
			r.res.Alone++
		})
	})
}

// keepAnswered records when an admission was decided in each tier: now, or earlier by a leader. The time
// until the caller receives the answer varies.
func (r *run) keepAnswered(key string, cost quota.Units, by []asked) {
	if !r.mayAsk {
		return
	}
	for i := range r.tiers {
		at, held := r.now, quota.Units(0)
		if k := slices.IndexFunc(by, func(a asked) bool { return a.tier == i+1 }); k >= 0 {
			at, held = by[k].at, by[k].held
		}
		r.answered = append(r.answered, answered{at: at, key: key, cost: cost - held, tier: i})
		if held > 0 {
			r.answered = append(r.answered, answered{at: r.now, key: key, cost: held, tier: i})
		}
	}
}

// answered is an admission whose caller has received the answer, in one tier; or, of these, another change
// of that tier's envelope.
type answered struct {
	at     quota.Time
	key    string
	tier   int
	cost   quota.Units
	refund bool        // cost came back, which was taken at takenAt
	reset  bool        // the tier is full
	size   *quota.Tier // the tier is another one from now on
	// takenAt is when a leader or a node admitted what came back.
	takenAt quota.Time
}

// answeredExcess returns the excess by the time when admissions were decided: of all tiers, and of
// windows only.
func (r *run) answeredExcess() (most, window float64) {
	type meter struct {
		key  string
		tier int
	}
	// A process that was paused does many things at one moment. What it decided before it learned of a change comes first.
	last := func(a answered) int {
		if a.size != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(r.answered, func(x, y answered) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(last(x), last(y))) })
	meters, tiers := map[meter]*Envelope{}, r.Limit.Tiers()
	for _, a := range r.answered {
		k := meter{a.key, a.tier}
		if a.size != nil {
			tiers[a.tier] = *a.size
		}
		if meters[k] == nil && (a.size != nil || a.reset) {
			continue // it is full until its first use
		}
		if meters[k] == nil {
			e := NewEnvelope([]quota.Tier{tiers[a.tier]}, a.at)
			meters[k] = &e
		}
		switch e := meters[k]; {
		case a.size != nil:
			e.Retier(a.at, []quota.Tier{*a.size}, r.forgives())
		case a.reset:
			e.Reset(a.at)
		case a.refund:
			e.Refund(a.at, a.cost, []quota.Time{a.takenAt})
		default:
			all, ended := e.Charge(a.at, a.cost)
			most, window = max(most, inTokens(all)), max(window, inTokens(ended))
		}
	}
	return most, window
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
