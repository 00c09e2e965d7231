package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// promised is a bucket that promises future tokens, by the arithmetic of quotaservice and Guava's
// RateLimiter: tokens accumulate up to the burst; a request for more than there are proceeds once
// earlier promises are repaid, and later requests wait for it.
type promised struct {
	rate, burst, stored float64
	next                time.Duration // all tokens up to this time are promised
}

func (p *promised) ask(at time.Duration, cost int64, l *quota.Limit) (ok bool, wait time.Duration) {
	if at > p.next {
		p.stored = min(p.burst, p.stored+(at-p.next).Seconds()*p.rate)
		p.next = at
	}
	wait = p.next - at
	now := min(float64(cost), p.stored)
	later := time.Duration((float64(cost) - now) / p.rate * float64(time.Second))
	if wait > l.MaxWait || wait+later > l.MaxDebt {
		return false, 0
	}
	p.stored -= now
	p.next += later
	return true, wait
}

// TestWaitsOfTheSource compares limits with max_wait, under requests of random costs on one node
// and on three, with the arithmetic of the source: the same requests must pass, with the same
// waits.
func TestWaitsOfTheSource(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 9))
		rate := []int64{1, 10, 100}[rng.IntN(3)]
		l := limit(rate, rate*[]int64{1, 5, 100}[rng.IntN(3)], quota.Soft)
		l.MaxWait = time.Duration(1+rng.IntN(20)) * time.Second
		l.MaxDebt = l.MaxWait * time.Duration(1+rng.IntN(3))
		nodes := []int{1, 3}[rng.IntN(2)]
		var requests []Request
		for at := time.Duration(0); len(requests) < 200; {
			at += time.Duration(rng.ExpFloat64() * float64(time.Second) * float64(l.Burst) / float64(rate) / 20)
			requests = append(requests, Request{At: at, Key: "k", Node: 1 + rng.IntN(nodes), Cost: 1 + rng.Int64N(max(1, l.Burst/3))})
		}
		source := promised{rate: float64(rate), burst: float64(l.Burst), stored: float64(l.Burst)}
		next := 0
		Run(Scenario{
			Seed: seed, Nodes: nodes, Limit: l, Near: true, Skew: -1, Hop: 20 * time.Millisecond, Requests: slices.Values(requests),
			Decided: func(at time.Duration, _ int, _ string, d quota.Decision, _ bool) {
				cost := requests[next].Cost
				ok, wait := source.ask(at, cost, &l)
				if !t.Failed() && (ok != d.Allowed || (wait-d.Wait).Abs() > time.Millisecond) {
					t.Errorf("seed %d, %d nodes, %v, burst %d, max_wait %v, max_debt %v: request %d at %v, cost %d: allowed %v, wait %v, %v; the source says %v, wait %v",
						seed, nodes, l.Rate, l.Burst, l.MaxWait, l.MaxDebt, next, at, cost, d.Allowed, d.Wait, d.Why, ok, wait)
				}
				next++
			},
		})
		if next != len(requests) {
			t.Errorf("seed %d: %d of %d requests were decided", seed, next, len(requests))
		}
	}
}

// TestWaitsAfterAnElection checks that what a node admits while its range has no leader counts once at the next
// leader: requests that arrive before the node has the answer to its first report wait no longer than later ones.
// They waited 3 s where decide requests named what the node had overdrawn, because its report had booked it.
func TestWaitsAfterAnElection(t *testing.T) {
	l := limit(1, 20, quota.Soft)
	l.MaxWait, l.MaxDebt = 20*time.Second, 20*time.Second
	var requests []Request
	for range 10 { // no leader answers
		requests = append(requests, Request{At: 10 * time.Millisecond, Key: "k", Node: 3, Cost: 1})
	}
	for i := range 9 { // the next leader announces itself at 1.021 s, and receives the report at 1.041 s
		requests = append(requests, Request{At: time.Second + time.Duration(i)*10*time.Millisecond, Key: "k", Node: 3, Cost: 1})
	}
	alone, asked := 0, 0
	Run(Scenario{
		Seed: 1, Nodes: 3, Limit: l, Near: true, Skew: -1, Hop: 20 * time.Millisecond, Delay: 20 * time.Millisecond, Requests: slices.Values(requests),
		KillLeader: time.Millisecond, Election: time.Second,
		Decided: func(at time.Duration, _ int, _ string, d quota.Decision, _ bool) {
			if d.Why == quota.WhyEstimate {
				alone++
			} else {
				asked++
			}
			if !d.Allowed || d.Wait > 0 {
				t.Errorf("at %v: allowed %v, %v, wait %v; 19 of 20 tokens are used", at, d.Allowed, d.Why, d.Wait)
			}
		},
	})
	if alone < 10 || asked < 5 {
		t.Errorf("%d decided alone, %d asked; want at least 10 and 5", alone, asked)
	}
}
