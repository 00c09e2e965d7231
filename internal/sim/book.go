package sim

import (
	"maps"
	"math"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// book compares decisions with the ideal, key by key.
type book struct {
	tiers []quota.Tier
	keys  map[string]*tally
	prune int // size at which full buckets are dropped
	burst float64

	above        []Envelope // of the parents, each of which has one key and one tier
	parentExcess float64    // the worst of all parents
}

// tally is the ideal and the envelope of one key.
type tally struct {
	ideal    Ideal
	envelop  Envelope // knows of an admission when its caller does
	backing  Envelope // as envelop, but of what a leader admits when it does; with Check, of limits that may ask
	unsure   bool     // an answer was lost, or came late: backing counts what nobody admitted
	inFlight float64
	beyond   float64 // part of inFlight that a cut limit leaves over, if r.forgives
}

// minTallies is the number of keys below which nothing is pruned.
const minTallies = 1 << 16

func (b *book) init(r *run) {
	b.tiers = r.Limit.Tiers()
	b.keys = map[string]*tally{}
	for i := range r.parents {
		b.above = append(b.above, NewEnvelope(r.parents[i].Tiers(), r.Start))
	}
	b.prune = minTallies
	b.burst = math.Max(1, float64(r.Limit.Burst))
	r.res.PerNode = make([]int64, r.Nodes)
	seconds := r.Duration.Seconds()
	r.res.Each = time.Second * time.Duration(max(1, math.Ceil(seconds/MaxSeries)))
}

// tally returns the tally of a key, and creates a full one for a new key.
func (r *run) tally(key string) *tally {
	t := r.book.keys[key]
	if t != nil {
		return t
	}
	if len(r.book.keys) >= r.book.prune {
		r.forget()
	}
	newest := r.newestLimit()
	t = &tally{ideal: NewIdeal(newest, newest.Tiers(), r.now), envelop: NewEnvelope(r.tiers, r.now), backing: NewEnvelope(r.tiers, r.now)}
	r.book.keys[key] = t
	return t
}

// forget drops keys in their initial state: full buckets. Windows remember what was before them.
func (r *run) forget() {
	maps.DeleteFunc(r.book.keys, func(_ string, t *tally) bool {
		return len(r.tiers) == 1 && r.tiers[0].Kind == quota.TokenBucket && t.full(r.now)
	})
	r.book.prune = max(minTallies, 2*len(r.book.keys))
}

func (t *tally) full(now quota.Time) bool {
	for _, m := range []*limiter.Meter{&t.ideal.meters[0], &t.envelop.meters[0]} {
		m.Advance(now, &t.ideal.tiers[0])
		if m.Level() < t.ideal.tiers[0].BurstUnits() {
			return false
		}
	}
	return true
}

// hold draws how long an acquisition is held.
func (r *run) hold(rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(r.Hold))
}

// count compares a decision with the ideal and the envelope. It reports whether the ideal admits.
func (r *run) count(n *node, key string, tokens int64, d quota.Decision, by []asked) (admits bool) {
	t, cost := r.tally(key), quota.FromTokens(tokens)
	admits, wait := t.ideal.Take(r.now, cost)
	if admits && r.Hold > 0 {
		r.after(r.hold(r.rng), func() { t.ideal.meters[0].Add(cost) })
	}
	if !d.Allowed && admits && r.Hold == 0 && t.envelop.covers(r.now, cost) {
		r.res.WrongRefusals += tokens
	}
	if d.Allowed {
		delete(n.seen, key)
		r.res.PerNode[n.i] += tokens
		r.charge(t, cost, d)
		if len(by) == 0 {
			t.backing.Charge(r.now, cost)
		} else if by[0].held > 0 {
			t.backing.Charge(r.now, by[0].held)
		}
		r.keepAnswered(key, cost, by)
	}
	r.add(tokens, d.Allowed, admits)
	if admits {
		r.res.IdealWaits += wait
	}
	if r.Decided != nil {
		r.Decided(r.since(), n.i+1, key, d, admits)
	}
	return admits
}

// charge books an admission on the envelope.
func (r *run) charge(t *tally, cost quota.Units, d quota.Decision) {
	if r.Hold > 0 {
		return // what is in flight is counted by finish
	}
	r.res.Waits += d.Wait
	all, window := t.envelop.Charge(r.now, cost)
	r.res.Excess = max(r.res.Excess, inTokens(all))
	r.res.WorstWindow = max(r.res.WorstWindow, inTokens(window))
	for i := range r.above {
		all, _ := r.above[i].Charge(r.now, cost)
		r.parentExcess = max(r.parentExcess, inTokens(all))
	}
}

func (r *run) add(tokens int64, admitted, ideal bool) {
	at := int(r.since() / r.res.Each)
	for len(r.res.Series) <= at && len(r.res.Series) < MaxSeries {
		r.res.Series = append(r.res.Series, Second{})
	}
	s := &r.res.Series[min(at, len(r.res.Series)-1)]
	s.Attempted += tokens
	r.res.Attempted += tokens
	if r.killed > 0 {
		r.res.OutageAttempted += tokens
	}
	if ideal {
		s.Ideal += tokens
		r.res.Ideal += tokens
	}
	if admitted {
		s.Admitted += tokens
		r.res.Admitted += tokens
		if r.killed > 0 {
			r.res.OutageAdmitted += tokens
		}
	}
	switch {
	case admitted && !ideal:
		r.res.Over += tokens
	case !admitted && ideal:
		r.res.Under += tokens
	}
}

// end computes the totals.
func (r *run) end() {
	if r.mayAsk && r.Hold == 0 && r.baseline == nil {
		r.res.Excess, r.res.WorstWindow = r.answeredExcess()
	}
	r.res.ExcessBursts = r.res.Excess / r.burst
	r.res.NodeSeconds = float64(r.Nodes) * r.Duration.Seconds()
	r.res.Lost = r.res.Admitted + r.res.Charged - r.inBooks().Tokens()
}

// inBooks returns what leaders have booked as admitted, in all terms.
func (r *run) inBooks() quota.Units {
	var sum quota.Units
	for i := range r.terms {
		s := &r.terms[i]
		sum += s.booked + s.last
		if s.ledger != nil {
			sum += s.ledger.Booked(r.Limit.LimitName)
		}
	}
	return sum
}
