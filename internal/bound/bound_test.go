package bound

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func TestOf(t *testing.T) {
	c := Cluster{Nodes: 3, Delay: time.Millisecond, Sync: 100 * time.Millisecond, Lease: 3 * time.Second, Election: 600 * time.Millisecond, CutOff: time.Minute}
	bucket := quota.Limit{Rate: quota.Rate{Tokens: 1000, Per: time.Second}, Burst: 1000}
	with := func(f func(l *quota.Limit)) *quota.Limit {
		l := bucket
		f(&l)
		return &l
	}
	for name, tc := range map[string]struct {
		l                       *quota.Limit
		surge, failover, cutOff float64
	}{
		"soft":   {&bucket, 2*1000 + 3*204 + 6 + 4, 2*1000 + 3*1104 + 6 + 4, 1000 + 63000},
		"hard":   {with(func(l *quota.Limit) { l.Ceiling = quota.Hard }), 0, 0, 0},
		"leader": {with(func(l *quota.Limit) { l.Decide = quota.AtLeader }), 0, 2*1000 + 3*1104 + 6 + 4, 1000 + 63000},
		"waits":  {with(func(l *quota.Limit) { l.MaxDebt = 2 * time.Second }), 2000, 2000 + 2*1000 + 3*1104 + 6 + 4, 2000 + 1000 + 63000},
		"window": {with(func(l *quota.Limit) { l.Kind = quota.FixedWindow }), 2*1000 + 6, 2*1000 + 6, 1000},
		"open":   {with(func(l *quota.Limit) { l.CutOff.Policy = quota.CutOffOpen }), 2622, 5322, math.Inf(1)},
		"closed": {with(func(l *quota.Limit) { l.CutOff.Policy = quota.CutOffClosed }), 2622, 5322, 4000},
		"own 1/s": {with(func(l *quota.Limit) {
			l.CutOff = quota.CutOff{Policy: quota.CutOffRate, Rate: quota.Rate{Tokens: 1, Per: time.Second}}
		}), 2622, 5322, 4060},
	} {
		for _, s := range Of(tc.l, c) {
			want := map[string]float64{Surge: tc.surge, Steady: tc.surge, Failover: tc.failover, CutOff: tc.cutOff}[s.Name]
			got := s.Worst
			if s.Unbounded {
				got = math.Inf(1)
			}
			if got != want && math.Abs(got-want) > 1e-6 || s.Typical > got {
				t.Errorf("%s, %s: worst %v, typical %v; want %v", name, s.Name, got, s.Typical, want)
			}
			if s.When == "" || s.Formula == "" || s.Basis == "" || !s.Unbounded && !strings.Contains(s.Numbers, num(s.Worst)) {
				t.Errorf("%s, %s: %+v; every word is wanted, and the number at the end", name, s.Name, s)
			}
		}
	}
	more := c
	more.Clients = 50
	if got := Most(&bucket, more); math.Abs(got-(2622+12*50+float64(bucket.Burst)/2)) > 1e-6 {
		t.Errorf("50 clients: %v; want 12 tokens more for each, and half a burst", got)
	}
	if got := Of(with(func(l *quota.Limit) { l.Class = quota.Unlimited }), c); got != nil {
		t.Errorf("unlimited: %+v; want nothing", got)
	}
	if len(Exceptions(&bucket)) != 0 || len(Exceptions(with(func(l *quota.Limit) { l.Ceiling = quota.Hard }))) == 0 {
		t.Error("exceptions: want them for hard, and only for hard")
	}
}

// TestOfTiers: of several tiers the one counts that can be exceeded most, in each
// situation.
func TestOfTiers(t *testing.T) {
	c := Cluster{Nodes: 3, Sync: 100 * time.Millisecond, Lease: 3 * time.Second, Election: 600 * time.Millisecond, CutOff: time.Minute}
	l := quota.Limit{Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 10, More: []quota.Tier{
		{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 100, Per: time.Hour}, Burst: 100},
		{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 20, Per: time.Minute}, Burst: 20},
	}}
	want := map[string]float64{Steady: 2*100 + 6, Surge: 2*100 + 6, Failover: 2*100 + 6, CutOff: 10 + 10*63}
	for _, s := range Of(&l, c) {
		of := ", of tier 2"
		if s.Name == CutOff {
			of = ", of tier 1"
		}
		if s.Worst != want[s.Name] || !strings.HasSuffix(s.Numbers, of) {
			t.Errorf("%s: %v, %s; want %v%s", s.Name, s.Worst, s.Numbers, want[s.Name], of)
		}
	}
	if Most(&l, c) != want[Surge] {
		t.Errorf("most %v; want %v", Most(&l, c), want[Surge])
	}
}
