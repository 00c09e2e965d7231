package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestSuspendedMachine checks that a machine that sleeps for longer than a lease, and wakes up cut
// off, does not overspend. A process that underestimates the age of its lease would spend tokens
// that others have been granted meanwhile.
func TestSuspendedMachine(t *testing.T) {
	for seed := range uint64(10) {
		s := Scenario{
			Seed: seed, Nodes: 3, Duration: 14 * time.Second, Limit: limit(300, 300, quota.Hard), Delay: time.Millisecond, Skew: -1, Near: true, Check: true,
			Loads: []Load{{Rate: 900}},
		}
		node := []int{2 + int(seed)%2}
		s.Faults = []Fault{{At: 2 * time.Second, Kind: Suspend, Nodes: node, For: 5 * time.Second}, {At: 3 * time.Second, Kind: Partition, Groups: [][]int{node}, For: 9 * time.Second}}
		if r := Run(s); r.Excess > rounding || len(r.Violations) > 0 {
			t.Errorf("seed %d: %.1f tokens beyond a hard 300/s; %v", seed, r.Excess, r.Violations)
		} else if r.Admitted < r.Ideal/2 {
			t.Errorf("seed %d: %d admitted, one bucket would have admitted %d", seed, r.Admitted, r.Ideal)
		}
	}
}

// TestTimersSuspended checks that timers of a process stop while its machine sleeps and continue
// where they stood, and that the clock of the process shows how late they are.
func TestTimersSuspended(t *testing.T) {
	s := calm()
	s.Loads, s.Faults = nil, []Fault{{At: time.Second, Kind: Suspend, Nodes: []int{2}, For: 3 * time.Second}}
	r := newRun(s)
	r.start()
	n := r.nodes[1]
	began := n.clock()
	fired := map[string]time.Duration{}
	for what, d := range map[string]time.Duration{"before": 900 * time.Millisecond, "in": 2 * time.Second, "after": 4500 * time.Millisecond} {
		r.onNode(r.Start.Add(d), n, timer, func() {
			fired[what] = r.since()
			if shown := n.clock().Sub(began); shown != r.since() {
				t.Errorf("%s: the clock shows that %v have passed, and it was %v", what, shown, r.since())
			}
		})
	}
	r.until(r.Start.Add(9 * time.Second))
	for what, want := range map[string]time.Duration{"before": 900 * time.Millisecond, "in": 5 * time.Second, "after": 7500 * time.Millisecond} {
		if fired[what] != want {
			t.Errorf("a timer %s the suspend came after %v, want %v", what, fired[what], want)
		}
	}
}

// TestSuspectedIsCountedOnce checks that the leader books nothing twice for a live node whose
// connections are refused. The node hears no answers and repeats everything in each report, and the
// leader suspects it dead again and again. This holds for soft limits too, whose rates the leader
// gives to others at once.
func TestSuspectedIsCountedOnce(t *testing.T) {
	flight := limit(5, 5, quota.Soft)
	flight.SetFirst(quota.Tier{Kind: quota.Concurrency, Burst: 5})
	for _, l := range []quota.Limit{limit(10, 100, quota.Soft), flight} {
		s := Scenario{
			Nodes: 3, Duration: 10 * time.Second, Limit: l, Delay: 10 * time.Millisecond, Skew: -1, Near: true, Check: true,
			Loads: []Load{{Rate: 60}}, Faults: []Fault{{At: 2 * time.Second, Kind: Refuse, Nodes: []int{3}, For: 5 * time.Second}},
		}
		if l.Kind == quota.Concurrency {
			s.Hold = 50 * time.Millisecond
		}
		if r := Run(s); len(r.Violations) > 0 {
			t.Errorf("%v: %s", l.Kind, r.Violations[0])
		}
	}
}

// TestPartsLost checks that a new leader grants again what nodes hold only when it has heard all of
// their reports. Nodes tell it about many keys in several reports, some of which are lost.
func TestPartsLost(t *testing.T) {
	for seed := range uint64(20) {
		s := Scenario{
			Seed: seed, Nodes: 3, Duration: 8 * time.Second, Limit: limit(5, 30, quota.Hard), Delay: time.Millisecond, Loss: .2, Skew: -1, Near: true, Check: true,
			Loads: []Load{{Rate: 400}}, Keys: Keys{Count: 30}, Entries: 3, KillLeader: 3 * time.Second, KillAgain: 5 * time.Second,
		}
		if r := Run(s); r.Excess > rounding || len(r.Violations) > 0 {
			t.Errorf("seed %d: %.1f tokens beyond a hard 5/s, burst 30; %v", seed, r.Excess, r.Violations)
		}
	}
}

// TestPartsLostBeforeRush checks the same when all callers arrive at the new leader at once. Nodes
// hold tokens of rarely used keys when the leader dies, and tell the next one in several reports,
// some of which are lost. The new leader must not grant what a lost report would have declared as
// held.
func TestPartsLostBeforeRush(t *testing.T) {
	for seed := range uint64(20) {
		s := Scenario{
			Seed: seed, Nodes: 3, Duration: 5 * time.Second, Limit: limit(1, 30, quota.Hard), Delay: 10 * time.Millisecond, Loss: .3, Skew: -1, Near: true, Check: true,
			Loads: []Load{{Rate: 30, To: 3 * time.Second}, {From: 3 * time.Second, Rate: 3000}},
			Keys:  Keys{Count: 30}, Entries: 3, KillLeader: 3 * time.Second, Election: 300 * time.Millisecond,
		}
		if r := Run(s); r.Excess > rounding || len(r.Violations) > 0 {
			t.Errorf("seed %d: %.1f tokens beyond a hard 1/s, burst 30; %v", seed, r.Excess, r.Violations)
		}
	}
}
