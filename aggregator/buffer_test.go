package aggregator

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRoomIsUsedAgain: reports in reused memory equal those of Collect, and the reuse allocates nothing.
func TestRoomIsUsedAgain(t *testing.T) {
	const keys, ranges = 50, 4
	table := func() (*Aggregator, func(now quota.Time) func() quota.Time) {
		a := New(Config{Self: "a", Incarnation: 1, Ranges: ranges}, 1)
		limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: benchName, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 10}})
		if err != nil {
			t.Fatal(err)
		}
		a.SetLimits(1, limits)
		for r := range quota.RangeID(ranges) {
			a.SetLeader(r, "l", 1)
		}
		return a, func(now quota.Time) func() quota.Time { return func() quota.Time { return now } }
	}
	a, clock := table()
	b, _ := table()
	var room Buffer
	for step := range 5 {
		now := quota.Time(step+1) * quota.Time(10*time.Second) // longer than any unanswered report waits
		for k := range keys {
			a.checkNow(clock(now), benchName, strconv.Itoa(k), 1)
			b.checkNow(clock(now), benchName, strconv.Itoa(k), 1)
		}
		got, want := a.CollectInto(now, &room), b.Collect(now)
		entries := 0
		for i := range want {
			entries += len(want[i].Entries)
		}
		if entries != keys || !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d, %d entries:\n%+v\nwant\n%+v", step, entries, got, want)
		}
	}
	now := quota.Time(time.Minute)
	again := func() { // no report is answered
		reports := 0
		for range 4 {
			now = now.Add(time.Second)
			reports += len(a.CollectInto(now, &room))
		}
		if reports == 0 {
			t.Error("nothing is reported again in four seconds")
		}
	}
	for range 2 * maxSent {
		again()
	}
	if n := testing.AllocsPerRun(20, again); n > 0 {
		t.Errorf("%v allocations in a room that was used", n)
	}
}
