package clientledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// spy is a parent that adds up the settlements.
type spy struct {
	*aggregator.Aggregator
	spent, back quota.Units
}

func (s *spy) Settle(clock aggregator.Clock, k quota.Key, d aggregator.Settlement) bool {
	ok := s.Aggregator.Settle(clock, k, d)
	if ok {
		s.spent += d.Used + d.Overdrawn
		s.back += d.Refunded
	}
	return ok
}

// storm is a world with a bad network between the clients and the node: messages are lost, repeated
// and reordered, streams break, clients die.
type storm struct {
	*world
	rng    *rand.Rand
	spy    *spy
	flying []func()
	lasts  []quota.Report // of sessions that broke, until they are settled
	bad    float64        // part of the messages that are disturbed
	sum    int64
	most   limiter.Meter // what may be admitted, except for periodic limits
	uses   []use         // of a periodic limit
	tier   quota.Tier
	limit  quota.Limit
}

// use is an admission at a moment.
type use struct {
	at   quota.Time
	cost int64
}

func newStorm(t testing.TB, l quota.Limit, seed uint64, clients int) *storm {
	s := &storm{world: newWorld(t, l, 0), rng: rand.New(rand.NewPCG(seed, 1)), limit: l, tier: l.First()}
	s.spy = &spy{Aggregator: s.node}
	s.b = New(Config{Self: "n"}, s.spy)
	s.bad = []float64{0, 0.05, 0.3}[s.rng.IntN(3)]
	s.most = limiter.NewMeter(&s.tier, s.now)
	for i := range clients {
		p := &proc{id: quota.NodeID(fmt.Sprintf("c%d", i))}
		p.agg = aggregator.New(aggregator.Config{Self: p.id, Incarnation: 1, Nodes: 1000, Ranges: 1}, s.now)
		p.agg.SetLimits(s.now, s.limits)
		s.procs = append(s.procs, p)
		s.attach(p)
	}
	return s
}

// fly sends a message: it arrives later, never, or twice.
func (s *storm) fly(f func()) {
	for s.rng.Float64() >= s.bad {
		s.flying = append(s.flying, f)
		if s.rng.Float64() >= s.bad {
			return
		}
	}
}

// land delivers some messages, in any order.
func (s *storm) land() {
	flying := s.flying
	s.flying = nil
	if s.bad > 0 {
		s.rng.Shuffle(len(flying), func(i, j int) { flying[i], flying[j] = flying[j], flying[i] })
	}
	for _, f := range flying {
		if s.bad > 0 && s.rng.IntN(3) == 0 {
			s.flying = append(s.flying, f)
			continue
		}
		f()
		s.prove()
	}
}

func (s *storm) toClient(g quota.Grant) {
	for _, p := range s.procs {
		if p.id == g.To {
			s.fly(func() { p.agg.Apply(s.now, g) })
		}
	}
}

func (s *storm) talk() {
	for _, p := range s.procs {
		for _, r := range p.agg.Collect(s.now) {
			s.fly(func() {
				if g, err := s.b.Report(s.now, &r); err == nil {
					s.toClient(g)
				}
			})
		}
	}
	s.land()
	for _, r := range s.node.Collect(s.now) {
		if g, err := s.ledger.Report(s.now, r); err == nil {
			s.node.Apply(s.now, g)
		}
	}
	for _, g := range s.ledger.Pushed() {
		s.node.Apply(s.now, g)
	}
	s.commit()
	for _, g := range s.b.Push(s.now) {
		s.toClient(g)
	}
	s.prove()
}

// reconnect ends a client's session and begins another.
func (s *storm) reconnect(p *proc) {
	s.lasts = append(s.lasts, p.agg.Leave(s.now, 0)...)
	if s.rng.IntN(2) == 0 {
		s.b.Detach(s.now, p.id, 1, p.term)
	}
	s.attach(p)
}

// settle delivers last reports, possibly repeatedly.
func (s *storm) settle() {
	s.lasts = slices.DeleteFunc(s.lasts, func(r quota.Report) bool {
		if s.rng.Float64() < s.bad {
			return false
		}
		for range 1 + s.rng.IntN(2) {
			if err := s.b.Final(s.now, &r); err != nil && !errors.Is(err, ErrForgotten) {
				s.t.Fatal(err)
			}
		}
		s.prove()
		return true
	})
}

