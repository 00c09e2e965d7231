package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestResetEndsRefunds: a refund that a member reports first after a reset is, like the use in that report, of tokens from
// before it. The full key gained them with the reset, and does not gain them again when others have used some.
func TestResetEndsRefunds(t *testing.T) {
	for _, tc := range []struct {
		kind    quota.Kind
		ceiling quota.Ceiling
		want    int64
	}{
		{quota.TokenBucket, quota.Soft, 6},
		{quota.FixedWindow, quota.Soft, 6},
		{quota.FixedWindow, quota.Hard, 5}, // what is used at the reset counts
	} {
		l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Burst: 10, Rate: quota.Rate{Tokens: 10, Per: time.Hour}, Kind: tc.kind, Ceiling: tc.ceiling}
		limits, err := quota.NewLimits(1, []quota.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		led := New(Config{Overrides: &oneOverride{}}, 0, 1, "leader", []quota.NodeID{"a", "b"}, limits, nil, start)
		seq := quota.Seq(0)
		rep := func(from quota.NodeID, over, refunded int64) {
			seq++
			over, refunded = over*int64(quota.Token), refunded*int64(quota.Token)
			if _, err := led.Report(start, quota.Report{Term: 1, From: from, Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{{
				Key: theKey("k"), Epoch: 1, Overdrawn: quota.Units(over), Unreported: quota.Units(over), Refunded: quota.Units(refunded), Window: start - start%quota.Time(time.Hour),
			}}}); err != nil {
				t.Fatal(err)
			}
		}
		rep("a", 8, 0)
		led.Reset(start, theKey("k"))
		rep("b", 5, 0)
		for range 2 {
			rep("a", 9, 4)
		}
		rep("a", 9, 5)
		if k, _ := led.Key(start, theKey("k")); k.Remaining != tc.want {
			t.Errorf("%v %v: %d of 10 remain; want %d: 5 are used since the reset, and 1 is refunded", tc.ceiling, tc.kind, k.Remaining, tc.want)
		}
	}
}
