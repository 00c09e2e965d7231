package leader

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// arrivals draws the count of one interval: batches of a size, as a Poisson process of the given
// rate.
type arrivals struct{ clumps, size float64 }

func (a arrivals) draw(r *rand.Rand, took time.Duration) float64 {
	n := 0.0
	for left := took.Seconds() * a.clumps; ; n++ {
		if left -= r.ExpFloat64(); left < 0 {
			return n * a.size
		}
	}
}

// TestDispersion has members report every 100 ms for a minute, with seeds 1 to 5, and checks the
// estimated batch size.
func TestDispersion(t *testing.T) {
	const sync = 100 * time.Millisecond
	steady := func(clumps, size float64) func(int) arrivals {
		return func(int) arrivals { return arrivals{clumps, size} }
	}
	for _, tc := range []struct {
		name     string
		at       func(interval int) arrivals
		least    float64
		most     float64
		uneven   bool // reports come early too
		silences bool // reports without counts are not sent
		members  int  // 0 is 1
	}{
		{name: "silence", at: steady(0, 1), least: 1, most: 1},
		{name: "Poisson, few", at: steady(5, 1), least: 1, most: 1},
		{name: "Poisson, many", at: steady(1000, 1), least: 1, most: 1},
		{name: "Poisson, reports at odd times", at: steady(200, 1), uneven: true, least: 1, most: 1},
		{name: "clumps of 10", at: steady(20, 10), least: 5, most: 17},
		{name: "clumps of 10, reports at odd times", at: steady(50, 10), uneven: true, least: 5, most: 17},
		{name: "clumps of 10, rare", at: steady(1, 10), members: 10, silences: true, least: 5, most: 17},
		{name: "clumps of 100", at: steady(30, 100), least: 55, most: 160},
		{name: "on and off every second", at: func(i int) arrivals { return arrivals{float64(i/10%2) * 300, 1} }, least: 1, most: 2.5},
		{name: "a surge after 30 s", at: func(i int) arrivals { return arrivals{20 + float64(i/300)*1000, 1} }, least: 1, most: 1},
	} {
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed+1, 0))
			var d dispersion
			s := make([]series, max(tc.members, 1))
			now := quota.Time(time.Hour)
			for i := range 600 {
				took := sync
				if tc.uneven {
					took = time.Duration((0.05 + 1.4*r.Float64()) * float64(sync))
				}
				now = now.Add(took)
				for j := range s {
					if n := tc.at(i).draw(r, took); n > 0 || !tc.silences {
						s[j].add(now, n, sync, &d)
					}
				}
			}
			if got := d.size() / float64(quota.Token); got < tc.least || got > tc.most {
				t.Errorf("%s: seed %d: clumps of %.1f tokens, want %v to %v", tc.name, seed+1, got, tc.least, tc.most)
			}
		}
	}
}

// TestDispersionBounds feeds counts that no traffic produces.
func TestDispersionBounds(t *testing.T) {
	var d dispersion
	for range 1000 {
		d.add(0, 1e12, 0)
		if size := d.size(); size < float64(quota.Token) || size > maxBatchTokens*float64(quota.Token) || math.IsNaN(size) {
			t.Fatalf("clumps of %v Units; want 1 to %d tokens", size, maxBatchTokens)
		}
	}
	d = dispersion{}
	for range 1000 {
		d.add(30, 20, 10) // a trend: a negative autocovariance of differences
	}
	if size := d.size(); size != float64(quota.Token) {
		t.Errorf("clumps of %v Units of counts that fall and fall; want one token", size)
	}
}

func TestFollow(t *testing.T) {
	const token = float64(quota.Token)
	for _, tc := range []struct {
		name             string
		avg, count, size float64 // tokens per second, tokens, tokens
		took             time.Duration
		least, most      float64 // tokens per second
	}{
		{"as expected", 100, 10, 1, 100 * time.Millisecond, 100, 100},
		{"a little more", 100, 15, 1, 100 * time.Millisecond, 105, 125},
		{"a surge", 100, 100, 1, 100 * time.Millisecond, 850, 950},
		{"a surge of clumps of 10", 100, 400, 10, 100 * time.Millisecond, 3000, 3700},
		{"one request of 10 tokens is none", 0, 10, 10, 2 * time.Millisecond, 20, 40},
		{"ten requests of a token in that time are", 0, 10, 1, 2 * time.Millisecond, 3000, 3500},
		{"silence", 1000, 0, 1, 100 * time.Millisecond, 0, 0},
		{"silence between clumps says less", 100, 0, 10, 100 * time.Millisecond, 60, 80},
		{"what is left of a fading average", 0.4, 0, 1, 100 * time.Millisecond, 0, 0},
	} {
		got := float64(follow(float32(tc.avg*token), tc.count*token, tc.size*token, tc.took.Seconds(), math.Exp(-tc.took.Seconds()/0.3))) / token
		if got < tc.least-1e-6 || got > tc.most+1e-6 {
			t.Errorf("%s: %.1f tokens a second, want %v to %v", tc.name, got, tc.least, tc.most)
		}
	}
}
