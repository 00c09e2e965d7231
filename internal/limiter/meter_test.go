package limiter_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

const hour = time.Hour

var (
	bucketTier   = quota.Tier{Rate: quota.Rate{Tokens: 10, Per: hour}, Burst: 10}
	fixedTier    = quota.Window(quota.FixedWindow, 100, hour)
	slidingTier  = quota.Window(quota.SlidingWindow, 100, hour)
	periodicTier = quota.Window(quota.PeriodicRefill, 100, hour)
	flightTier   = quota.Tier{Kind: quota.Concurrency, Burst: 100}
)

// TestAddSaturates: no sum wraps around.
func TestAddSaturates(t *testing.T) {
	most := tokens(quota.MaxTokens) + 1
	amounts := []quota.Units{math.MinInt64, math.MinInt64 + 1, -most, -1, 0, 1, most, math.MaxInt64 - 1, math.MaxInt64}
	for _, first := range amounts {
		for _, second := range amounts {
			m := limiter.NewMeter(&quota.Tier{}, now0)
			m.Add(first)
			once := min(max(first, -most), most)
			if m.Level() != once {
				t.Fatalf("0%+d: %d, want %d", first, m.Level(), once)
			}
			m.Add(second)
			want := new(big.Int).Add(big.NewInt(int64(once)), big.NewInt(int64(second)))
			if !want.IsInt64() { // far beyond either end
				want = big.NewInt(int64(most) * int64(want.Sign()))
			}
			if want := min(max(quota.Units(want.Int64()), -most), most); m.Level() != want {
				t.Errorf("0%+d%+d: %d, want %d", first, second, m.Level(), want)
			}
		}
	}
}

// TestPeek: a cost of 0 returns the decision for one token, and takes nothing.
func TestPeek(t *testing.T) {
	for _, tier := range []quota.Tier{bucketTier, fixedTier, slidingTier, periodicTier, flightTier} {
		l := limitOf(tier)
		m := meterOf(l, now0)
		for _, cost := range []quota.Units{0, -1, math.MinInt64} {
			before := m
			if v := m.Take(now0, l, cost, 0); !v.Allowed || m != before {
				t.Errorf("%v, full: %+v, and took %d", tier.Kind, v, before.Level()-m.Level())
			}
		}
		m.Take(now0, l, tokens(tier.Burst), 0)
		peek, one := m.Take(now0, l, 0, 0), m.Take(now0, l, tokens(1), 0)
		if peek.Allowed || peek != one {
			t.Errorf("%v, empty: a peek is told %+v, one token %+v", tier.Kind, peek, one)
		}
	}
}

