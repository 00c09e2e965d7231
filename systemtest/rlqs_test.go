package systemtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/quorate/quorate/api/rlqs/rlqstest"
	"github.com/quorate/quorate/internal/testspeed"
)

var spot = map[string]string{"limit": "spot", "user": "ann"}

// proxy behaves as Envoy's filter and gets rate requests a second.
type proxy struct {
	*rlqstest.Filter
	rate   int
	passed atomic.Int64
}

// assigned returns the rate that the proxy may let through now.
func (p *proxy) assigned() float64 {
	b, _ := p.Look(spot)
	t := b.Strategy.GetTokenBucket()
	if t == nil {
		return 0
	}
	return float64(t.GetTokensPerFill().GetValue()) / t.GetFillInterval().AsDuration().Seconds()
}

// attachProxy connects a proxy to the first node that answers.
func attachProxy(t *testing.T, rate int, nodes []*server) *proxy {
	t.Helper()
	list := manual.NewBuilderWithScheme("nodes")
	var state resolver.State
	for _, s := range nodes {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: s.grpc})
	}
	list.InitialState(state)
	conn, err := grpc.NewClient("nodes:///", grpc.WithResolvers(list), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{rate: rate, Filter: rlqstest.New(conn, rlqstest.Config{Domain: "web", Interval: time.Second})}
	t.Cleanup(func() { p.Close(); _ = conn.Close() })
	return p
}

// drive sends requests to every proxy at its rate until end is called.
func drive(proxies []*proxy) (end func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, p := range proxies {
		wg.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				for range p.rate / 50 {
					if p.Request(spot) {
						p.passed.Add(1)
					}
				}
			}
		})
	}
	return func() { close(stop); wg.Wait() }
}

// whole waits until the assigned rates of all proxies add up to the limit.
func whole(t *testing.T, proxies []*proxy, rate float64, when string) {
	t.Helper()
	eventually(t, 15*time.Second, "the assignments come to the limit "+when, func() error {
		sum, each := 0.0, ""
		for _, p := range proxies {
			a := p.assigned()
			sum, each = sum+a, each+fmt.Sprintf(" %.0f", a)
		}
		if sum < .8*rate || sum > 1.1*rate {
			return fmt.Errorf("they are%s, %.0f of %.0f/s", each, sum, rate)
		}
		return nil
	})
}

// passing returns how many requests passed in a period, and how long the period was.
func passing(proxies []*proxy, d time.Duration) (each []int64, sum int64, took time.Duration) {
	began := time.Now()
	for _, p := range proxies {
		each = append(each, -p.passed.Load())
	}
	time.Sleep(d) // the measured period
	for i, p := range proxies {
		each[i] += p.passed.Load()
		sum += each[i]
	}
	return each, sum, time.Since(began)
}

// TestRLQSNodes checks that proxies at different nodes share one limit: six proxies, two at each of
// three real nodes, one of which gets eight times the requests of another. When a node is killed,
// its proxies move to another node and all still share the limit; when the limit is deleted, their
// buckets go.
func TestRLQSNodes(t *testing.T) {
	testspeed.Full(t)
	const rate = 200
	c := newServers(t, 4)
	c.run(fmt.Sprintf("version: 1\nnamespaces:\n  web:\n    limits:\n      spot: {rate: %d/s, burst: %d}\n", rate, rate))
	var proxies []*proxy
	for i, r := range []int{400, 200, 100, 100, 50, 50} {
		k := i % 3
		proxies = append(proxies, attachProxy(t, r, append(append([]*server{}, c.nodes[k:]...), c.nodes[:k]...)))
	}
	end := sync.OnceFunc(drive(proxies))
	t.Cleanup(end)
	whole(t, proxies, rate, "at first")
	each, sum, took := passing(proxies, 4*time.Second)
	ideal := rate * took.Seconds()
	t.Logf("in %v passed %v, %d of %.0f", took.Round(time.Millisecond), each, sum, ideal)
	if float64(sum) > 1.2*ideal+rate || float64(sum) < .5*ideal {
		t.Errorf("%d passed in %v, the limit has %.0f", sum, took, ideal)
	}
	for i, n := range each {
		if n == 0 {
			t.Errorf("proxy %d got nothing of %v", i, each)
		}
	}

	c.nodes[0].kill()
	_, sum, took = passing(proxies, 3*time.Second)
	t.Logf("in %v after %s was killed %d passed, the limit has %.0f", took.Round(time.Millisecond), c.nodes[0].id, sum, rate*took.Seconds())
	if float64(sum) > 1.5*rate*took.Seconds()+2*rate {
		t.Errorf("%d passed in %v after a node was killed, the limit has %.0f", sum, took, rate*took.Seconds())
	}
	for _, p := range []*proxy{proxies[0], proxies[3]} {
		eventually(t, 10*time.Second, "a proxy of the dead node is assigned something by another", func() error {
			b, _ := p.Look(spot)
			if p.Opened() < 2 || p.assigned() == 0 {
				return fmt.Errorf("%d streams, assigned %.0f/s in %d messages, last error %w", p.Opened(), p.assigned(), b.Pushes, p.Ended())
			}
			return nil
		})
	}
	whole(t, proxies, rate, "without the node")
	end()

	eventually(t, 10*time.Second, "the limit is taken away", func() error {
		return c.tryApply(c.nodes[1].grpc, "version: 1\nnamespaces:\n  web:\n    limits:\n      other: {rate: 1/s, burst: 1}\n")
	})
	eventually(t, 10*time.Second, "the buckets are abandoned", func() error {
		for i, p := range proxies {
			if b, there := p.Look(spot); there {
				return fmt.Errorf("proxy %d has %v", i, b.Strategy)
			}
		}
		return nil
	})
}
