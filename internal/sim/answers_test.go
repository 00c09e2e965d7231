package sim

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestAnswersOutliveLeaders checks that the decisions of leaders stay within a hard limit whatever
// fails: the next leader knows what its predecessor may have answered.
func TestAnswersOutliveLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("plays for seconds in one goroutine")
	}
	changed, admitted := 0, int64(0)
	for seed := range uint64(400) {
		s := Campaign(seed)
		if s.Limit.Kind == quota.Concurrency || len(s.Limit.More) > 0 || len(s.Faults) == 0 {
			continue
		}
		s.Limit.Ceiling, s.Limit.Decide, s.Limit.MaxWait, s.Limit.MaxDebt = quota.Hard, quota.AtLeader, 0, 0
		v := Judge(s)
		for _, b := range v.Broken {
			if b.Property != NoStarving {
				t.Errorf("seed %d: %s: %s", seed, b.Property, b.What)
			}
		}
		if !slices.Contains(v.Asked, HardExact) {
			continue
		}
		if v.Terms > 1 {
			changed, admitted = changed+1, admitted+v.Admitted
		}
	}
	if changed < 50 || admitted < 10_000 {
		t.Errorf("%d scenarios with several leaders admitted %d", changed, admitted)
	}
	t.Logf("%d scenarios with several leaders admitted %d", changed, admitted)
}
