package load

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

func rate(t testing.TB, s string) quota.Rate {
	t.Helper()
	r, err := quota.ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// decisions parses "moment:answer" with + for admitted, - for refused and ? for no answer.
func decisions(t testing.TB, s string) (out []decision) {
	t.Helper()
	for f := range strings.FieldsSeq(s) {
		at, answer, _ := strings.Cut(f, ":")
		moment, err := time.ParseDuration(at)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, decision{moment: moment, cost: 1, allowed: answer == "+", valid: answer != "?"})
	}
	return out
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name, decisions              string
		admitted, ideal, over, under int64
		excess                       int64
	}{
		{"as the ideal", "0s:+ 0s:+ 0s:- 1s:+", 3, 3, 0, 0, 0},
		{"too many", "0s:+ 0s:+ 0s:+ 0s:+", 4, 2, 2, 0, 2},
		{"too few", "0s:+ 0s:- 0s:- 0s:-", 1, 2, 0, 1, 0},
		{"order is by moment", "1s:+ 0s:+ 0s:+ 0s:-", 3, 3, 0, 0, 0},
		{"no answer is nothing", "0s:+ 0s:? 0s:+ 0s:?", 2, 2, 0, 0, 0},
		// The ideal limiter does not know that the cluster owes a token: at 1 s it admits.
		{"parallel worlds", "0s:+ 0s:+ 0s:+ 1s:-", 3, 3, 1, 1, 1},
		{"no fraction is lost", "0s:+ 0s:+ 500ms:- 1s:+ 1500ms:- 1999999999ns:- 2s:+", 4, 4, 0, 0, 0},
		{"a burst does not grow", "0s:+ 100s:+ 100s:+ 100s:-", 3, 3, 0, 0, 0},
		{"half a token is rounded up", "0s:+ 0s:+ 500ms:+", 3, 2, 1, 0, 1},
	} {
		got := compare(decisions(t, c.decisions), 1, &quota.Limit{Rate: rate(t, "1/s"), Burst: 2}, 0)
		if got.Admitted != c.admitted || got.IdealAdmitted != c.ideal || got.Over != c.over || got.Under != c.under || got.WorstExcess != c.excess {
			t.Errorf("%s: %+v, want %+v", c.name, got, c)
		}
	}
}

func TestCompareByKey(t *testing.T) {
	d := decisions(t, "0s:+ 0s:- 0s:+ 0s:+ 0s:+ 0s:+")
	for i := range d[3:] {
		d[3+i].key = 1
	}
	c := compare(d, 2, &quota.Limit{Rate: rate(t, "1/s"), Burst: 2}, 0)
	if over, under := c.byKey(); c.Over != 2 || c.Under != 1 || over != 1 || under != 0 {
		t.Errorf("by decision +%d -%d, by key +%d -%d; want +2 -1, +1 -0", c.Over, c.Under, over, under)
	}
}

// TestCompareWithItself checks that a cluster which decides like the ideal has no error, for any
// traffic.
func TestCompareWithItself(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	r := rate(t, "7/3s")
	buckets := make([]limiter.Bucket, 5)
	for i := range buckets {
		buckets[i] = limiter.NewBucket(quota.FromTokens(4), 0)
	}
	var all []decision
	now := time.Duration(0)
	for range 20_000 {
		now += time.Duration(rng.IntN(int(100 * time.Millisecond)))
		k := int32(rng.IntN(len(buckets)))
		all = append(all, decision{key: k, moment: now, cost: 1, valid: true, allowed: buckets[k].Take(quota.Time(now), r, quota.FromTokens(4), quota.Token)})
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	got := compare(all, len(buckets), &quota.Limit{Rate: r, Burst: 4}, 0)
	if got.Over != 0 || got.Under != 0 || got.WorstExcess != 0 || got.Admitted != got.IdealAdmitted || got.Admitted == 0 {
		t.Errorf("%+v", got)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		spread string
		n      int
		want   []int
	}{{"even", 300, []int{100, 100, 100}}, {"90/5/5", 1000, []int{900, 50, 50}}, {"0/1/0", 10, []int{0, 10, 0}}, {"1/2/1", 4, []int{1, 2, 1}}} {
		s, err := parseSpread("skew", c.spread, 3)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int, 3)
		for i := range c.n {
			got[s.next()]++
			// Each node is at most one request away from its exact share.
			for k, n := range got {
				if d := float64(n) - float64((i+1)*s.weights[k])/float64(s.total); d > 1 || d < -1 {
					t.Fatalf("%s: after %d requests node %d has %d", c.spread, i+1, k, n)
				}
			}
		}
		for k := range got {
			if got[k] != c.want[k] {
				t.Errorf("%s: %v, want %v", c.spread, got, c.want)
			}
		}
	}
	for _, bad := range []string{"1/1", "a/b/c", "-1/1/1", "0/0/0", "1.5/1/1", "1/1/1/1"} {
		if _, err := parseSpread("skew", bad, 3); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestMayAdmit(t *testing.T) {
	l := &quota.Limit{Rate: rate(t, "10/m"), Burst: 5}
	for elapsed, want := range map[time.Duration]int64{0: 5, time.Millisecond: 6, 6 * time.Second: 6, time.Minute: 15, 90 * time.Second: 20} {
		if got := mayAdmit(l, elapsed); got != want {
			t.Errorf("in %v: %d, want %d", elapsed, got, want)
		}
	}
}
