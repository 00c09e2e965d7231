package plan

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

var seeds = flag.Int("plan-seeds", 400, "seeds of TestBetween")

func tiers(rng *rand.Rand) []quota.Tier {
	rate := quota.Rate{Tokens: 1 + rng.Int64N(20), Per: time.Duration(1+rng.IntN(5)) * time.Second}
	out := []quota.Tier{{Kind: quota.TokenBucket, Rate: rate, Burst: 1 + rng.Int64N(40)}}
	for _, k := range []quota.Kind{quota.FixedWindow, quota.SlidingWindow, quota.PeriodicRefill} {
		out = append(out, quota.Tier{Kind: k, Rate: rate, Burst: rate.Tokens})
	}
	return append(out, quota.Tier{Kind: quota.CalendarWindow, Rate: quota.Rate{Tokens: 100, Per: time.Minute}, Burst: 100, Calendar: quota.Calendar{Unit: quota.Minute}})
}

// TestBetween checks that what a meter refuses request by request lies between the bounds of Replay,
// whatever the moments of the demand within its seconds, and that the bounds of windows are exact.
func TestBetween(t *testing.T) {
	for seed := range uint64(*seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, tier := range tiers(rng) {
			start := history.Second(1_000_000 + rng.IntN(100))
			length := []int{1, 1, 5, 60}[rng.IntN(4)] // length of a demand in seconds
			var events []quota.Time
			for s := range history.Second(60) {
				for range rng.IntN(1 + rng.IntN(30)) {
					events = append(events, at(start+s)+quota.Time(rng.Int64N(int64(time.Second))))
				}
			}
			slices.Sort(events)
			demand, refused := recorded(events, length), oneByOne(&tier, start, events)
			got := Replay(&tier, demand)
			if got.Estimate {
				if off := max(refused-got.RefusedAtMost, got.RefusedAtLeast-refused); length == 1 && off > got.Attempted/5 {
					t.Fatalf("seed %d, %v: refused %d, estimated %+v", seed, tier.Kind, refused, got)
				}
				continue
			}
			if got.RefusedIfEven < got.RefusedAtLeast || got.RefusedIfEven > got.RefusedAtMost {
				t.Fatalf("seed %d, %v: %+v", seed, tier.Kind, got)
			}
			if refused < got.RefusedAtLeast || refused > got.RefusedAtMost {
				t.Fatalf("seed %d, %v: refused %d, replayed %+v", seed, tier.Kind, refused, got)
			}
			if k := tier.Kind; (k == quota.FixedWindow || k == quota.CalendarWindow) && length == 1 && !got.Exact() {
				t.Fatalf("seed %d, %v: not exact: %+v", seed, k, got)
			}
		}
	}
}

func recorded(events []quota.Time, length int) []Demand {
	var out []Demand
	for _, e := range events {
		s := history.Second(e / quota.Time(time.Second))
		s -= s % history.Second(length)
		if n := len(out); n == 0 || out[n-1].At != s {
			out = append(out, Demand{At: s, Seconds: length})
		}
		out[len(out)-1].Attempted += quota.Token
	}
	return out
}

func oneByOne(t *quota.Tier, start history.Second, events []quota.Time) (refused quota.Units) {
	if len(events) > 0 {
		start = history.Second(events[0] / quota.Time(time.Second))
	}
	m := limiter.NewMeter(t, at(start))
	for _, e := range events {
		m.Advance(e, t)
		if m.Level() < quota.Token {
			refused += quota.Token
			continue
		}
		m.Add(-quota.Token)
	}
	return refused
}

// TestReplayWidth checks that the two bounds are close enough to be useful.
func TestReplayWidth(t *testing.T) {
	tier := quota.Tier{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 200}
	var demand []Demand
	for s := range history.Second(600) {
		demand = append(demand, Demand{At: s, Attempted: quota.Units(80+(s%20)*5) * quota.Token})
	}
	o := Replay(&tier, demand)
	if o.RefusedAtLeast == 0 || o.RefusedAtMost > o.RefusedAtLeast+o.Attempted/20 {
		t.Fatalf("%+v", o)
	}
}

// TestSuggest checks that the suggested rate refuses no more than the requested part, and that one token
// less refuses more.
func TestSuggest(t *testing.T) {
	tier := quota.Tier{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20}
	var demand []Demand
	for s := range history.Second(300) {
		demand = append(demand, Demand{At: s, Attempted: quota.Units(50+50*(s%10/9)) * quota.Token})
	}
	next, ok := Suggest(tier, demand, 0.01)
	o := Replay(&next, demand)
	if !ok || float64(o.RefusedAtMost) > 0.01*float64(o.Attempted) || next.Burst != 2*next.Rate.Tokens {
		t.Fatalf("%+v: %+v", next, o)
	}
	less := next
	less.Rate.Tokens--
	less.Burst -= 2
	if o := Replay(&less, demand); float64(o.RefusedAtMost) <= 0.01*float64(o.Attempted) {
		t.Fatalf("%+v would do: %+v", less, o)
	}
}

// TestBetweenAll is TestBetween for several tiers, none of which is charged if one refuses.
func TestBetweenAll(t *testing.T) {
	for seed := range uint64(*seeds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		all := tiers(rng)
		both := []quota.Tier{all[0], all[1]}
		start := history.Second(1_000_000 + rng.IntN(100))
		var events []quota.Time
		for s := range history.Second(60) {
			for range rng.IntN(1 + rng.IntN(30)) {
				events = append(events, at(start+s)+quota.Time(rng.Int64N(int64(time.Second))))
			}
		}
		slices.Sort(events)
		if len(events) == 0 {
			continue
		}
		first := at(history.Second(events[0] / quota.Time(time.Second)))
		meters := []limiter.Meter{limiter.NewMeter(&both[0], first), limiter.NewMeter(&both[1], first)}
		refused := quota.Units(0)
		for _, e := range events {
			for i := range meters {
				meters[i].Advance(e, &both[i])
			}
			if min(meters[0].Level(), meters[1].Level()) < quota.Token {
				refused += quota.Token
				continue
			}
			for i := range meters {
				meters[i].Add(-quota.Token)
			}
		}
		got := ReplayAll(both, recorded(events, 1))
		if refused < got.RefusedAtLeast || refused > got.RefusedAtMost {
			t.Fatalf("seed %d: refused %d, replayed %+v", seed, refused, got)
		}
	}
}

// TestWindowsWithinSeconds checks windows of a tenth of a second. Demand that comes evenly and fits each
// window must not count as refused, even if windows do not begin with seconds.
func TestWindowsWithinSeconds(t *testing.T) {
	for _, per := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 600 * time.Millisecond, time.Second, 1100 * time.Millisecond} {
		tier := quota.Window(quota.FixedWindow, 10, per)
		var events []quota.Time
		for i := range 200 {
			events = append(events, quota.Time(10*time.Second)+quota.Time(i)*quota.Time(per)/10)
		}
		truth, got := oneByOne(&tier, 0, events), Replay(&tier, recorded(events, 1))
		if truth < got.RefusedAtLeast || truth > got.RefusedAtMost {
			t.Errorf("windows of %v: %d is refused; replayed %+v", per, truth, got)
		}
	}
}

// TestScaled checks that a burst in proportion does not overflow.
func TestScaled(t *testing.T) {
	got := scaled(quota.Tier{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: quota.MaxTokens / 2}, quota.MaxTokens/2)
	if got.Burst != quota.MaxTokens {
		t.Errorf("burst %d; want %d", got.Burst, quota.MaxTokens)
	}
}
