package replica

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestSchedule checks that every range is swept once per checkpointEvery, few at a time, and that
// all are due at once after a busy CPU has delayed everything.
func TestSchedule(t *testing.T) {
	const ranges = 64
	next, now := schedule{}, time.Unix(1_800_000_000, 0)
	turn := func() (taken int) {
		for r := range quota.RangeID(ranges) {
			if next.due(now, r) {
				taken++
			}
		}
		now = now.Add(checkpointEvery / turns)
		return taken
	}
	for range 10 {
		all := 0
		for range turns {
			n := turn()
			if all += n; n > ranges/turns {
				t.Fatalf("%d ranges in one turn", n)
			}
		}
		if all != ranges {
			t.Fatalf("%d of %d ranges in %v", all, ranges, checkpointEvery)
		}
	}
	now = now.Add(10 * checkpointEvery)
	if n := turn(); n != ranges {
		t.Fatalf("%d of %d ranges after a long time", n, ranges)
	}
	if n := turn(); n != 0 {
		t.Fatalf("%d ranges again", n)
	}
}