// TestRetierKinds: a change of the kind or period keeps the use.
func TestRetierKinds(t *testing.T) {
	dayTier := quota.Window(quota.FixedWindow, 1000, 24*hour)
	for _, tc := range []struct {
		name     string
		old, new quota.Tier
		used     int64 // before the change
		want     int64 // level after it
	}{
		{"bucket raised: not filled", bucketTier, quota.Tier{Rate: bucketTier.Rate, Burst: 50}, 4, 6},
		{"bucket cut: capped", bucketTier, quota.Tier{Rate: bucketTier.Rate, Burst: 5}, 4, 5},
		{"bucket: debt stays", bucketTier, quota.Tier{Rate: bucketTier.Rate, Burst: 5}, 14, -4},
		{"fixed raised: the difference", fixedTier, quota.Window(quota.FixedWindow, 150, hour), 100, 50},
		{"fixed cut below its use", fixedTier, quota.Window(quota.FixedWindow, 30, hour), 70, -40},
		{"hour to day", fixedTier, dayTier, 70, 930},
		{"day to hour", dayTier, fixedTier, 700, -600},
		{"fixed to sliding", fixedTier, slidingTier, 70, 30},
		{"fixed to bucket", fixedTier, bucketTier, 7, 3},
		{"fixed to bucket: at most to empty", fixedTier, bucketTier, 70, 0},
		{"fixed to bucket: what was owed", fixedTier, bucketTier, 120, -20},
		{"bucket to fixed", bucketTier, fixedTier, 8, 92},
		{"in flight stays in flight", flightTier, quota.Tier{Kind: quota.Concurrency, Burst: 10}, 30, -20},
		{"nothing of a window is in flight", fixedTier, flightTier, 70, 100},
		{"what was in flight is used", flightTier, fixedTier, 70, 30},
	} {
		m := limiter.NewMeter(&tc.old, now0)
		m.Add(-tokens(tc.used))
		m.Retier(now0, &tc.old, &tc.new)
		if m.Level() != tokens(tc.want) {
			t.Errorf("%s: level %d units, want %d tokens", tc.name, m.Level(), tc.want)
		}
		start, end := limiter.Window(&tc.new, now0)
		if tc.old.Kind.Windowed() && tc.new.Kind.Windowed() {
			start, _ = limiter.Window(&tc.old, now0)
		}
		if !sameWindow(&m, start, end) {
			t.Errorf("%s: the window is not the new tier's, from the old one's start", tc.name)
		}
		for _, later := range []time.Duration{0, 2 * hour} { // a checkpoint keeps the start, until the window ends
			if tc.new.Kind != quota.FixedWindow {
				continue
			}
			want := m
			want.Advance(now0.Add(later), &tc.new)
			got := limiter.RestoreMeter(&tc.new, m.Level(), now0, start, 0, now0.Add(later))
			if s, e := want.Bounds(); got.Level() != want.Level() || !sameWindow(&got, s, e) {
				t.Errorf("%s, restored after %v: %+v, want %+v", tc.name, later, got.State(), want.State())
			}
		}
	}
}

func sameWindow(m *limiter.Meter, start, end quota.Time) bool {
	s, e := m.Bounds()
	return s == start && e == end
}

// TestRetierPeriodic: the window continues from its start, and one that would have ended by now keeps its end.
func TestRetierPeriodic(t *testing.T) {
	twice, half := quota.Window(quota.PeriodicRefill, 100, 2*hour), quota.Window(quota.PeriodicRefill, 100, hour/2)
	for _, tc := range []struct {
		new   quota.Tier
		after time.Duration
		want  time.Duration // end, from its start
	}{
		{twice, hour / 2, 2 * hour},
		{half, hour / 4, hour / 2},
		{half, hour / 2, hour},
		{half, hour - 1, hour},
	} {
		m := limiter.NewMeter(&periodicTier, now0)
		m.Add(-tokens(1))
		m.Retier(now0.Add(tc.after), &periodicTier, &tc.new)
		if !sameWindow(&m, now0, now0.Add(tc.want)) {
			_, end := m.Bounds()
			t.Errorf("to %v after %v: ends after %v, want %v", tc.new.Rate, tc.after, end.Sub(now0), tc.want)
		}
	}
}

// TestRestore: the same window keeps its use, a later one is full again.
func TestRestore(t *testing.T) {
	for _, tier := range []quota.Tier{bucketTier, fixedTier, slidingTier, periodicTier, flightTier} {
		before := limiter.NewMeter(&tier, now0)
		now := now0.Add(20 * time.Minute)
		before.Advance(now, &tier)
		before.Add(-tokens(9))
		before.Advance(now.Add(70*time.Minute), &tier) // sliding has returned some use by now
		before.Add(-tokens(3))
		now = now.Add(70 * time.Minute)
		start, _ := before.Bounds()
		for _, later := range []time.Duration{0, time.Minute, 25 * time.Minute, 3 * hour, 1000 * hour} {
			want := before
			want.Advance(now.Add(later), &tier)
			got := limiter.RestoreMeter(&tier, before.Level(), now, start, before.Slope(&tier), now.Add(later))
			// A slope in whole units per second returns a little less.
			slack := quota.Units(min(later, hour) / time.Second)
			if got.Level() > want.Level() || got.Level() < want.Level()-slack {
				t.Errorf("%v, %v later: level %d, want %d", tier.Kind, later, got.Level(), want.Level())
			}
			if s, e := want.Bounds(); !sameWindow(&got, s, e) {
				t.Errorf("%v, %v later: another window", tier.Kind, later)
			}
		}
	}
}

