package sim

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	stated "github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Property is something that must hold in a scenario.
type Property string

// The properties, and when they are checked. [Judge] returns for each scenario which of them were.
const (
	NoPanic    Property = "no_panic"   // the code does not panic; always
	Invariants Property = "invariants" // the books of leaders are consistent after every step; always
	HardExact  Property = "hard_exact" // a hard ceiling is never exceeded, as far as leader/doc.go guarantees it
	SoftBound  Property = "soft_bound" // a soft limit is exceeded by at most what internal/bound states for the situation
	CountsOnce Property = "counts"     // admissions are booked exactly once: without faults, and for durable limits
	LearnsSoon Property = "learning"   // a leader's successor has learned within two sync intervals; after one death, without loss
	Monotone   Property = "monotone"   // while only time passes, a node never answers that less remains, or a later reset; see looks.go
	NoStarving Property = "starvation" // no node that can be served gets less than 30 % of its fair share for two seconds; see fair.go
)

// Properties returns all properties.
func Properties() []Property {
	return []Property{NoPanic, Invariants, HardExact, SoftBound, CountsOnce, LearnsSoon, Monotone, NoStarving}
}

// Breach is a property that did not hold.
type Breach struct {
	Property Property `json:"property"`
	What     string   `json:"what"`
}

// Verdict is the outcome of a scenario.
type Verdict struct {
	Result
	Terms  int        // number of leaders
	Asked  []Property // properties that were checked
	Broken []Breach
	// Most is the excess, in tokens, that HardExact or SoftBound allowed; 0 if neither was checked.
	Most float64
	// Judged is the excess that was compared with Most. For decisions of the leader it is measured
	// at the time of the decision.
	Judged float64
}

// Exact is the excess, in tokens, that is attributed to rounding.
const Exact = 0.01

// Judge plays a scenario to its end and checks the properties that apply to its limit and its
// faults. It never panics.
func Judge(s Scenario) (v Verdict) {
	v.Asked = []Property{NoPanic}
	defer func() {
		if p := recover(); p != nil {
			v.Broken = append(v.Broken, Breach{NoPanic, fmt.Sprintf("%v\n%s", p, debug.Stack())})
		}
	}()
	w := &watch{}
	s.Decided = w.decided
	r := newRun(s)
	w.run = r
	r.start()
	w.play()
	r.end()
	v.Result, v.Terms = r.res, len(r.terms)
	j := judge{run: r, Verdict: &v}
	j.invariants()
	j.hard()
	j.soft()
	j.counts()
	j.learning()
	j.monotone()
	j.starving(w)
	return v
}

// judge is a verdict in progress.
type judge struct {
	*run
	*Verdict
}

// holds records that a property was checked, and whether it was broken.
func (j *judge) holds(p Property, ok bool, format string, args ...any) {
	j.Asked = append(j.Asked, p)
	if !ok {
		j.Broken = append(j.Broken, Breach{p, fmt.Sprintf(format, args...)})
	}
}

func (j *judge) invariants() {
	j.holds(Invariants, len(j.res.Violations) == 0, "%q", j.res.Violations)
}

// harmed returns the number of faults by which nodes or messages are lost.
func (j *judge) harmed() (count int) {
	for i := range j.Faults {
		if !j.Faults[i].Kind.harmless() {
			count++
		}
	}
	return count
}

// set returns by how much the clocks of two nodes can differ at most because they were set.
func (j *judge) set() (most time.Duration) {
	for i := range j.Faults {
		if f := &j.Faults[i]; f.Kind == Clock {
			most += f.Delay.Abs()
		}
	}
	return most
}

// comparable reports whether the excess is meaningful. A periodic window begins with the first use
// that a leader learns of, and other windows follow its clock, so they match the envelope's only if
// clocks agree.
func (j *judge) comparable() bool {
	for _, t := range j.tiers {
		if t.Kind == quota.PeriodicRefill || t.Kind == quota.SlidingWindow && j.slidesAnew() || t.Kind.Windowed() && (j.Skew > 0 || j.Drift > 0 || j.set() > 0) {
			return false
		}
	}
	return true
}

// slidesAnew reports whether a sliding window gets another period: then what it returns depends on the moment.
func (j *judge) slidesAnew() bool {
	for _, tiers := range j.sizes() {
		for i := range tiers {
			if tiers[i].Rate.Per != j.Limit.Tiers()[i].Rate.Per && tiers[i].Kind == quota.SlidingWindow {
				return true
			}
		}
	}
	return false
}

// hard requires an excess of zero, where that is guaranteed: see the end of "Why hard is exact" in
// leader/doc.go.
func (j *judge) hard() {
	switch l := &j.Limit; {
	case l.Ceiling != quota.Hard || !j.comparable():
	case l.Kind == quota.Concurrency && j.harmed() > 0: // what is in flight dies with its node
	default:
		most, excess := max(Exact, float64(j.largest)*1e-9), j.res.Excess
		if j.Skew < time.Hour { // of each change, what the leaders' clocks differ by beyond what they may
			most += j.perSecond() * max(0, max(0, j.Skew)+j.set()-leader.MaxOffset).Seconds() * float64(len(j.terms)-1)
		}
		most += j.perSecond()*j.fast().Seconds() + float64(j.regained)
		j.Most, j.Judged = most, excess
		j.holds(HardExact, excess < most, "%.3f tokens beyond the ceiling in %d terms, at most %.2f", excess, len(j.terms), most)
	}
}

