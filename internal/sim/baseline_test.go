package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestShareOf checks that N nodes together have the limit, or one token each if that is more.
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

// TestFits checks that an algorithm refuses a scenario that it cannot play, with the reason.
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

// TestAlone checks that one node alone decides as the central bucket does, whatever nodes exchange.
// The drop ratio is the exception: it has no bucket.
func TestAlone(t *testing.T) {
	for _, a := range []Algorithm{CountSync, CountSyncDebt, EqualShares} {
		s := Scenario{Seed: 1, Nodes: 1, Duration: 5 * time.Second, Limit: limit(100, 50, quota.Soft), Algorithm: a}
		s.Load = func(int, time.Duration) float64 { return 300 }
		if res := Run(s); res.Over+res.Under != 0 || res.Excess != 0 || res.Ideal < 540 || res.Reports != 0 {
			t.Errorf("%s: %+v", a, res)
		}
	}
}

// TestBaselineNetwork checks that lost messages are not counted, so more passes (count-sync admits
// nearly all anyway), and that a rerun gives the same result.
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
