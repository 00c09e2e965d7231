package bound

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Cluster holds the parameters that the bound depends on besides the limit.
type Cluster struct {
	Nodes int // at least 1
	// Clients is the number of processes that decide by themselves out of tokens lent by nodes
	// (package client).
	Clients int
	Delay   time.Duration // one way between nodes, with jitter
	Sync    time.Duration // interval between reports
	Lease   time.Duration // duration of a grant
	// Election is how long a range has no leader after a crash.
	Election time.Duration
	// CutOff is how long a node is assumed to be cut off after its lease.
	CutOff time.Duration
}

// The names of situations.
const (
	Steady   = "steady"
	Surge    = "surge"
	Failover = "failover"
	CutOff   = "cut_off"
)

// Situation is the bound in one situation, in tokens of one key.
type Situation struct {
	Name string
	When string // description
	// Worst is the derived maximum, and Typical what the simulator's worst seeds reached. Unbounded
	// means that there is no maximum.
	Worst, Typical float64
	Unbounded      bool
	Formula        string // of Worst
	Numbers        string // the formula with the numbers of this cluster
	Basis          string // how Worst and Typical were obtained
}

// Age returns the longest time between two grants to a member while messages arrive: reports of a
// contended key are a sync interval apart and may miss one tick of the timer wheel, and one report
// is in flight and answered.
func (c Cluster) Age() time.Duration { return 2*c.Sync + 4*c.Delay }

// Of returns the bound of a limit in all situations; nil for limits that do not count. Tiers are
// considered separately: for each situation the result is that of the tier with the largest bound.
// Parents and floors have bounds of their own.
func Of(l *quota.Limit, c Cluster) []Situation {
	if l.Class != quota.Counted || l.Enforcement == quota.Off {
		return nil
	}
	var out []Situation
	for i, t := range l.Tiers() {
		b := bounder{l: l, c: c, burst: float64(t.Burst), rate: rateOf(&t)}
		for k, s := range []Situation{b.steady(), b.surge(), b.failover(), b.cutOff()} {
			b.reserved(&s)
			if len(l.More) > 0 && s.Worst > 0 {
				s.Numbers += fmt.Sprintf(", of tier %d", i+1)
			}
			switch {
			case i == 0:
				out = append(out, s)
			case s.Worst > out[k].Worst:
				out[k] = s
			}
		}
	}
	return out
}

// Most returns the bound while all nodes can communicate, in tokens: that of a surge.
func Most(l *quota.Limit, c Cluster) float64 {
	worst := 0.0
	for _, s := range Of(l, c) {
		if s.Name == Surge {
			worst = s.Worst
		}
	}
	return worst
}

// rateOf returns the refill in tokens per second. Fixed windows refill nothing before they end; a
// sliding window returns what was used.
func rateOf(t *quota.Tier) float64 {
	if !t.Kind.Refills() || t.Rate.Per <= 0 {
		return 0
	}
	return float64(t.Rate.Tokens) / t.Rate.Per.Seconds()
}

type bounder struct {
	l           *quota.Limit
	c           Cluster
	burst, rate float64
}

// Each returns a limit for each tier, as its leader sees it: with that tier alone.
func Each(l *quota.Limit) []quota.Limit {
	var out []quota.Limit
	for _, t := range l.Tiers() {
		one := *l
		one.More = nil
		one.SetFirst(t)
		out = append(out, one)
	}
	return out
}

// noRefill explains why no rate is in the formula.
func (b *bounder) noRefill() string {
	if b.l.Kind == quota.Concurrency {
		return "places return when they are released"
	}
	return "nothing refills before the window ends"
}

// exact reports whether no decision is based on an estimate.
func (b *bounder) exact() bool { return b.l.Ceiling == quota.Hard || b.l.AsksLeader() }

func (b *bounder) zero(s Situation) Situation {
	s.Formula, s.Numbers = "0", "0"
	switch {
	case b.l.AsksLeader():
		s.Basis = "derived: the leader decides on the books; TestDecideLeader of internal/sim"
	case slices.ContainsFunc(Each(b.l), func(t quota.Limit) bool { return t.MayAsk() }):
		s.Basis = "derived: nodes spend only tokens that they hold, and the leader only what its log has promised; TestHardCeiling and TestAnswersOutliveLeaders of internal/sim"
	default:
		s.Basis = "derived: nodes spend only tokens that they hold; TestHardCeiling of internal/sim"
	}
	return s
}

