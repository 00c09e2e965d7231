package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestImplicitGrantOfDownNode elects a leader while a node is down that may have used its implicit grant, a third of the
// burst. It returns as soon as the log has the use that the node's journal states, and is that much less.
func TestImplicitGrantOfDownNode(t *testing.T) {
	const burst, part = 300, 100
	key := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}
	for _, tc := range []struct {
		name     string
		perHour  int64
		known    time.Duration // how long before its start the new process knows the use by earlier ones
		used     int64         // by the earlier process, as its journal states
		down     time.Duration
		want     int64 // remaining when the node is back
		wantDown int64 // remaining while it is down
	}{
		{"unused", 1, time.Hour * 1000, 0, time.Second, burst, burst - part},
		{"used in part", 1, time.Hour * 1000, 30, time.Second, burst - 30, burst - part},
		{"used up", 1, time.Hour * 1000, part, time.Second, burst - part, burst - part},
		{"without a journal", 1, 0, 0, time.Second, burst - part, burst - part},
		{"refilled meanwhile", 3600, time.Hour, 0, 60 * time.Second, burst, burst - part + 60},
		{"used and refilled meanwhile", 3600, time.Hour, part, 60 * time.Second, burst - part, burst - part + 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limits, err := quota.NewLimits(1, []quota.Limit{{
				LimitName: key.LimitName, Ceiling: quota.Hard, Rate: quota.Rate{Tokens: tc.perHour, Per: time.Hour}, Burst: burst,
			}})
			if err != nil {
				t.Fatal(err)
			}
			now := quota.Time(1_790_000_000_000_000_000)
			l := New(Config{}, 0, 2, "b", []quota.NodeID{"a", "b", "c"}, limits, nil, now)
			seq := map[quota.NodeID]quota.Seq{}
			report := func(from quota.NodeID, inc quota.Incarnation, age time.Duration, entries ...quota.ReportEntry) []quota.GrantEntry {
				t.Helper()
				now = now.Add(10 * time.Millisecond)
				seq[from]++
				g, err := l.Report(now, quota.Report{Term: 2, From: from, Incarnation: inc, Seq: seq[from], Full: true, Parts: 1, Age: age, Entries: entries})
				if err != nil {
					t.Fatal(err)
				}
				return g.Entries
			}
			remaining := func(when string, want int64) {
				t.Helper()
				if k, ok := l.Key(now, key); !ok || k.Remaining != want {
					t.Errorf("%s: remaining %d, %v; want %d", when, k.Remaining, ok, want)
				}
			}
			l.MemberGone(now, "a", 2)
			report("b", 1, time.Hour*1000)
			report("c", 1, time.Hour*1000, quota.ReportEntry{Key: key, Epoch: 1})
			now = now.Add(tc.down)
			remaining("while a is down", tc.wantDown)

			age := 100 * time.Millisecond
			if tc.used > 0 {
				total := quota.FromTokens(tc.used)
				journal := quota.ReportEntry{Key: key, Epoch: 1, Incarnation: 1, Overdrawn: total}
				for saved := false; !saved; {
					for _, g := range report("a", 2, age, journal) {
						saved = g.Saved >= total
					}
					if !saved && len(l.Checkpoint(now, 10)) > 0 {
						l.Saved(now, l.Written())
					}
				}
			}
			report("a", 2, age+tc.known)
			now = now.Add(time.Millisecond)
			remaining("when a is back", tc.want)
		})
	}
}
