package api

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestDiffOfRates checks that the diff ignores a bucket's rate that is only written differently, and
// reports the fields that changed with it.
func TestDiffOfRates(t *testing.T) {
	bucket := func(rate string, burst int64) quota.Limit {
		r, err := quota.ParseRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		return quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "l"}, Rate: r, Burst: burst}
	}
	window := func(n int64, per time.Duration) quota.Limit {
		w := quota.Window(quota.FixedWindow, n, per)
		return quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "l"}, Kind: w.Kind, Rate: w.Rate, Burst: w.Burst}
	}
	tiers := func(rate string) quota.Limit {
		l, more := bucket("1/s", 5), bucket(rate, 40)
		l.More = []quota.Tier{more.First()}
		return l
	}
	floor := func(rate string) quota.Limit {
		l, least := bucket("1/s", 5), bucket(rate, 40)
		l.Parent, l.Floor, l.FloorBurst = "p", least.Rate, least.Burst
		return l
	}
	cutOff := func(rate, then string) quota.Limit {
		l := bucket("1/s", 5)
		l.CutOff = quota.CutOff{Policy: quota.CutOffRate, Rate: bucket(rate, 1).Rate, After: time.Minute, Then: quota.CutOffRate, ThenRate: bucket(then, 1).Rate}
		return l
	}
	noFloor := floor("10/h")
	noFloor.Floor = quota.Rate{}
	for name, tt := range map[string]struct {
		from, to quota.Limit
		fields   int // number of differing fields
	}{
		"the same rate":              {bucket("10/h", 10), bucket("240/d", 10), 0},
		"in seconds":                 {bucket("2/s", 5), bucket("120/m", 5), 0},
		"nearly the same":            {bucket("10/h", 10), bucket("241/d", 10), 1},
		"the same, another burst":    {bucket("10/h", 10), bucket("240/d", 240), 2},
		"windows are something else": {window(10, time.Hour), window(240, 24*time.Hour), 2},
		"of a further tier":          {tiers("60/h"), tiers("1/m"), 0},
		"of a floor":                 {floor("10/h"), floor("240/d"), 0},
		"another floor":              {floor("10/h"), floor("241/d"), 1},
		"a floor that is new":        {noFloor, floor("10/h"), 1},
		"without a leader":           {cutOff("10/h", "5/h"), cutOff("240/d", "120/d"), 0},
		"then another":               {cutOff("10/h", "5/h"), cutOff("240/d", "121/d"), 1},
		"nothing at all":             {bucket("0/s", 10), bucket("0/h", 10), 0},
	} {
		fields := 0
		for _, c := range diffLimits([]quota.Limit{tt.from}, []quota.Limit{tt.to}) {
			fields += len(c.Fields)
		}
		if fields != tt.fields {
			t.Errorf("%s: %d fields differ, want %d", name, fields, tt.fields)
		}
	}
}
