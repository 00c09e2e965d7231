package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestShareOf: N nodes together have the limit, or a token each if that is more.
func TestShareOf(t *testing.T) {
	l := limit(10, 20, quota.Soft)
	l.More = []quota.Tier{quota.Window(quota.FixedWindow, 100, time.Minute), quota.Window(quota.SlidingWindow, 2, time.Hour)}
	s := shareOf(&l, 4)
	want := []quota.Tier{
		{Rate: quota.Rate{Tokens: 10, Per: 4 * time.Second}, Burst: 5},
		quota.Window(quota.FixedWindow, 25, time.Minute),
		quota.Window(quota.SlidingWindow, 1, time.Hour),
	}
	if got := s.Tiers(); len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if l.More[0].Burst != 100 {
		t.Error("the limit itself has been changed")
	}
}

// TestFits: what an algorithm cannot play is refused with the reason.
func TestFits(t *testing.T) {
	l := limit(10, 20, quota.Soft)
	counts, waits := l, l
	counts.Kind, waits.MaxDebt = quota.Concurrency, time.Second
	for _, a := range Algorithms() {
		if err := a.Fits(&l); err != nil {
			t.Errorf("%s: %v", a, err)
		}
		for _, odd := range []quota.Limit{counts, waits} {
			if err := a.Fits(&odd); (err == nil) != (a == Quorate) {
				t.Errorf("%s: %v", a, err)
			}
		}
	}
}

// TestAlone: one node is the central bucket, whatever nodes would tell each
// other; only a drop ratio is not, which has no bucket.
func TestAlone(t *testing.T) {
	for _, a := range []Algorithm{CountSync, CountSyncDebt, EqualShares} {
		s := Scenario{Seed: 1, Nodes: 1, Duration: 5 * time.Second, Limit: limit(100, 50, quota.Soft), Algorithm: a}
		s.Load = func(int, time.Duration) float64 { return 300 }
		if res := Run(s); res.Over+res.Under != 0 || res.Excess != 0 || res.Ideal < 540 || res.Reports != 0 {
			t.Errorf("%s: %+v", a, res)
		}
	}
}

// TestBaselineNetwork: what is lost on the way is not counted, so that more
// passes (count-sync lets nearly all pass anyway); and a rerun is the same.
func TestBaselineNetwork(t *testing.T) {
	for _, a := range []Algorithm{CountSync, CountSyncDebt, DropRatio} {
		s := Scenario{Seed: 1, Nodes: 5, Duration: 10 * time.Second, Limit: limit(1000, 100, quota.Soft), Delay: time.Millisecond, Algorithm: a}
		s.Load = func(int, time.Duration) float64 { return 500 }
		clean := Run(s)
		if again := Run(s); again.Admitted != clean.Admitted || again.Reports != clean.Reports || clean.Bytes <= clean.Reports {
			t.Errorf("%s: not the same again: %+v, %+v", a, clean, again)
		}
		s.Loss = .5
		if lossy := Run(s); a != CountSync && lossy.Admitted <= clean.Admitted*101/100 {
			t.Errorf("%s: admitted %d with half of the messages lost, %d without loss", a, lossy.Admitted, clean.Admitted)
		}
		s.Loss, s.KillLeader, s.KillMember = 0, 5*time.Second, true
		if res := Run(s); res.Attempted >= clean.Attempted {
			t.Errorf("%s: a dead node was asked: %d requests, %d without its death", a, res.Attempted, clean.Attempted)
		}
	}
}
