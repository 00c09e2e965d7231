package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

func limit(rate, burst int64, c quota.Ceiling) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"},
		Rate:      quota.Rate{Tokens: rate, Per: time.Second}, Burst: burst, Ceiling: c,
	}
}

type pattern struct {
	name   string
	load   func(i, n int, r float64, t time.Duration) float64
	surges bool // from below the limit to ten times the limit or more at once
}

// on returns the pattern's load on n nodes, in multiples of rate.
func (p pattern) on(n int, rate int64) func(int, time.Duration) float64 {
	return func(i int, t time.Duration) float64 { return p.load(i, n, float64(rate), t) }
}

var patterns = []pattern{
	{name: "even 0.8x", load: func(_, n int, r float64, _ time.Duration) float64 { return .8 * r / float64(n) }},
	{name: "even 1x", load: func(_, n int, r float64, _ time.Duration) float64 { return r / float64(n) }},
	{name: "even 3x", load: func(_, n int, r float64, _ time.Duration) float64 { return 3 * r / float64(n) }},
	{name: "even 20x", surges: true, load: func(_, n int, r float64, _ time.Duration) float64 { return 20 * r / float64(n) }},
	{name: "skew 90% 3x", load: func(i, n int, r float64, _ time.Duration) float64 {
		if i == 0 {
			return 2.7 * r
		}
		return .3 * r / float64(max(1, n-1))
	}},
	{name: "moving 0.95x", load: func(i, n int, r float64, t time.Duration) float64 {
		if int(t/(500*time.Millisecond))%n == i {
			return .95 * r
		}
		return 0
	}},
	{name: "moving 3x", load: func(i, n int, r float64, t time.Duration) float64 {
		if int(t/(500*time.Millisecond))%n == i {
			return 3 * r
		}
		return 0
	}},
	{name: "on/off 3x", load: func(_, n int, r float64, t time.Duration) float64 {
		if int(t/time.Second)%2 == 0 {
			return 3 * r / float64(n)
		}
		return 0
	}},
	{name: "surge 10x", surges: true, load: func(_, n int, r float64, t time.Duration) float64 {
		if t > 5*time.Second {
			return 10 * r / float64(n)
		}
		return 0
	}},
}

// way is a way to enforce a limit.
type way struct {
	name    string
	ceiling quota.Ceiling
	decide  quota.Decide
	hop     time.Duration // longest wait for a grant
}

var (
	soft      = way{"soft", quota.Soft, quota.DecideDefault, 0}
	hard      = way{"hard, local", quota.Hard, quota.Locally, 0}
	hardWaits = way{"hard, 20 ms hop", quota.Hard, quota.DecideDefault, 20 * time.Millisecond}
	hardAuto  = way{"hard, auto", quota.Hard, quota.Auto, 0}
)

// bound is the allowed deviation of a run from the ideal: admissions below and above it, in
// percent, and the worst excess over the envelope, in bursts.
type bound struct{ under, over, excess float64 }

// scattered is the bound for a known weakness: a hard limit of few tokens a second without a hop,
// where the token is often held by the wrong node. The worst of ten seeds is 47.
const scattered = 55

// TestAccuracy compares the worst of several seeds of every pattern with the ideal central bucket.
func TestAccuracy(t *testing.T) {
	testspeed.Full(t)
	long(t)
	t.Parallel()
	const none = rounding / 1000
	for _, tc := range []struct {
		rate, burst int64
		way         way
		bound       bound
		surge       float64 // excess, in bursts, of the patterns with 10 and 20x
	}{
		{1000, 1000, soft, bound{.4, .6, .04}, .15},
		{1000, 1000, hard, bound{5.5, 0, none}, none},
		{1000, 1000, hardAuto, bound{5, 0, none}, none},
		{10, 20, soft, bound{3.5, 6.5, .4}, .8}, // of 100 seeds the worst is +6.5 %
		{10, 20, hard, bound{scattered, 0, none}, none},
		{10, 20, hardAuto, bound{5, 0, none}, none},
	} {
		for _, nodes := range clusterSizes() {
			for _, p := range patterns {
				b := tc.bound
				if p.surges {
					b.excess = tc.surge
				}
				s := Scenario{
					Nodes: nodes, Duration: 10 * time.Second, Limit: limit(tc.rate, tc.burst, tc.way.ceiling),
					Delay: time.Millisecond, Load: p.on(nodes, tc.rate),
				}
				s.Limit.Decide = tc.way.decide
				checkAccuracy(t, s, b, fmt.Sprintf("%2d nodes %4d/s b%-4d %-15s %-13s", nodes, tc.rate, tc.burst, tc.way.name, p.name))
			}
		}
	}
}

// clusterSizes and seedsEach return less with -short, which the race detector uses: nothing here
// runs concurrently, so it has nothing to find.
func clusterSizes() []int {
	if testing.Short() {
		return []int{3}
	}
	return []int{3, 10}
}

func seedsEach() uint64 {
	if testing.Short() {
		return 1
	}
	return 3
}

func checkAccuracy(t *testing.T, s Scenario, b bound, line string) {
	t.Helper()
	var under, over, excess, reports float64
	for s.Seed = 1; s.Seed <= seedsEach(); s.Seed++ {
		res := Run(s)
		e, x := 100*res.Error(), res.Excess/float64(s.Limit.Burst)
		under, over, excess = min(under, e), max(over, e), max(excess, x)
		reports = max(reports, float64(res.Reports)/s.Duration.Seconds()/float64(s.Nodes))
		if e < -b.under || e > b.over || x > b.excess {
			t.Errorf("%s: seed %d: %+.2f%%, excess %.3f bursts; must be -%v%% to +%v%%, excess %v", line, s.Seed, e, x, b.under, b.over, b.excess)
		}
	}
	t.Logf("%s %+7.2f%% to %+.2f%%, excess %.3f bursts, %4.1f reports/s/node", line, under, over, excess, reports)
}
