package leader

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func every(quota.LimitName) bool { return true }

// TestShownRates: the displayed rate of a key follows the attempts over seconds, not the bursts
// within them, and decays when they stop.
func TestShownRates(t *testing.T) {
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20,
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_000_000_000_000)
	l := New(Config{}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, now)
	e := quota.ReportEntry{Key: quota.Key{LimitName: limits.All()[0].LimitName, Key: "k"}, Epoch: 1}
	shown := func() quota.KeyRate {
		return l.Rates(now, Query{Top: 1, Limits: every})[0]
	}
	seq := quota.Seq(0)
	use := func(admitted, refused int64) {
		e.Overdrawn += quota.FromTokens(admitted)
		e.Refused += quota.FromTokens(refused)
		seq++
		if _, err := l.Report(now, quota.Report{Term: 1, From: "a", Seq: seq, Entries: []quota.ReportEntry{e}}); err != nil {
			t.Fatal(err)
		}
	}
	use(7, 0)
	now = now.Add(5 * time.Millisecond)
	use(0, 0)
	if k := shown(); k.Demand > 7 || k.Rate > 7 {
		t.Errorf("seven requests at once: demand %.1f/s, rate %.1f/s; want no more than 7", k.Demand, k.Rate)
	}
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		use(1, 9)
	}
	if k := shown(); math.Abs(k.Demand-100) > 10 || math.Abs(k.Rate-10) > 1 {
		t.Errorf("10 of 100/s admitted for 10 s: demand %.1f/s, rate %.1f/s", k.Demand, k.Rate)
	}
	now = now.Add(10 * time.Second)
	if k := shown(); k.Demand > 1 || k.Rate > 0.1 {
		t.Errorf("10 s of silence: demand %.1f/s, rate %.1f/s; want them gone", k.Demand, k.Rate)
	}
}

// TestRatesOfRareChecks: the displayed rate of a key that is asked for rarely, and closes between checks, is right on
// average over time. Each check is reported a second after it was made, in a final report.
func TestRatesOfRareChecks(t *testing.T) {
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 1000, Per: time.Second}, Burst: 1000,
	}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	now := quota.Time(1_000_000_000_000)
	l := New(Config{}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, now)
	const perSecond = 0.3
	count, sum, looks := 0, 0.0, 0
	for report, epoch := now, quota.Seq(1); looks < 50_000; now = now.Add(50 * time.Millisecond) {
		if now >= report {
			if epoch > 1 {
				e := quota.ReportEntry{Key: quota.Key{LimitName: limits.All()[0].LimitName, Key: "k"}, Epoch: epoch, Overdrawn: quota.Token, Unreported: quota.Token, Final: true}
				if _, err := l.Report(now, quota.Report{Term: 1, From: "a", Seq: epoch, Entries: []quota.ReportEntry{e}}); err != nil {
					t.Fatal(err)
				}
				count++
			}
			epoch++
			report = now.Add(time.Second + time.Duration(rng.ExpFloat64()/perSecond*float64(time.Second)))
		}
		l.Sweep(now)
		looks++
		for _, k := range l.Rates(now, Query{Top: 1, Limits: every}) {
			sum += k.Demand
		}
	}
	got, want := sum/float64(looks), float64(count)/(float64(looks)*0.05)
	if math.Abs(got-want) > 0.05*want {
		t.Logf("count %d looks %d", count, looks)
		t.Errorf("%.3f/s are shown on average, and there were %.3f/s", got, want)
	}
}

// TestRatesOfTheLog: a key that was used up before its leader died is listed by the next one,
// although it has not been used since: after the used keys, and within the requested number.
func TestRatesOfTheLog(t *testing.T) {
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 5, Per: time.Hour}, Burst: 5,
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_000_000_000_000)
	var log []quota.KeyLevel
	for _, name := range []string{"b", "a", "c"} {
		k := quota.Key{LimitName: limits.All()[0].LimitName, Key: name}
		log = append(log, quota.KeyLevel{Key: k, At: now, Full: quota.FromTokens(5), FullAt: now.Add(time.Hour)})
	}
	l := New(Config{}, 0, 2, "a", []quota.NodeID{"a"}, limits, LinesOf(log), now)
	used := quota.ReportEntry{Key: log[2].Key, Epoch: 1, Refused: quota.FromTokens(1), Want: quota.FromTokens(1)}
	if _, err := l.Report(now, quota.Report{Term: 2, From: "a", Seq: 1, Entries: []quota.ReportEntry{used}}); err != nil {
		t.Fatal(err)
	}
	for top, want := range []string{"", "c", "c a", "c a b", "c a b"} {
		got := ""
		for i, k := range l.Rates(now, Query{Top: top, Limits: every}) {
			if i > 0 {
				got += " "
			}
			got += k.Key.Key
			if k.Remaining != 0 {
				t.Errorf("%s has %d left, it was used up", k.Key.Key, k.Remaining)
			}
		}
		if got != want {
			t.Errorf("top %d: %q, want %q", top, got, want)
		}
	}
	if got := l.Rates(now, Query{Top: 9, Limits: func(quota.LimitName) bool { return false }}); len(got) != 0 {
		t.Errorf("of no limit: %v", got)
	}
	scan := l.ScanRates(Query{Top: 9, Limits: every})
	steps := 1
	for ; scan.Some(now, 1) && steps < 9; steps++ {
	}
	if got := scan.Take(now); steps != 4 || len(got) != 3 {
		t.Errorf("in %d steps of a key: %d keys; want 3, and a last step that finds none", steps, len(got))
	}
	scan.Close()
	if left := len(slices.Collect(l.lines.All())); left != 2 || l.buckets.size != 1 {
		t.Errorf("looking has opened keys: %d lines, %d open", left, l.buckets.size)
	}
}
