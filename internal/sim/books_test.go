package sim

import (
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// until ends a load after d.
func until(d time.Duration, load func(int, time.Duration) float64) func(int, time.Duration) float64 {
	return func(i int, t time.Duration) float64 {
		if t >= d {
			return 0
		}
		return load(i, t)
	}
}

// stop ends all loads at the end of the scenario, which may then continue without load.
func stop(s *Scenario) {
	s.Load = until(s.Duration, s.Load)
	for i := range s.Loads {
		s.Loads[i].To = s.Duration
	}
}

// TestNothingLost stops the load of random scenarios and checks that a few seconds later the leader
// has booked exactly what the members admitted, whatever the network lost, repeated or reordered.
func TestNothingLost(t *testing.T) {
	long(t)
	t.Parallel()
	for seed := range uint64(150) {
		for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
			s, line := random(seed, c)
			s.KillLeader, s.KillAgain = 0, 0
			stop(&s)
			s.Duration += 5 * time.Second
			if res := Run(s); res.Lost != 0 {
				t.Errorf("%s\n\t%d of %d admitted tokens are not in the books", line, res.Lost, res.Admitted)
			}
		}
	}
}

// TestNothingAskedTwice plays a limit that its leader decides, and one with waits, while the
// network loses, repeats and delays questions and answers. A member that hears nothing decides
// alone. In the end the leader must have booked, exactly once, what members were told and what they
// decided alone.
func TestNothingAskedTwice(t *testing.T) {
	testspeed.Full(t)
	long(t)
	t.Parallel()
	asked, waits := limit(100, 100, quota.Soft), limit(100, 50, quota.Soft)
	asked.Decide = quota.AtLeader
	waits.MaxWait, waits.MaxDebt = time.Second, 2*time.Second
	hard := limit(100, 100, quota.Hard)
	hard.Decide = quota.AtLeader
	var questions int64
	for seed := range uint64(100) {
		for _, l := range []quota.Limit{asked, waits, hard} {
			s := Scenario{
				Seed: seed, Nodes: 3 + int(seed%3), Duration: 10 * time.Second, Limit: l, Delay: time.Millisecond,
				Jitter: []time.Duration{0, 20 * time.Millisecond, 150 * time.Millisecond}[seed%3],
				Loss:   .05 + .05*float64(seed%4), Repeat: .1 * float64(seed%2),
				Load: until(5*time.Second, patterns[int(seed)%len(patterns)].on(3, 100)),
			}
			res := Run(s)
			questions += res.Asked
			if res.Lost != 0 {
				t.Errorf("seed %d, %v %v debt %v, loss %.2f, jitter %v: %d of %d admitted tokens are not in the books; %d asked",
					seed, l.Ceiling, l.Decide, l.MaxDebt, s.Loss, s.Jitter, res.Lost, res.Admitted, res.Asked)
			}
			// The answers reach the callers after the leader has decided, with varying delays.
			late := float64(l.Rate.Tokens) * s.Jitter.Seconds()
			if l.Ceiling == quota.Hard && res.Excess >= allowed(s)+late {
				t.Errorf("seed %d, hard, loss %.2f, jitter %v: %.2f tokens beyond the ceiling", seed, s.Loss, s.Jitter, res.Excess)
			}
		}
	}
	if questions < 100_000 {
		t.Errorf("%d questions in all runs: too few to say anything", questions)
	}
}