// fast returns how much the fastest clock has gained: members accrue by theirs, leaders decide by theirs.
func (j *judge) fast() (most time.Duration) {
	for _, n := range j.nodes {
		most = max(most, time.Duration(n.gained(quota.Time(j.Duration))))
	}
	return most + min(j.set(), j.Duration*steer/1e6)
}

// perSecond returns the highest rate of the limit.
func (r *run) perSecond() float64 { return inTokens(r.rate) }

func rateOf(l *quota.Limit) float64 { return float64(l.Rate.PerSecond()) / float64(quota.Token) }

// bunched returns the largest number of tokens by which the admissions that callers receive in
// an interval may exceed those that the leader decided in it, because of delays and of its
// clock: the leader's decisions are exact by its own clock.
func (j *judge) bunched() float64 {
	return j.perSecond() * (j.spread() + j.fast()).Seconds()
}

// spread returns the largest difference between the durations of two decide requests.
func (j *judge) spread() time.Duration {
	d := j.varies()
	if j.Near { // the leader's own node receives it at once
		d += j.Delay
	}
	d += j.waited
	return min(2*d, askWait)
}

// varies returns the largest difference between the delays of two messages.
func (s *Scenario) varies() time.Duration {
	d := s.Jitter
	if s.Reorder > 0 {
		d += reorderedBy * s.Delay
	}
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Kind == Slow {
			d += 2 * f.Delay
		}
	}
	return d
}

// soft requires an excess within the stated bound of the situation, of the tier and the version of the limit
// with the highest bound. A client that waits in vain for its first grant may use an equal part of the limit, instead
// of half of it, and in any case one request. What members use until their next reports counts as use before a reset: the tokens that they
// hold, at most a burst, and what they overdraw, at most the bound.
func (j *judge) soft() {
	if j.Limit.Ceiling != quota.Soft || !j.comparable() {
		return
	}
	c := stated.Cluster{
		Nodes: j.Nodes, Clients: j.Clients, Delay: j.Delay + j.spread() + j.waited, Sync: j.Sync, Lease: lease, Election: j.Election, CutOff: j.Duration,
	}
	name, times := j.situation(), 1.0
	if name == stated.CutOff { // it is of one process
		times = float64(j.processes() + j.Clients)
	}
	top := 0.0
	for _, l := range j.modes() {
		for _, t := range l.Tiers() {
			l.SetFirst(t)
			for _, b := range stated.Of(&l, c) {
				if b.Name == name {
					top = max(top, times*b.Worst)
				}
			}
		}
	}
	worst := max(top, Exact) + float64(j.resets)*(top+float64(j.largest)) + float64(j.regained)
	if j.mayAsk {
		worst += j.bunched()
	}
	if j.Clients > 0 {
		worst += float64(j.largest)/2 + float64(int64(j.Clients)*j.dearest())
	}
	j.Most, j.Judged = worst, j.res.Excess
	j.holds(SoftBound, j.res.Excess <= worst, "%.2f tokens beyond the limit, %s: at most %.2f", j.res.Excess, name, worst)
}

// dearest returns the largest cost of a request, in tokens.
func (s *Scenario) dearest() (most int64) {
	for i := range s.Loads {
		most = max(most, s.Loads[i].Cost, 1)
	}
	return most
}

// processes returns how many processes there have been. A new process has no state, and is cut off
// until it learns of a leader.
func (j *judge) processes() int {
	n := j.Nodes
	for _, o := range j.nodes {
		n += max(0, int(o.inc)-1)
	}
	return n
}

// lease is the duration of a grant.
const lease = 3 * time.Second

// situation returns the name of the worst situation that occurred, as package bound calls it. With
// repeated loss of messages a node may be cut off. A decide request without an answer in time,
// because no leader is known yet, is decided as by a node that is cut off.
func (j *judge) situation() string {
	if j.asks && j.res.Alone > 0 {
		return stated.CutOff
	}
	deaths := 0
	for i := range j.Faults {
		switch f := &j.Faults[i]; {
		case f.Kind.harmless():
		case f.Kind == Move || (f.Kind == Kill || f.Kind == Stop) && f.For == 0:
			deaths++
		default:
			return stated.CutOff // also of a process that starts again
		}
	}
	switch {
	case j.Loss > 0 || j.Repeat > 0 || deaths > 1 || deaths == 1 && j.Nodes < 3:
		return stated.CutOff
	case deaths == 0:
		return stated.Surge
	}
	return stated.Failover
}