// reserved adds reservations of future tokens to the bound: callers wait for them, but the first
// one proceeds before its tokens are refilled.
func (b *bounder) reserved(s *Situation) {
	debt := float64(b.l.DebtUnits()) / float64(quota.Token)
	if debt == 0 || s.Unbounded {
		return
	}
	s.Worst += debt
	s.Formula += " + rate x max_debt"
	s.Numbers += fmt.Sprintf("; + %s/s x %v = %s", num(b.rate), round(b.l.MaxDebt), num(s.Worst))
}

// eachClient is the number of tokens that a client process may be lent beyond its share, plus the most that
// it may overdraw for a request (package clientledger). Beside that each may use half of an equal part of the burst
// before it has learned of a key.
const eachClient = 4 + 8

// believed returns the excess of N members that decide by a level of the given age: N-1 of them
// spend a burst that is not theirs, and each spends what refilled in that time, even if the bucket
// was full and the refill overflowed. Added is the effect of events counted in another order than
// they happened: a token or two for each member, and the refill during two round trips.
func (b *bounder) believed(s Situation, age time.Duration, of string) Situation {
	n := float64(b.c.Nodes)
	s.Worst = (n-1)*b.burst + n*b.rate*age.Seconds() + 2*n + b.rate*4*b.c.Delay.Seconds()
	clients, plus := "", ""
	if b.c.Clients > 0 {
		s.Worst += float64(eachClient*b.c.Clients) + b.burst/2
		clients, plus = fmt.Sprintf(" + burst/2 + %d x clients", eachClient), fmt.Sprintf(" + %s/2 + %dx%d", num(b.burst), eachClient, b.c.Clients)
	}
	if b.rate == 0 {
		s.Formula = "(N-1) x burst + 2N" + clients + "; " + b.noRefill()
		s.Numbers = fmt.Sprintf("(%d-1) x %s + 2x%d%s = %s", b.c.Nodes, num(b.burst), b.c.Nodes, plus, num(s.Worst))
		return s
	}
	s.Formula = "(N-1) x burst + N x rate x " + of + " + 2N" + clients + " + rate x two round trips"
	s.Numbers = fmt.Sprintf("(%d-1) x %s + %d x %s/s x %v + 2x%d%s + %s/s x %v = %s", b.c.Nodes, num(b.burst), b.c.Nodes, num(b.rate), round(age),
		b.c.Nodes, plus, num(b.rate), round(4*b.c.Delay), num(s.Worst))
	return s
}

func (b *bounder) steady() Situation {
	s := Situation{Name: Steady, When: "each node's load is constant, below or above the limit"}
	if b.exact() {
		return b.zero(s)
	}
	s = b.believed(s, b.c.Age(), "age")
	s.Typical = b.typical(.06, .5)
	s.Basis = "worst: derived, and never seen in a steady load; typical: measured, TestAccuracy of internal/sim"
	return s
}

func (b *bounder) surge() Situation {
	s := Situation{Name: Surge, When: "every node at once receives requests for more than a full bucket"}
	if b.exact() {
		return b.zero(s)
	}
	s = b.believed(s, b.c.Age(), "age")
	s.Typical = b.typical(.45, 1)
	s.Basis = "worst: derived, held against TestBound of internal/sim; typical: measured, TestAccuracy, 10 and 20 times the limit"
	return s
}

// typical returns a part of the burst: large or small, as the simulator's worst seeds measured for
// large and small bursts.
func (b *bounder) typical(large, small float64) float64 {
	if b.c.Nodes == 1 {
		return 0
	}
	if b.burst >= 100 {
		return large * b.burst
	}
	return small * b.burst
}

func (b *bounder) failover() Situation {
	s := Situation{Name: Failover, When: "a leader dies, once"}
	if b.l.Ceiling == quota.Hard {
		return b.zero(s)
	}
	// Election is how long no leader reports a level; then the next leader learns.
	s = b.believed(s, b.c.Election+3*b.c.Sync+b.c.Age(), "(election + 3 sync + age)")
	s.Typical = b.typical(.06, .5)
	s.Basis = "worst: derived, held against TestBound; typical: measured, TestLeaderKilled of internal/sim"
	return s
}