// TestLeaderKilled overloads a limit three times and kills the leader, with and without its member.
// It checks that decisions continue meanwhile, and that nothing is admitted twice.
func TestLeaderKilled(t *testing.T) {
	long(t)
	t.Parallel()
	const (
		grows   = .05 // allowed growth of the worst excess, in bursts, over the run without a kill
		outage  = .9  // least fraction of the limit to admit while there is no leader
		learned = 20 * time.Millisecond
	)
	for _, w := range []way{soft, hard} {
		for _, nodes := range []int{3, 10} {
			for _, member := range []bool{false, true} {
				for seed := uint64(1); seed <= 3; seed++ {
					s := Scenario{
						Seed: seed, Nodes: nodes, Duration: 8 * time.Second, Limit: limit(1000, 1000, w.ceiling),
						Delay: time.Millisecond, Load: patterns[2].on(nodes, 1000),
					}
					quiet := Run(s)
					s.KillLeader, s.KillMember = 3*time.Second, member
					res := Run(s)
					t.Logf("%s, %d nodes, with its member %v, seed %d: %+.2f%%, excess %.1f tokens (%.1f without a kill), learned %v after the death, %d of %d admitted meanwhile",
						w.name, nodes, member, seed, 100*res.Error(), res.Excess, quiet.Excess, res.Learned, res.OutageAdmitted, res.OutageAttempted)
					if res.Excess > quiet.Excess+grows*1000 || w.ceiling == quota.Hard && res.Excess >= rounding {
						t.Errorf("seed %d: excess %.1f, without a kill %.1f: hard has an excess, or soft grows by more than %v bursts", seed, res.Excess, quiet.Excess, grows)
					}
					alive := float64(nodes)
					if member {
						alive--
					}
					share := 1000 * res.Learned.Seconds() * alive / float64(nodes)
					if float64(res.OutageAdmitted) < outage*share {
						t.Errorf("seed %d: %d admitted in %v without a leader, want %.0f", seed, res.OutageAdmitted, res.Learned, outage*share)
					}
					if over := res.Learned - 500*time.Millisecond; over < 0 || over > learned {
						t.Errorf("seed %d: learned %v after the death, want %v after the election of 500ms", seed, res.Learned, learned)
					}
				}
			}
		}
	}
}

// TestQuietKeys bounds the cost of a key whose use stays far below its limit.
func TestQuietKeys(t *testing.T) {
	reports := func(perNode float64, load time.Duration) (during, after float64) {
		s := Scenario{
			Seed: 1, Nodes: 3, Duration: 30 * time.Second, Limit: limit(1000, 1000, quota.Soft), Delay: time.Millisecond,
			Load: until(load, func(int, time.Duration) float64 { return perNode }),
		}
		first := Run(s).Reports
		s.Duration *= 2
		return float64(first) / 30 / 3, float64(Run(s).Reports - first)
	}
	for _, rate := range []float64{1, 10} {
		if got, _ := reports(rate, time.Hour); got > 1.2 {
			t.Errorf("%v requests/s at a node, limit 1000/s: %.2f reports/s, want at most 1.2", rate, got)
		}
	}
	if _, got := reports(10, 20*time.Second); got != 0 {
		t.Errorf("a key unused for 10 s sends %v reports in the next 30 s, want none", got)
	}
}

// TestRareChecks checks that a key that is asked for less than once a second, far from its limit, reports once for
// each check: when it closes. Each node makes two more: a full report, and that of its first check.
func TestRareChecks(t *testing.T) {
	res := Run(Scenario{
		Seed: 1, Nodes: 3, Duration: 5 * time.Minute, Limit: limit(1000, 1000, quota.Soft), Delay: time.Millisecond,
		Load: until(time.Hour, func(int, time.Duration) float64 { return 0.2 }),
	})
	if res.Attempted < 150 || res.Reports > res.Attempted+6 || res.Under > 0 {
		t.Errorf("%d checks, %d reports, %d refused", res.Attempted, res.Reports, res.Under)
	}
}

// TestRunRepeats checks that the same scenario gives the same result twice.
func TestRunRepeats(t *testing.T) {
	for seed := range uint64(20) {
		s, line := random(seed, quota.Soft)
		if a, b := Run(s), Run(s); !reflect.DeepEqual(a, b) {
			t.Errorf("%s\n\tfirst %+v\n\tthen  %+v", line, a, b)
		}
	}
}
