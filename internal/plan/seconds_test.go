package plan

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// pointOf returns the point recorded for some seconds.
func pointOf(start history.Second, seconds []quota.Units) history.Point {
	p := history.Point{Start: start, Seconds: len(seconds)}
	s := slices.Clone(seconds)
	slices.Sort(s)
	for _, v := range s {
		p.Attempted += v
	}
	at := func(percent int) quota.Units { return s[(len(s)*percent+99)/100-1] }
	p.P50, p.P95, p.P99, p.Peak = at(50), at(95), at(99), s[len(s)-1]
	return p
}

func someMinutes(rng *rand.Rand, minutes, per int) (points []history.Point, real []Demand) {
	for m := range minutes {
		start := history.Second(1_200_000 + m*per)
		v := make([]quota.Units, per)
		for i := range v {
			v[i] = quota.Units(rng.IntN(40)) * quota.Token
			if rng.IntN(20) == 0 {
				v[i] *= 4
			}
			if v[i] > 0 {
				real = append(real, Demand{At: start + history.Second(i), Attempted: v[i]})
			}
		}
		points = append(points, pointOf(start, v))
	}
	return points, real
}

// TestSeconds checks that modelled seconds have the points' sums and peaks, and nearly the real sizes.
func TestSeconds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	points, _ := someMinutes(rng, 10, 60)
	points = append(points, pointOf(2_000_040, []quota.Units{7}), pointOf(3_000_000, make([]quota.Units, 60)))
	for _, order := range []Order{Apart, Together} {
		got := map[history.Second]history.Point{}
		last := history.Second(0)
		for d := range Seconds(points, order) {
			if d.At <= last || d.Attempted <= 0 {
				t.Fatalf("order %d: %+v after %d", order, d, last)
			}
			last = d.At
			m := got[d.At-d.At%60]
			m.Attempted += d.Attempted
			m.Peak = max(m.Peak, d.Attempted)
			got[d.At-d.At%60] = m
		}
		for _, p := range points {
			if g := got[p.Start-p.Start%60]; g.Attempted != p.Attempted || g.Peak != p.Peak {
				t.Errorf("order %d: %d, peak %d; want %d, %d", order, g.Attempted, g.Peak, p.Attempted, p.Peak)
			}
		}
	}
}

// TestReplayPoints checks that windows of a minute are exact on minutes, and that buckets are close to the
// truth.
func TestReplayPoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		points, real := someMinutes(rng, 30, 60)
		window := quota.Window(quota.FixedWindow, 900, time.Minute)
		truth := Replay(&window, real)
		if got := ReplayPoints([]quota.Tier{window}, points); !got.Exact() || got.RefusedAtLeast != truth.RefusedAtLeast || got.RefusedAtLeast == 0 {
			t.Fatalf("window: %+v, want %+v", got, truth)
		}
		bucket := quota.Tier{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 22, Per: time.Second}, Burst: 60}
		truth = Replay(&bucket, real)
		got := ReplayPoints([]quota.Tier{bucket}, points)
		if off := max(got.RefusedAtLeast-truth.RefusedAtMost, truth.RefusedAtLeast-got.RefusedAtMost); !got.Estimate || off > truth.Attempted/50 {
			t.Fatalf("bucket: %+v, want about %+v", got, truth)
		}
	}
}

// TestWindowsBesidePoints checks that minutes yield only an estimate for windows that do not begin and end
// with them, including windows of less than a second.
func TestWindowsBesidePoints(t *testing.T) {
	points := []history.Point{{Start: 1200, Seconds: 60, Counts: history.Counts{Attempted: quota.FromTokens(60)}, Peak: quota.Token, P50: quota.Token, P95: quota.Token, P99: quota.Token}}
	for per, exact := range map[time.Duration]bool{500 * time.Millisecond: false, 60500 * time.Millisecond: false, 90 * time.Second: false, time.Minute: true, 2 * time.Minute: true} {
		window := quota.Window(quota.FixedWindow, 10, per)
		if got := ReplayPoints([]quota.Tier{window}, points); got.Exact() != exact {
			t.Errorf("windows of %v: exact is %v; want %v: %+v", per, got.Exact(), exact, got)
		}
	}
	if got := ReplayPoints([]quota.Tier{quota.Window(quota.FixedWindow, 10, 500*time.Millisecond)}, points); got.RefusedAtLeast != 0 {
		t.Errorf("one token a second is refused by ten in half of one: %+v", got)
	}
}

// TestHugePoints checks that modelled seconds of amounts near the maximum have the point's sum and peak.
func TestHugePoints(t *testing.T) {
	u := quota.FromTokens(quota.MaxTokens) / 8
	p := history.Point{Start: 3600, Seconds: 3600, Counts: history.Counts{Attempted: 2 * u}, Peak: u, P50: 0, P95: 0, P99: 0}
	sum, peak := quota.Units(0), quota.Units(0)
	for d := range Seconds([]history.Point{p}, Together) {
		sum, peak = sum+d.Attempted, max(peak, d.Attempted)
	}
	if sum != p.Attempted || peak != u {
		t.Errorf("sum %d, peak %d; want %d and %d", sum, peak, p.Attempted, u)
	}
}

// TestReplayOfTwoYears checks that a replay by the second does not keep every second in memory.
func TestReplayOfTwoYears(t *testing.T) {
	points := make([]history.Point, 100)
	for h := range points {
		points[h] = history.Point{Start: history.Second(h) * 3600, Seconds: 3600, Counts: history.Counts{Attempted: 3600 * quota.Token}, Peak: quota.Token, P50: quota.Token, P95: quota.Token, P99: quota.Token}
	}
	bucket := []quota.Tier{{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 2, Per: time.Second}, Burst: 4}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := ReplayPoints(bucket, points)
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(len(points)); each > 100<<10 {
		t.Errorf("%d bytes for each hour; want no more than its sizes", each)
	}
	if o.RefusedAtMost != 0 || o.Attempted != 360_000*quota.Token {
		t.Errorf("got %+v", o)
	}
}

// TestFullest checks that days follow the local clock, even when it is set back, and that windows that
// points do not tell apart are unknown.
func TestFullest(t *testing.T) {
	z, err := zone.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := quota.Per(100, quota.Calendar{Unit: quota.Day, Zone: z})
	begin := history.Second(time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC).Unix()) // 25 October has 25 hours
	var points []history.Point
	for m := range history.Second(49 * 60) {
		points = append(points, history.Point{Start: begin + m*60, Seconds: 60, Counts: history.Counts{Attempted: quota.Token}})
	}
	if most, known := Fullest(&day, points); !known || most != 25*60*quota.Token {
		t.Errorf("the fullest day has %d tokens, %v; want 1500", most.Tokens(), known)
	}
	hours := []history.Point{{Start: begin, Seconds: 3600}}
	sliding := quota.Window(quota.SlidingWindow, 100, time.Minute)
	for _, tier := range []quota.Tier{day, sliding} {
		if _, known := Fullest(&tier, hours); known {
			t.Errorf("%v of hours is known", tier.Kind)
		}
	}
}
