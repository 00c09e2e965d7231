package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// shares plays a scenario and returns what each node asked for and got between two moments, per
// second.
func shares(s Scenario, from, to time.Duration) (tried, got []float64) {
	w := &watch{}
	s.Decided = w.decided
	w.run = newRun(s)
	w.start()
	w.play()
	tried, got, _ = w.sum(int(from/slot), int(to/slot))
	for i := range got {
		tried[i], got[i] = tried[i]/(to-from).Seconds(), got[i]/(to-from).Seconds()
	}
	return tried, got
}

// crowd has one node per rate, with Poisson arrivals, under a limit of 200/s.
func crowd(seed uint64, c quota.Ceiling, rates ...float64) Scenario {
	s := Scenario{
		Seed: seed, Nodes: len(rates), Duration: 8 * time.Second, Limit: limit(200, 200, c), Delay: time.Millisecond,
		Hop: 20 * time.Millisecond, Skew: -1, Near: true,
	}
	for i, r := range rates {
		s.Loads = append(s.Loads, Load{Rate: r, Spread: Spread{Nodes: []int{i + 1}}})
	}
	return s
}

var ceilings = []quota.Ceiling{quota.Soft, quota.Hard}

// TestMaxMin checks max-min fairness: a node that asks for less than an equal share gets most of
// what it asks for, and the others share the rest equally. Ideally that node would get all of it,
// because its rate is its estimated demand. A soft limit lets it catch up on what it missed; a hard
// limit leaves hardly any room for random variation.
func TestMaxMin(t *testing.T) {
	for c, least := range map[quota.Ceiling]float64{quota.Soft: .72, quota.Hard: .5} {
		for seed := range uint64(5) {
			tried, got := shares(crowd(seed, c, 20, 150, 150, 150, 300), 3*time.Second, 8*time.Second)
			t.Logf("%v, seed %d: asked for %.0f/s, got %.1f/s", c, seed, tried, got)
			if got[0] < least*tried[0] {
				t.Errorf("%v, seed %d: node 1 asked for %.1f/s, less than its share, and got %.1f/s", c, seed, tried[0], got[0])
			}
			part := (200 - tried[0]) / 4
			for n := 1; n < 5; n++ {
				if got[n] < .92*part || got[n] > 1.15*part {
					t.Errorf("%v, seed %d: node %d got %.1f/s, its share is %.1f/s", c, seed, n+1, got[n], part)
				}
			}
		}
	}
}

// TestLittleDemand checks max-min fairness under soft for a node whose share is less than a token an interval, so that
// it has no rate: beside four nodes that ask for three times the limit each, it gets most of what it asks for, and
// nothing is left over. Ideally it would get all of it. Its first request after a pause is refused.
func TestLittleDemand(t *testing.T) {
	const seeds = 5
	for _, tc := range []struct{ asks, least float64 }{{6, .6}, {9, .75}} {
		for _, burst := range []int64{5, 20, 100} {
			var tried, got, all float64
			for seed := range uint64(seeds) {
				s := crowd(seed, quota.Soft, tc.asks, 300, 300, 300, 300)
				s.Limit = limit(100, burst, quota.Soft)
				asked, admitted := shares(s, 2*time.Second, 8*time.Second)
				tried, got = tried+asked[0]/seeds, got+admitted[0]/seeds
				for _, a := range admitted {
					all += a / seeds
				}
			}
			t.Logf("burst %d: asked for %.1f/s, got %.1f/s; all nodes together %.1f/s", burst, tried, got, all)
			if got < tc.least*tried {
				t.Errorf("burst %d: the node asked for %.1f/s, less than its share, and got %.1f/s, want %.0f %%", burst, tried, got, 100*tc.least)
			}
			if least := 99.; burst > 5 && all < least {
				t.Errorf("burst %d: %.1f/s admitted of 100/s, want %v/s", burst, all, least)
			}
		}
	}
}

// TestFewerTokensThanNodes checks that of a burst of seven, which nineteen nodes that ask for little share with one that
// floods, nothing is left over: tokens that wait at one node would be refused at the others.
func TestFewerTokensThanNodes(t *testing.T) {
	const seeds = 5
	rates := append([]float64{3000}, slices.Repeat([]float64{3.4}, 19)...)
	off := 0.0
	for seed := range uint64(seeds) {
		s := crowd(seed, quota.Soft, rates...)
		s.Limit, s.Duration, s.Hop, s.Near = limit(100, 7, quota.Soft), 10*time.Second, 0, false
		off += 100 * Run(s).Error() / seeds
	}
	if t.Logf("%+.1f %%", off); off < -2 {
		t.Errorf("%+.1f %% admitted beside the ideal; want at most 2 %% too few", off)
	}
}

// TestFloodEarnsLittle checks that a node that asks for fifty times the limit gets hardly more than
// its share, on average over the seeds. Ideally it would get an equal share and what others leave. In
// fact it is first to take tokens that return to the pool: a tenth of a share more under soft, a fifth under hard.
func TestFloodEarnsLittle(t *testing.T) {
	const seeds = 10
	for c, bound := range map[quota.Ceiling]struct{ most, least float64 }{quota.Soft: {1.15, .94}, quota.Hard: {1.25, .9}} {
		var sum [4]float64
		for seed := range uint64(seeds) {
			s := crowd(seed, c, 10_000, 60, 60, 60)
			s.Duration = 5 * time.Second
			s.Hop = 0 // a flooding caller does not wait
			_, got := shares(s, 2*time.Second, 5*time.Second)
			for n := range got {
				sum[n] += got[n] / seeds
			}
		}
		t.Logf("%v: %.1f/s", c, sum)
		if sum[0] > bound.most*50 {
			t.Errorf("%v: the flood got %.1f/s, its share is 50/s", c, sum[0])
		}
		for n := 1; n < 4; n++ {
			if sum[n] < bound.least*50 {
				t.Errorf("%v: node %d got %.1f/s of 50/s beside a flood", c, n+1, sum[n])
			}
		}
	}
}