func (b *bounder) cutOff() Situation {
	s := Situation{Name: CutOff, When: fmt.Sprintf("one node is without a leader for its lease of %v and %v more", round(b.c.Lease), round(b.c.CutOff))}
	policy, rate := b.l.CutOff.At(0, b.l.Ceiling)
	t := b.c.CutOff.Seconds()
	s.Basis = "derived: when_cut_off " + policy.String()
	switch policy {
	case quota.CutOffOpen:
		s.Unbounded, s.Formula, s.Numbers = true, "everything that is requested", "without bound"
	case quota.CutOffShare:
		s.Worst = b.burst + b.rate*(t+b.c.Lease.Seconds())
		s.Typical = (b.burst + b.rate*t) / float64(b.c.Nodes)
		s.Formula = "burst + its share x (burst + rate x time), its share at most 1"
		s.Numbers = fmt.Sprintf("at most %s; %s with an equal share of 1/%d", num(s.Worst), num(s.Typical), b.c.Nodes)
	case quota.CutOffRate:
		r := float64(rate.Tokens) / max(rate.Per.Seconds(), 1e-9)
		s.Worst = b.burst + r*t + b.rate*b.c.Lease.Seconds()
		s.Typical = r * t
		s.Formula = "burst + rate x lease + its own rate x time"
		s.Numbers = fmt.Sprintf("%s + %s/s x %v + %s/s x %v = %s", num(b.burst), num(b.rate), round(b.c.Lease), num(r), round(b.c.CutOff), num(s.Worst))
	case quota.CutOffHold, quota.CutOffClosed:
		if b.l.Ceiling == quota.Hard {
			return b.zero(s)
		}
		s.Worst = b.burst + b.rate*b.c.Lease.Seconds()
		s.Formula, s.Numbers = "burst + rate x lease", fmt.Sprintf("%s + %s/s x %v = %s", num(b.burst), num(b.rate), round(b.c.Lease), num(s.Worst))
	default:
		if b.rate == 0 {
			s.Worst, s.Formula, s.Numbers = b.burst, "burst; "+b.noRefill(), num(b.burst)
			return s
		}
		s.Worst = b.burst + b.rate*(t+b.c.Lease.Seconds())
		s.Typical = b.rate * t
		s.Formula = "burst + rate x (lease + time)"
		s.Numbers = fmt.Sprintf("%s + %s/s x (%v + %v) = %s", num(b.burst), num(b.rate), round(b.c.Lease), round(b.c.CutOff), num(s.Worst))
	}
	return s
}

// Exceptions lists the cases in which the bounds of 0 do not hold, with how far they are exceeded:
// those of docs/explanation/accuracy.md, section 3, and of leader/doc.go. It is nil for limits without
// such a bound.
func Exceptions(l *quota.Limit) []string {
	switch {
	case l.Class != quota.Counted || l.Enforcement == quota.Off:
		return nil
	case l.Ceiling == quota.Soft && l.AsksLeader():
		return []string{"the leader does not answer a check within 200 ms: the node decides it by its estimate, as in failover and cut_off"}
	case l.Ceiling == quota.Soft:
		return nil
	}
	out := []string{"the limit has just become hard"}
	if l.Kind == quota.Concurrency {
		return append(out, "the disks of a majority lose synced data",
			"work continues for longer than the lease after its node has died")
	}
	out = append(out, "the disks of a majority lose synced data: at most a burst more",
		"a reservation is settled for more tokens than the limit has left: by those")
	has := func(is func(quota.Kind) bool) bool {
		return slices.ContainsFunc(l.Tiers(), func(t quota.Tier) bool { return is(t.Kind) })
	}
	bucket := func(k quota.Kind) bool { return k == quota.TokenBucket }
	if has(bucket) {
		out = append(out, "a node is paused for longer than its lease, a proxy in front of it refuses connections, and it resumes: it may spend the tokens that it holds a second time, at most a burst")
	}
	if has(quota.Kind.Refills) {
		out = append(out, "the monotonic clock of a node stops while its machine is suspended, outside Linux or by a hypervisor: the node may then use a rate that others have received",
			"a cluster restarts with wall clocks more than 500 ms apart: rate x the difference beyond that, once")
	}
	if has(quota.Kind.Windowed) {
		out = append(out, "a new leader's clock differs from the last one's: two windows overlap by the difference, and each keeps its limit")
	}
	if rate := slowest(l); rate > 0 {
		out = append(out, fmt.Sprintf("the leader's clock is fast: rate x what it gains; %s tokens a day for 100 ppm", num(rate*86400/10_000)))
	}
	return out
}

// slowest returns the lowest rate of the tiers that have a period, in tokens per second; 0 if none has.
func slowest(l *quota.Limit) float64 {
	least := 0.0
	for _, t := range l.Tiers() {
		if t.Rate.Per <= 0 {
			continue
		}
		if r := float64(t.Rate.Tokens) / t.Rate.Per.Seconds(); least == 0 || r < least {
			least = r
		}
	}
	return least
}

// num formats a number of tokens: whole from ten on.
func num(v float64) string {
	if v >= 10 || v == float64(int64(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

func round(d time.Duration) string {
	unit := 10 * time.Microsecond
	if d > time.Second {
		unit = 10 * time.Millisecond
	}
	s := d.Round(unit).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}
