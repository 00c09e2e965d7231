package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestMemberEndsWindowFirst: a member may end a window before its leader does. Its use before that
// counts in the window that continues here, but its use in a window that has ended here does not.
func TestMemberEndsWindowFirst(t *testing.T) {
	const per, full = time.Minute, 20 * quota.Token
	begins := quota.Time(1000 * per)
	for _, tc := range []struct {
		name   string
		tier   quota.Tier
		asks   quota.Time // when a asks, without use
		begins quota.Time // when b asks, after using a token
		says   quota.Time // when a reports 5 tokens of use before its window,
		window quota.Time // which began then
		left   quota.Units
	}{
		{
			name: "fixed, by a clock ahead of the leader's", tier: quota.Window(quota.FixedWindow, 20, per),
			asks: begins.Add(time.Second), begins: begins.Add(2 * time.Second), says: begins.Add(per - time.Second), window: begins.Add(per), left: full - 6*quota.Token,
		},
		{
			name: "calendar, by a clock ahead of the leader's", tier: quota.Per(20, quota.Calendar{Unit: quota.Minute}),
			asks: begins.Add(time.Second), begins: begins.Add(2 * time.Second), says: begins.Add(per - time.Second), window: begins.Add(per), left: full - 6*quota.Token,
		},
		{
			name: "fixed, ended here too", tier: quota.Window(quota.FixedWindow, 20, per),
			asks: begins.Add(time.Second), begins: begins.Add(2 * time.Second), says: begins.Add(per + time.Second), window: begins.Add(per), left: full,
		},
		{
			name: "periodic, not having heard that it began anew", tier: quota.Window(quota.PeriodicRefill, 20, per),
			asks: begins, begins: begins.Add(2 * time.Second), says: begins.Add(per + time.Second), window: begins.Add(per), left: full - 6*quota.Token,
		},
		{
			name: "periodic, ended here too", tier: quota.Window(quota.PeriodicRefill, 20, per),
			asks: begins, begins: begins.Add(2 * time.Second), says: begins.Add(per + 4*time.Second), window: begins.Add(per + 3*time.Second), left: full,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Ceiling: quota.Hard}
			l.SetFirst(tc.tier)
			limits, err := quota.NewLimits(1, []quota.Limit{l})
			if err != nil {
				t.Fatal(err)
			}
			g := New(Config{First: true}, 0, 1, "a", []quota.NodeID{"a", "b"}, limits, nil, tc.asks)
			k, seqs := quota.Key{LimitName: l.LimitName, Key: "k"}, map[quota.NodeID]quota.Seq{}
			report := func(at quota.Time, from quota.NodeID, e quota.ReportEntry) quota.GrantEntry {
				t.Helper()
				seqs[from]++
				e.Key, e.Epoch, e.Applied = k, 1, seqs[from]-1
				grant, err := g.Report(at, quota.Report{Term: 1, From: from, Incarnation: 1, Seq: seqs[from], Entries: []quota.ReportEntry{e}})
				if err != nil || len(grant.Entries) != 1 {
					t.Fatalf("%+v, %v", grant, err)
				}
				return grant.Entries[0]
			}
			report(tc.asks, "a", quota.ReportEntry{Want: 5 * quota.Token})
			told := report(tc.begins, "b", quota.ReportEntry{Used: quota.Token})
			if tc.says >= told.WindowEnd {
				report(told.WindowEnd, "b", quota.ReportEntry{Used: quota.Token, Window: told.WindowStart})
			}
			told = report(tc.says, "a", quota.ReportEntry{Used: 5 * quota.Token, Before: 5 * quota.Token, Window: tc.window})
			if told.Level != tc.left {
				t.Errorf("%v are left of the window at %v, want %v", told.Level, told.WindowStart, tc.left)
			}
		})
	}
}