// quietFor returns how long the load has been over at the end.
func (j *judge) quietFor() time.Duration {
	last := time.Duration(0)
	for i := range j.Loads {
		to := j.Loads[i].To
		if j.Loads[i].Look {
			continue
		}
		if to == 0 {
			to = j.Duration
		}
		last = max(last, to+j.Loads[i].within)
	}
	for i := range j.Faults {
		f := &j.Faults[i]
		if f.For == 0 && f.Kind != Heal && f.Kind != Move && !f.Kind.harmless() {
			return 0 // it never ends
		}
		last = max(last, f.At+f.For)
	}
	return j.Duration - last
}

// counts requires that everything is booked once.
func (j *judge) counts() {
	if j.Limit.Kind == quota.Concurrency || j.Load != nil {
		return
	}
	quiet := j.quietFor()
	settled := quiet >= 10*time.Second+refundWithin
	switch {
	case !j.trusted():
	case j.waited > askWait: // it remembers the last answers only, and cannot take back older ones
	case len(j.terms) == 1 && j.harmed() == 0 && quiet >= settle:
		j.holds(CountsOnce, j.res.Lost == 0 || j.res.Lost < 0 && j.presumesUse(), "%d of %d admitted and %d charged tokens are not in the books", j.res.Lost, j.res.Admitted, j.res.Charged)
		if j.long() && settled {
			j.endured()
		}
	case j.Limit.Endures() && !(j.asks && j.Limit.Ceiling == quota.Hard) && settled && j.long():
		j.endured()
	}
}

// trusted reports whether nodes book all that clients use. Of use beyond allocations, they trust a debt of some bursts of the
// current limit (aggregator.Settlement): with one client at each node, two for each node and four more. The debt is no larger
// than the excess.
func (j *judge) trusted() bool {
	charged := slices.ContainsFunc(j.Loads, func(l Load) bool { return l.Charge })
	least := slices.MinFunc(j.tiers, func(a, b quota.Tier) int { return cmp.Compare(a.Burst, b.Burst) })
	return j.Clients == 0 || !j.varying && !charged && j.res.Excess <= float64(int64(2*j.Nodes+4)*least.Burst)
}

// long reports whether the limit's single window covers the whole run.
func (j *judge) long() bool {
	return !j.varying && j.resets == 0 && len(j.tiers) == 1 && j.Limit.Kind == quota.FixedWindow && j.Limit.Rate.Per >= time.Hour
}

// endured compares the counts of the newest leader with the answers that callers received.
func (j *judge) endured() {
	s := j.newest()
	if s.ledger == nil {
		j.holds(CountsOnce, false, "no leader at the end")
		return
	}
	k, _ := s.ledger.Key(s.node.clock(), j.key("k"))
	booked := j.Limit.Burst - k.Remaining
	told := j.res.Admitted + j.res.Charged - j.res.Refunded
	if (j.Limit.Ceiling == quota.Soft || j.res.Charged > 0) && told > j.Limit.Burst { // what remains is never below 0
		told = j.Limit.Burst
	}
	twice := j.Clients > 0 && j.harmed() > 0 // of what clients used and held when their node died, more may be booked
	j.holds(CountsOnce, booked == told || twice && booked > told, "%d counted in the end; %d were admitted, %d charged and %d given back", booked, j.res.Admitted, j.res.Charged, j.res.Refunded)
}

// learning requires that a successor has learned soon, if one leader died or stopped and nothing else went
// wrong.
func (j *judge) learning() {
	faults := slices.DeleteFunc(slices.Clone(j.Faults), func(f Fault) bool {
		return f.Kind == Resize || f.Kind == Override || f.Kind == Reset
	})
	if len(faults) != 1 || faults[0].Kind != Kill && faults[0].Kind != Stop || !faults[0].Leader || j.Loss > 0 || j.Nodes < 3 {
		return
	}
	if back := faults[0].For; back > 0 && back < j.Election+time.Second {
		return // it comes back in time, and is waited for
	}
	const entries = 128 // of a report, unless the scenario has another bound: then there is no jitter
	if j.Keys.Count > entries && (j.Jitter > 0 || j.Reorder > 0) {
		return // parts of a list may overtake each other, as on no connection, and then it is repeated
	}
	most := j.Election + 2*j.Sync + 4*(j.Delay+j.spread()+j.waited)
	j.holds(LearnsSoon, j.res.Learned <= most, "learned %v after the end, at most %v", j.res.Learned, most)
}

// monotone requires that looks at a node show no less, and no later reset, while only time passes. Of
// several tiers an answer describes the one with the least; a node that is cut off knows no level. A change of the
// limit or a reset may change what remains.
func (j *judge) monotone() {
	if j.looks > 0 && j.Clients == 0 && !j.varying && j.resets == 0 && len(j.tiers) == 1 && j.harmed() == 0 && j.Loss == 0 && j.set() == 0 {
		j.holds(Monotone, len(j.swings) == 0, "%d pairs of looks: %q", j.looks, j.swings)
	}
}
