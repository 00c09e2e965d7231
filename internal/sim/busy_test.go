package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestNewLeaderIsNotOverrun checks that a new leader catches up after a leader with a load above
// one half dies. The new leader needs longer to hear all reports than members used to wait before
// they repeated them; members now wait longer each time.
func TestNewLeaderIsNotOverrun(t *testing.T) {
	for _, tc := range []struct {
		name string
		keys int
	}{
		{"0.4 s to hear of all", 1000},
		{"0.6 s to hear of all, 60 % busy", 1500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Run(Scenario{
				Seed: 1, Nodes: 4, Duration: 20 * time.Second, Limit: limit(1000, 10_000, quota.Soft), Delay: time.Millisecond, Skew: -1,
				PerEntry: 100 * time.Microsecond, Keys: Keys{Count: tc.keys}, Loads: []Load{{Rate: 12 * float64(tc.keys)}},
				KillLeader: 8 * time.Second, Election: 800 * time.Millisecond, CheckpointEvery: 5 * time.Second,
			})
			t.Logf("%d entries in 20 s, backlog at the end %v", r.Entries, r.Backlog)
			if r.Backlog > 500*time.Millisecond {
				t.Errorf("11 s after it began, reports still wait %v for the new leader", r.Backlog)
			}
		})
	}
}

// TestAnswersThatTakeLong checks that answers still count, and that little is sent twice, where a
// report and its answer take longer than members wait at first before they repeat the report.
func TestAnswersThatTakeLong(t *testing.T) {
	play := func(delay time.Duration) Result {
		return Run(Scenario{
			Seed: 1, Nodes: 4, Duration: 30 * time.Second, Limit: limit(1000, 10_000, quota.Soft), Delay: delay, Skew: -1,
			Keys: Keys{Count: 50}, Loads: []Load{{Rate: 600}}, KillLeader: 8 * time.Second, Election: time.Second,
		})
	}
	near, far := play(time.Millisecond), play(200*time.Millisecond)
	t.Logf("2 ms: %d entries; 400 ms: %d entries, %d of %d wrongly refused", near.Entries, far.Entries, far.WrongRefusals, far.Attempted)
	if far.Entries > near.Entries {
		t.Errorf("%d entries were told where answers take 400 ms, and %d where they take 2 ms", far.Entries, near.Entries)
	}
	if far.Admitted != far.Attempted {
		t.Errorf("%d of %d admitted far below the limit", far.Admitted, far.Attempted)
	}
}
