package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestOverrideAfterChange: a bucket applies a change of the limits when it is used next, as of the moment of the change. An
// override that was set or ended since does not count from that moment.
func TestOverrideAfterChange(t *testing.T) {
	key, seconds := theKey("k"), func(n int) quota.Time { return start.Add(time.Duration(n) * time.Second) }
	limit := quota.Limit{LimitName: key.LimitName, Rate: quota.Rate{Tokens: 2, Per: time.Second}, Burst: 1000, Ceiling: quota.Hard}
	limits := func(rate int64) *quota.Limits {
		l := limit
		l.Rate.Tokens = rate
		s, err := quota.NewLimits(uint64(rate), []quota.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	fivefold := &quota.Override{Key: key, Burst: -1, Scale: 5 * quota.Million}
	for what, tc := range map[string]struct {
		was, is *quota.Override
		all     bool
		want    int64
	}{
		"set":                 {nil, fivefold, false, 10*2 + 10*3 + 10*15},
		"ended":               {fivefold, nil, false, 10*10 + 10*15 + 10*3},
		"neither":             {nil, nil, false, 10*2 + 10*3 + 10*3},
		"set, of unknown key": {nil, fivefold, true, 10*2 + 10*3 + 10*15},
	} {
		o := &oneOverride{tc.was}
		l := New(Config{Overrides: o}, 0, 1, "leader", []quota.NodeID{"a"}, limits(2), nil, start)
		most := int64(1000)
		if tc.was != nil {
			most *= 5
		}
		r := quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: 1, Entries: []quota.ReportEntry{{Key: key, Epoch: 1, Overdrawn: quota.FromTokens(most)}}}
		if _, err := l.Report(start, r); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		l.SetLimits(seconds(10), limits(3))
		o.o = tc.is
		if tc.all {
			l.Overridden(seconds(20), nil)
		} else {
			l.Overridden(seconds(20), []quota.Key{key})
		}
		if k, _ := l.Key(seconds(30), key); k.Remaining != tc.want {
			t.Errorf("%s: %d tokens remain; want %d", what, k.Remaining, tc.want)
		}
	}
}
