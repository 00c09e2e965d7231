package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestClocksOfLeaders: the refill that a new leader counts for a hard bucket, and the end that it
// assumes for a promise, with any clock of the leader before it.
func TestClocksOfLeaders(t *testing.T) {
	const second = quota.Time(time.Second)
	limit := &quota.Limit{Ceiling: quota.Hard}
	limit.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 1000})
	for name, tc := range map[string]struct {
		at, applied quota.Time // of the line, by its writer's clock and by ours
		passed      time.Duration
	}{
		"clocks agree":                     {98 * second, 98 * second, 2 * time.Second},
		"it was ahead by 300 ms":           {98*second + 3*second/10, 98 * second, 2 * time.Second},
		"it was behind by 300 ms":          {98*second - 3*second/10, 98 * second, 2 * time.Second},
		"it was ahead of ours":             {101 * second, 100 * second, 0},
		"committed late":                   {98 * second, 98*second + second/10, 1900 * time.Millisecond},
		"read again after a restart":       {90 * second, 99 * second, 9500 * time.Millisecond},
		"read again, and not known when":   {90 * second, 0, 9500 * time.Millisecond},
		"read again at once after a death": {99*second + second/2, 100 * second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kl := quota.KeyLevel{At: tc.at, Applied: tc.applied, FullAt: tc.at.Add(time.Minute), Marks: []quota.Mark{{Until: tc.at.Add(3 * time.Second)}}}
			given := kl.Marks
			now := 100 * second
			onClock(now, limit, &kl)
			if got := now.Sub(kl.At); got != tc.passed {
				t.Errorf("%v have passed, want %v", got, tc.passed)
			}
			if got := kl.Marks[0].Until.Sub(kl.At); got != 3*time.Second {
				t.Errorf("a promise of 3s lasts %v", got)
			}
			if got := kl.FullAt.Sub(kl.At); got != time.Minute {
				t.Errorf("full %v after the line, want 1m", got)
			}
			if given[0].Until != tc.at.Add(3*time.Second) {
				t.Error("the caller's line was changed")
			}
		})
	}
}