// TestRestoreAhead: the clock that wrote the checkpoint was ahead. Nothing is filled early, and nothing stays for
// years.
func TestRestoreAhead(t *testing.T) {
	for _, tier := range []quota.Tier{bucketTier, fixedTier, slidingTier, periodicTier, flightTier} {
		for _, ahead := range []time.Duration{time.Second, hour, 30 * 365 * 24 * hour} {
			written := now0.Add(ahead)
			start, _ := limiter.Window(&tier, written)
			m := limiter.RestoreMeter(&tier, 0, written, start, 0, now0)
			if m.Level() != 0 {
				t.Errorf("%v, %v ahead: level %d, want 0", tier.Kind, ahead, m.Level())
			}
			m.Advance(now0.Add(4*hour), &tier)
			if full := m.Level() >= tier.BurstUnits(); full == (tier.Kind == quota.Concurrency) {
				t.Errorf("%v, %v ahead: after 4 hours the level is %d", tier.Kind, ahead, m.Level())
			}
		}
	}
}

// TestSlope checks the rate at which a level changes by itself, which grants carry to members.
func TestSlope(t *testing.T) {
	m := limiter.NewMeter(&bucketTier, now0)
	if got := m.Slope(&bucketTier); got != 2777 { // 10/h
		t.Errorf("bucket: %d", got)
	}
	start, end := limiter.Window(&slidingTier, now0)
	m = limiter.NewMeter(&slidingTier, start)
	m.Add(-tokens(36))
	if got := m.Slope(&slidingTier); got != 0 {
		t.Errorf("sliding, in the window of the use: %d", got)
	}
	m.Advance(end, &slidingTier)
	if got := m.Slope(&slidingTier); got != 10_000 || m.Level() != tokens(64) {
		t.Errorf("sliding, in the next: slope %d, level %d", got, m.Level())
	}
	m.Advance(end.Add(30*time.Minute), &slidingTier)
	if m.Level() != tokens(82) {
		t.Errorf("half an hour later: %d", m.Level())
	}
	for _, tier := range []quota.Tier{fixedTier, periodicTier, flightTier} {
		if m := limiter.NewMeter(&tier, now0); m.Slope(&tier) != 0 {
			t.Errorf("%v: %d", tier.Kind, m.Slope(&tier))
		}
	}
}

// TestTimeForEstimates checks a member's estimate of the level, in the meter's window.
func TestTimeForEstimates(t *testing.T) {
	start, end := limiter.Window(&fixedTier, now0)
	now := start.Add(15 * time.Minute)
	for _, tc := range []struct {
		tier        quota.Tier
		level, cost int64
		want        time.Duration
	}{
		{bucketTier, 3, 3, 0},
		{bucketTier, 3, 4, 6 * time.Minute},
		{bucketTier, -10, 10, 2 * hour},
		{bucketTier, 0, 11, math.MaxInt64},
		{fixedTier, 0, 1, end.Sub(now)},
		{fixedTier, -50, 100, end.Sub(now)},
		{fixedTier, 0, 101, math.MaxInt64},
		{slidingTier, 0, 10, end.Sub(now) + 6*time.Minute},
		{slidingTier, 0, 100, end.Sub(now) + hour},
		{periodicTier, 0, 100, hour},
		{flightTier, 0, 1, math.MaxInt64},
		{flightTier, 1, 1, 0},
	} {
		m := limiter.NewMeter(&tc.tier, now)
		if got := m.TimeFor(now, &tc.tier, tokens(tc.level), tokens(tc.cost)); got != tc.want {
			t.Errorf("%v: from %d to %d in %v, want %v", tc.tier.Kind, tc.level, tc.cost, got, tc.want)
		}
	}
}
