package scale

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func shape(ranges int) Shape {
	return Shape{
		Nodes: 20, Ranges: ranges, Keys: 10_000, Zipf: 1.1, Rate: 100, Seed: 1, Sync: 100 * time.Millisecond, Delay: time.Millisecond,
		WarmUp: 3 * time.Second, Duration: 2 * time.Second,
		Limit: quota.Limit{
			LimitName: quota.LimitName{Namespace: "api", Limit: "per_tenant"},
			Rate:      quota.Rate{Tokens: 1000, Per: time.Second}, Burst: 1000,
		},
	}
}

func play(t *testing.T, s Shape) Result {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return Play(s)
}

// TestModel compares the reports of members with the cost model. They may be up to a quarter fewer
// where, as here, no key comes near its limit, for any number of leaders. All entries are booked
// except those in flight.
func TestModel(t *testing.T) {
	for _, ranges := range []int{1, 4, 16} {
		s := shape(ranges)
		r := play(t, s)
		node := s.Duration.Seconds() * float64(s.Nodes)
		if got, want := float64(r.Entries)/node, s.Entries(); got < .75*want || got > 1.1*want {
			t.Errorf("%d ranges: %.0f entries a second and node, the model has %.0f", ranges, got, want)
		}
		if got, least := float64(r.Frames)/node, s.Frames(); got < .8*least || got > 1.6*least {
			t.Errorf("%d ranges: %.0f frames a second and node, the model has at least %.0f", ranges, got, least)
		}
		if lost := math.Abs(float64(r.Entries - r.Booked)); lost > .02*float64(r.Entries) {
			t.Errorf("%d ranges: of %d entries %d were booked", ranges, r.Entries, r.Booked)
		}
		if r.Admitted == 0 || r.ReportBytes == 0 || r.GrantBytes == 0 || r.Accounts == 0 || r.Open < r.Accounts {
			t.Errorf("%d ranges: %+v", ranges, r)
		}
	}
}

// TestSame checks that the same shape gives the same counts.
func TestSame(t *testing.T) {
	a, b := play(t, shape(4)), play(t, shape(4))
	for _, r := range []*Result{&a, &b} {
		r.Member, r.Leader, r.Tend, r.Decide = 0, 0, 0, 0
	}
	if a != b {
		t.Errorf("%+v, and %+v the second time", a, b)
	}
}
