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

// TestImplicitGrantInSlidingWindow makes a sliding window of the limit while a node is down. Its part counts as use of the
// window and returns with it, so it does not return a second time when the node is back.
func TestImplicitGrantInSlidingWindow(t *testing.T) {
	const burst = 300
	key := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}
	limits := func(version uint64, tier quota.Tier) *quota.Limits {
		l := quota.Limit{LimitName: key.LimitName, Ceiling: quota.Hard}
		l.SetFirst(tier)
		ls, err := quota.NewLimits(version, []quota.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		return ls
	}
	now := quota.Time(1_790_000_000_000_000_000) / quota.Time(time.Minute) * quota.Time(time.Minute)
	l := New(Config{}, 0, 2, "b", []quota.NodeID{"a", "b", "c"}, limits(1, quota.Tier{Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: burst}), nil, now)
	seq := map[quota.NodeID]quota.Seq{}
	report := func(from quota.NodeID, inc quota.Incarnation, entries ...quota.ReportEntry) {
		t.Helper()
		seq[from]++
		if _, err := l.Report(now, quota.Report{Term: 2, From: from, Incarnation: inc, Seq: seq[from], Full: true, Parts: 1, Age: 1000 * time.Hour, Entries: entries}); err != nil {
			t.Fatal(err)
		}
	}
	l.MemberGone(now, "a", 2)
	report("b", 1)
	report("c", 1, quota.ReportEntry{Key: key, Epoch: 1})
	l.SetLimits(now, limits(2, quota.Window(quota.SlidingWindow, burst, time.Minute)))
	now = now.Add(time.Minute + time.Millisecond)
	report("c", 1, quota.ReportEntry{Key: key, Epoch: 1, Overdrawn: quota.FromTokens(200)})
	now = now.Add(30 * time.Second)
	report("a", 2)
	if k, _ := l.Key(now, key); k.Remaining > burst-200 {
		t.Errorf("remaining %d; 200 of %d are used", k.Remaining, burst)
	}
}

// TestImplicitGrantOfReturnedMember opens a key while a member counts as dead that has reported to this leader before and
// was only out of reach. Its part returns when it is back, also if it does not use the key.
func TestImplicitGrantOfReturnedMember(t *testing.T) {
	const burst = 300
	key := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: key.LimitName, Ceiling: quota.Hard, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: burst,
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	l := New(Config{}, 0, 2, "b", []quota.NodeID{"a", "b", "c"}, limits, nil, now)
	seq := map[quota.NodeID]quota.Seq{}
	report := func(from quota.NodeID, full bool, entries ...quota.ReportEntry) {
		t.Helper()
		now = now.Add(10 * time.Millisecond)
		seq[from]++
		if _, err := l.Report(now, quota.Report{Term: 2, From: from, Incarnation: 1, Seq: seq[from], Full: full, Parts: 1, Age: 1000 * time.Hour, Entries: entries}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []quota.NodeID{"a", "b", "c"} {
		report(m, true)
	}
	l.Suspect(now, "a")
	now = now.Add(10 * time.Second)
	l.Sweep(now)
	report("c", false, quota.ReportEntry{Key: key, Epoch: 1})
	if k, _ := l.Key(now, key); k.Remaining != burst*2/3 {
		t.Errorf("remaining %d while a is away, want %d", k.Remaining, burst*2/3)
	}
	report("a", false)
	if k, _ := l.Key(now, key); k.Remaining != burst {
		t.Errorf("remaining %d when a is back, want %d", k.Remaining, burst)
	}
}

// TestLateReports has reports arrive late now and then. What the leader knows of their member is as before, so no bucket
// has to look at it.
func TestLateReports(t *testing.T) {
	key := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}
	limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: key.LimitName, Ceiling: quota.Hard, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 30}})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	l := New(Config{}, 0, 2, "a", []quota.NodeID{"a"}, limits, nil, now)
	for i := range 10 {
		at, late := now.Add(time.Duration(i)*time.Minute), time.Duration(i%2)*3*time.Second
		r := quota.Report{Term: 2, From: "a", Incarnation: 1, Seq: quota.Seq(i + 1), Full: i == 0, Parts: 1, Age: at.Sub(now), Entries: []quota.ReportEntry{{Key: key, Epoch: 1}}}
		if _, err := l.Report(at.Add(late), r); err != nil {
			t.Fatal(err)
		}
		if n := l.happened(); n != 0 {
			t.Fatalf("report %d: %d changes for all buckets", i, n)
		}
	}
}