// ask asks a client for tokens and checks the admission against the envelope.
func (s *storm) ask(p *proc) {
	cost := int64(1 + s.rng.IntN(3))
	d := s.check(p.agg, s.limit.LimitName, "k", cost)
	if !d.Allowed {
		return
	}
	p.sum += cost
	s.sum += cost
	if s.tier.Kind == quota.PeriodicRefill {
		s.uses = append(s.uses, use{s.now, cost})
		return
	}
	s.most.Advance(s.now, &s.tier)
	s.most.Add(-quota.FromTokens(cost))
	if level := s.most.Level(); s.limit.Ceiling == quota.Hard && level < -quota.Token/100 {
		s.t.Fatalf("%v: hard, and %d units too much are admitted", s.now.Sub(start), -level)
	}
}

// fits reports whether windows of a periodic limit explain all uses. A window ends a period after
// its leader received the first use of it: so it covers at least a period from that use, and no
// more than the count is admitted within it.
func fits(uses []use, t *quota.Tier) bool {
	begins := make([]bool, len(uses)) // whether a window may begin with this use
	for i := range uses {
		if i > 0 && !begins[i] {
			continue
		}
		var sum int64
		for j := i; ; j++ {
			if j == len(uses) {
				return true
			}
			if uses[j].at >= uses[i].at.Add(t.Rate.Per) {
				begins[j] = true
			}
			if sum += uses[j].cost; sum > t.Burst {
				break
			}
		}
	}
	return len(uses) == 0
}

func (s *storm) play(d time.Duration) {
	for end := s.now.Add(d); s.now < end; {
		s.now = s.now.Add(time.Duration(1+s.rng.IntN(8)) * time.Millisecond)
		for range s.rng.IntN(8) {
			s.ask(s.procs[s.rng.IntN(len(s.procs))])
		}
		if s.rng.IntN(30) == 0 {
			s.reconnect(s.procs[s.rng.IntN(len(s.procs))])
		}
		s.talk()
		if s.rng.IntN(20) == 0 {
			s.settle()
		}
		if s.rng.IntN(100) == 0 {
			s.b.Sweep(s.now)
			s.prove()
		}
	}
}

// calm delivers everything, without requests.
func (s *storm) calm() {
	s.bad = 0
	for range 200 {
		s.now = s.now.Add(50 * time.Millisecond)
		s.talk()
		s.settle()
		s.b.Sweep(s.now)
	}
}

func stormLimits() []quota.Limit {
	var out []quota.Limit
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		out = append(out, bucketLimit(c, 200, 100), bucketLimit(c, 20, 5))
		for _, k := range []quota.Kind{quota.FixedWindow, quota.SlidingWindow, quota.PeriodicRefill} {
			l := bucketLimit(c, 1, 1)
			l.SetFirst(quota.Window(k, 300, time.Second))
			l.Decide = quota.Locally // a hard sliding window that may ask is not allocated
			out = append(out, l)
		}
	}
	return out
}

// TestStorms: whatever happens to messages and streams, the invariants hold at every step, hard is
// never exceeded, and in the end everything is counted once.
func TestStorms(t *testing.T) {
	for i, l := range stormLimits() {
		for _, seed := range []uint64{0, 1, 2, 3, 4, 93, 161, 220, 242, 601, 826, 1958} {
			t.Run(fmt.Sprintf("%v-%v-%d-%d", l.Ceiling, l.Kind, i, seed), func(t *testing.T) {
				s := newStorm(t, l, seed, 1+int(seed)*5%31)
				s.play(3 * time.Second)
				s.calm()
				if got := (s.spy.spent - s.spy.back).Tokens(); got != s.sum {
					t.Errorf("clients admitted %d, the node has settled %d", s.sum, got)
				}
				if got := s.ledger.Booked(l.LimitName); got != s.spy.spent {
					t.Errorf("the node has settled %d, the leader has booked %d", s.spy.spent, got)
				}
				if lent := s.node.Allocated(quota.Key{LimitName: l.LimitName, Key: "k"}); lent != 0 {
					t.Errorf("%d are lent and nobody asks", lent)
				}
				if s.b.Keys() != 0 || len(s.b.broken) != 0 || s.b.brokenPlaces.Held() != 0 {
					t.Errorf("%d keys of clients, and %d broken attachments with %d places are left", s.b.Keys(), len(s.b.broken), s.b.brokenPlaces.Held())
				}
				if l.Ceiling == quota.Hard && !fits(s.uses, &s.tier) {
					t.Error("hard, and no windows explain what was admitted")
				}
				if s.sum == 0 {
					t.Error("nothing was admitted")
				}
			})
		}
	}
}