// TestTurns checks that nodes that ask equally get equally under soft where a share is less than a token an interval: a
// token goes to the node that has waited longest, not to the one whose report comes first after the token. Nodes
// do not ask again and again for tokens that are reserved for others.
func TestTurns(t *testing.T) {
	for _, tc := range []struct {
		nodes int
		rate  int64
		asks  float64
	}{{5, 50, 150}, {10, 50, 150}, {40, 200, 40}} {
		for seed := range uint64(5) {
			s := crowd(seed, quota.Soft, slices.Repeat([]float64{tc.asks}, tc.nodes)...)
			s.Limit, s.Sync, s.Delay, s.Jitter = limit(tc.rate, tc.rate, quota.Soft), 50*time.Millisecond, 0, 200*time.Microsecond
			_, got := shares(s, 2*time.Second, 8*time.Second)
			t.Logf("%d nodes, seed %d: got %.1f/s", tc.nodes, seed, got)
			if part := float64(tc.rate) / float64(tc.nodes); slices.Min(got) < .8*part {
				t.Errorf("%d nodes, seed %d: got %.1f/s, their share is %.1f/s", tc.nodes, seed, got, part)
			}
			if reports := Run(s).Reports; reports > int64(25*tc.nodes)*8 {
				t.Errorf("%d nodes, seed %d: %d reports, of at most 25 per node and second", tc.nodes, seed, reports)
			}
		}
	}
}

// TestFloodAsksLeader checks fairness where tokens are so few that the leader decides: nodes that ask for less than
// their share get most of it beside a flood, and what they leave is admitted. By the order of requests alone, each
// would get what its part of all requests is: a twentieth of what it asks for.
func TestFloodAsksLeader(t *testing.T) {
	for seed := range uint64(5) {
		s := crowd(seed, quota.Hard, 2000, 12, 12, 12, 12)
		s.Limit = limit(100, 10, quota.Hard)
		tried, got := shares(s, 2*time.Second, 8*time.Second)
		t.Logf("seed %d: asked for %.0f/s, got %.1f/s", seed, tried, got)
		for n := 1; n < 5; n++ {
			if got[n] < .75*tried[n] {
				t.Errorf("seed %d: node %d asked for %.1f/s, less than its share, and got %.1f/s", seed, n+1, tried[n], got[n])
			}
		}
		if all := got[0] + got[1] + got[2] + got[3] + got[4]; all < 98 {
			t.Errorf("seed %d: %.1f/s admitted of 100/s", seed, all)
		}
	}
}

// TestNewcomer checks that a node that starts to use a contended limit has its share after two sync
// intervals and a round trip, or nearly so under soft.
func TestNewcomer(t *testing.T) {
	const begins, has = 4 * time.Second, 4*time.Second + 200*time.Millisecond + 2*time.Millisecond
	for _, c := range ceilings {
		sum, seeds := 0.0, uint64(100) // the mean of 20 seeds varies by one; of 400 seeds it is 43.0 and 50.1
		for seed := range seeds {
			s := crowd(seed, c, 150, 150, 150, 150)
			s.Duration = 5 * time.Second
			s.Loads[3].From = begins
			_, got := shares(s, has.Round(slot), has.Round(slot)+600*time.Millisecond)
			sum += got[3]
		}
		mean := sum / float64(seeds)
		t.Logf("%v: the newcomer got %.1f/s of 50/s, from two intervals after it began, mean of %d seeds", c, mean, seeds)
		if mean < .83*50 || mean > 1.1*50 {
			t.Errorf("%v: the newcomer got %.1f/s, its share is 50/s", c, mean)
		}
	}
}

// TestShare checks max-min sharing (water filling) against results computed by hand.
func TestShare(t *testing.T) {
	for _, tc := range []struct {
		demand []float64
		all    float64
		want   float64
	}{
		{[]float64{10, 10}, 10, 5},
		{[]float64{2, 10, 10}, 12, 5},
		{[]float64{1, 2, 30}, 10, 7},
	} {
		if got := share(tc.demand, tc.all); got != tc.want {
			t.Errorf("%v of %v: %v, want %v", tc.demand, tc.all, got, tc.want)
		}
	}
	if got := share([]float64{1, 2}, 10); got < 1e9 {
		t.Errorf("there is enough, and the share is %v", got)
	}
}

// TestShareBesideDeficits checks that every node gets its share after one node has used up the burst. All others are owed
// tokens then, and get rates above their shares; these left nothing for nodes that had none: in 28 of 30 seeds, one got
// less than 30 % of its share for two seconds.
func TestShareBesideDeficits(t *testing.T) {
	for seed := range uint64(30) {
		rates := make([]float64, 20)
		for i := range rates {
			rates[i] = 50
		}
		rates[0] = 600
		s := crowd(seed, quota.Soft, rates...)
		s.Limit, s.Delay, s.Jitter = limit(300, 1500, quota.Soft), 5*time.Millisecond, 10*time.Millisecond
		_, got := shares(s, 1500*time.Millisecond, 3500*time.Millisecond)
		for i, g := range got {
			if g < .4*15 {
				t.Errorf("seed %d: node %d gets %.1f/s; its share is 15/s", seed, i+1, g)
			}
		}
	}
}
