package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestChanges checks refunds, charges, other sizes of the limit, overrides and resets, alone: each happens,
// and breaks nothing.
func TestChanges(t *testing.T) {
	t.Parallel()
	perSecond := func(n, burst int64) quota.Tier {
		return quota.Tier{Rate: quota.Rate{Tokens: n, Per: time.Second}, Burst: burst}
	}
	window := func(n int64) quota.Tier { return quota.Window(quota.FixedWindow, n, 2*time.Second) }
	for seed := range uint64(5) {
		for _, l := range []quota.Limit{limit(100, 50, quota.Soft), limit(100, 50, quota.Hard), tiered(quota.Hard, window(150)), tiered(quota.Soft, window(150))} {
			less, more := perSecond(20, 10), perSecond(200, 100)
			if l.Kind == quota.FixedWindow {
				less, more = window(30), window(600)
			}
			what := fmt.Sprint(l.Kind, " ", l.Ceiling, " ")
			plain := clean(t, what, worldly(l, seed))
			s := worldly(l, seed)
			s.Loads[0].Refund = .5
			if v := clean(t, what+"refund", s); v.Refunded < 50 || v.Admitted < plain.Admitted+v.Refunded/2 {
				t.Errorf("%srefund, seed %d: %d admitted, %d given back, without that %d", what, seed, v.Admitted, v.Refunded, plain.Admitted)
			}
			s = worldly(l, seed)
			s.Loads = append(s.Loads, Load{Rate: 30, To: 3 * time.Second, Charge: true})
			if v := clean(t, what+"charge", s); v.Charged < 50 || v.Admitted > plain.Admitted-v.Charged/4 {
				t.Errorf("%scharge, seed %d: %d admitted, %d charged, without that %d", what, seed, v.Admitted, v.Charged, plain.Admitted)
			}
			s = worldly(l, seed)
			s.Faults = []Fault{{At: time.Second, Kind: Resize, Tiers: []quota.Tier{more}}}
			if v := clean(t, what+"raised", s); v.Admitted < plain.Admitted+50 {
				t.Errorf("%sraised, seed %d: %d admitted, without that %d", what, seed, v.Admitted, plain.Admitted)
			}
			s.Faults[0].Tiers[0] = less
			if v := clean(t, what+"cut", s); v.Admitted > plain.Admitted-50 {
				t.Errorf("%scut, seed %d: %d admitted, without that %d", what, seed, v.Admitted, plain.Admitted)
			}
			s.Faults = []Fault{{At: time.Second, Kind: Override, Scale: quota.Million / 5}, {At: 2900 * time.Millisecond, Kind: Override, Scale: quota.Million}}
			if v := clean(t, what+"override", s); v.Admitted > plain.Admitted-20 {
				t.Errorf("%soverride, seed %d: %d admitted, without that %d", what, seed, v.Admitted, plain.Admitted)
			}
			s.Faults = []Fault{{At: 1500 * time.Millisecond, Kind: Reset}}
			if v := clean(t, what+"reset", s); v.Admitted < plain.Admitted+20 {
				t.Errorf("%sreset, seed %d: %d admitted, without that %d", what, seed, v.Admitted, plain.Admitted)
			}
		}
	}
}

// TestCutInFlight lowers a concurrency limit while all nodes have more in flight, and learn of the change
// at moments of their own. Requests that end make no room for others until the new limit has some: a node used to give
// their places to its next callers, so a busy node never noticed the change.
func TestCutInFlight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
			s := worldly(tiered(c, quota.Tier{Kind: quota.Concurrency, Burst: 100}), seed)
			s.Nodes, s.Duration, s.Hold, s.Loads = 1+int(seed%5), 4*time.Second, 200*time.Millisecond, []Load{{Rate: 1500}}
			s.Faults = []Fault{{At: time.Second, Kind: Resize, Tiers: []quota.Tier{{Kind: quota.Concurrency, Burst: 10}}}}
			clean(t, fmt.Sprint(c), s)
			r := played(s, 4*time.Second)
			if n := r.tally("k").inFlight; n > 20 || n < 5 {
				t.Errorf("%v, seed %d, %d nodes: %.0f in flight three seconds after the limit became 10", c, seed, s.Nodes, n)
			}
		}
	}
}

// TestCutBeforeTheLeader lowers a hard limit while other nodes know of it before the leader. They keep nothing of what
// that leader grants them meanwhile: from the moment at which all nodes know, the limit is exact.
func TestCutBeforeTheLeader(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		for _, sizes := range [][2]quota.Tier{
			{{Rate: quota.Rate{Tokens: 1000, Per: time.Second}, Burst: 1000}, {Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 10}},
			{{Rate: quota.Rate{Tokens: 2000, Per: time.Second}, Burst: 100}, {Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 100}},
			{quota.Window(quota.FixedWindow, 3000, time.Minute), quota.Window(quota.FixedWindow, 1500, time.Minute)},
			{{Kind: quota.Concurrency, Burst: 1000}, {Kind: quota.Concurrency, Burst: 50}},
		} {
			s := worldly(tiered(quota.Hard, sizes[0]), seed)
			s.Nodes, s.Duration, s.Loads, s.Delay = 5, 4*time.Second, []Load{{Rate: 3000}}, 5*time.Millisecond
			if sizes[0].Kind == quota.Concurrency {
				s.Hold = 50 * time.Millisecond
			}
			s.Faults = []Fault{{At: 500 * time.Millisecond, Kind: Resize, Tiers: sizes[1:]}}
			clean(t, sizes[0].Kind.String(), s)
		}
	}
}

// TestCutUnderSoft lowers a soft window below what was used of it, while a node holds tokens of the rest. It returns them:
// it used to spend them, up to 62 of 100 beyond the limit.
func TestCutUnderSoft(t *testing.T) {
	t.Parallel()
	day := func(n int64) quota.Tier { return quota.Window(quota.FixedWindow, n, 24*time.Hour) }
	for seed := range uint64(20) {
		s := worldly(tiered(quota.Soft, day(400)), seed)
		s.Nodes, s.Near, s.Duration, s.Sync, s.Jitter = 1, true, 4*time.Second, 250*time.Millisecond, 50*time.Millisecond
		s.Loads = []Load{{Rate: 100, To: 3 * time.Second, Clump: 1, Cost: 1}}
		s.Faults = []Fault{{At: 2 * time.Second, Kind: Resize, Tiers: []quota.Tier{day(100)}}}
		clean(t, "", s)
	}
}
