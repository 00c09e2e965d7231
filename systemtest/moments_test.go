package systemtest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// arrival is a request of a scenario's load: its time, relative to the start, and its node, counted
// from 0.
type arrival struct {
	at   time.Duration
	node int
}

// arrivals draws the arrivals of several loads that add up. It draws as the simulator does:
// Poisson, and spread evenly or at one node that moves.
func arrivals(t *testing.T, loads []sim.Load, nodes int, duration time.Duration, rng *rand.Rand) (out []arrival) {
	t.Helper()
	for _, l := range loads {
		if l.Spread.Skew != 0 || len(l.Spread.Nodes) > 0 || l.On > 0 || l.Clump > 1 || l.Cost > 1 || l.From > 0 || l.To > 0 {
			t.Fatalf("%+v: only a rate that is even or moves, all the time, is played on real processes", l)
		}
		for at := 0.0; ; {
			if at += rng.ExpFloat64() / l.Rate * float64(time.Second); time.Duration(at) >= duration {
				break
			}
			a := arrival{time.Duration(at), rng.IntN(nodes)}
			if l.Spread.Moving > 0 {
				a.node = int(a.at/l.Spread.Moving) % nodes
			}
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return out
}

// shot is a request that was sent, with its answer: whether each key admitted it.
type shot struct {
	sent, answered time.Duration // since the load began
	allowed        []bool
	err            error // no answer: unknown whether it was charged
}

// moment returns the caller's best estimate of when the node decided.
func (s *shot) moment() time.Duration { return (s.sent + s.answered) / 2 }

// tooLate is the largest delay, from a stall of this process, at which a request is still sent.
// Later requests are dropped: sent all at once they would be a burst that the scenario does not
// have.
const tooLate = 20 * time.Millisecond

// volley is a load that follows a plan.
type volley struct {
	began  time.Time
	wg     sync.WaitGroup
	unsent int // dropped because they were too late; valid when all requests have ended
	mu     sync.Mutex
	shots  []shot // finished requests, in no order
}

// fire starts to send a request for all keys at each arrival, whether or not earlier ones have been
// answered. Every call ends within a second, which bounds the calls in flight.
func fire(ctx context.Context, clients []*client.Client, keys []quota.Key, plan []arrival) *volley {
	checks := make([]client.Check, len(keys))
	for i, k := range keys {
		checks[i] = client.Check{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key}
	}
	v := &volley{began: time.Now()}
	v.wg.Go(func() {
		for _, a := range plan {
			time.Sleep(time.Until(v.began.Add(a.at))) // the plan's times
			if time.Since(v.began) > a.at+tooLate {
				v.unsent++
				continue
			}
			v.wg.Go(func() { v.send(ctx, clients[a.node], checks) })
		}
	})
	return v
}

func (v *volley) send(ctx context.Context, c *client.Client, checks []client.Check) {
	s := shot{sent: time.Since(v.began), allowed: make([]bool, len(checks))}
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	res, err := c.AllowBatch(within, checks)
	s.answered, s.err = time.Since(v.began), err
	for i := range res {
		s.allowed[i], s.err = res[i].Allowed, cmp.Or(s.err, res[i].Err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shots = append(v.shots, s)
}

// dial returns a connected client of each node, which reconnects soon after its node comes back.
func dial(t *testing.T, nodes []*server, opts ...grpc.DialOption) (out []*client.Client) {
	t.Helper()
	ctx := t.Context()
	for _, s := range nodes {
		c := keen(t, []string{s.grpc}, opts...)
		if _, err := c.Allow(ctx, "headline", "nothing", "k", 1); !errors.Is(err, client.ErrNoLimit) {
			t.Fatalf("%s: %v; want an unknown limit", s.id, err)
		}
		out = append(out, c)
	}
	return out
}

// keen returns a client that reconnects soon after its nodes come back.
func keen(t *testing.T, addrs []string, opts ...grpc.DialOption) *client.Client {
	t.Helper()
	soon := grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond},
		MinConnectTimeout: time.Second,
	})
	c, err := client.New(t.Context(), addrs, client.WithMode(client.Remote), client.WithDialOptions(append(opts, soon)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// measured compares what one key admitted with one central limiter that got the same requests at
// the same moments.
type measured struct {
	asked, admitted, ideal int64
	unanswered             int64
	excess                 float64 // most tokens above burst + rate x time, by the estimated moments
	proven                 float64 // the part of it that no error of the moments can explain
}

func (m *measured) net() float64 { return 100 * float64(m.admitted-m.ideal) / float64(m.ideal) }

// measure judges the answers for key i, whose limit is one bucket. It leaves out unanswered
// requests, here and for the central limiter.
func measure(shots []shot, i int, l *quota.Limit) (m measured) {
	slices.SortFunc(shots, func(a, b shot) int { return cmp.Compare(a.moment(), b.moment()) })
	tier := l.First()
	ideal, owed := limiter.NewMeter(&tier, 0), limiter.NewMeter(&tier, 0)
	for _, s := range shots {
		if s.err != nil {
			m.unanswered++
			continue
		}
		m.asked++
		now := quota.Time(0).Add(s.moment())
		if ideal.Advance(now, &tier); ideal.Level() >= quota.Token {
			ideal.Add(-quota.Token)
			m.ideal++
		}
		if s.allowed[i] {
			m.admitted++
			owed.Advance(now, &tier)
			owed.Add(-quota.Token)
			m.excess = max(m.excess, -float64(owed.Level())/float64(quota.Token))
		}
	}
	m.proven = proven(shots, i, l)
	return m
}

// stalled returns the total time for which some node owed an answer for longer than a node with a
// processor would take.
func stalled(shots []shot) (sum time.Duration) {
	slices.SortFunc(shots, func(a, b shot) int { return cmp.Compare(a.sent, b.sent) })
	var until time.Duration
	for _, s := range shots {
		if from := max(s.sent+slow, until); s.err == nil && s.answered > from {
			sum += s.answered - from
			until = s.answered
		}
	}
	return sum
}

// slow is the latency above which an answer counts as stalled: a check waits for a grant for at
// most 20 ms.
const slow = 25 * time.Millisecond

// proven returns the most tokens certainly admitted above the limit. Requests sent at a or later
// and answered at b or earlier were decided between a and b, whatever the exact moments. The result
// is at least 0.
func proven(shots []shot, i int, l *quota.Limit) (worst float64) {
	var in []shot
	for _, s := range shots {
		if s.err == nil && s.allowed[i] {
			in = append(in, s)
		}
	}
	slices.SortFunc(in, func(a, b shot) int { return cmp.Compare(a.answered, b.answered) })
	perSecond := float64(l.Rate.Tokens) / l.Rate.Per.Seconds()
	for _, from := range in {
		n := 0
		for _, s := range in {
			if s.sent < from.sent {
				continue
			}
			n++
			worst = max(worst, float64(n)-float64(l.Burst)-perSecond*(s.answered-from.sent).Seconds())
		}
	}
	return worst
}
