package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// answersLedger returns the ledger of a durable limit whose leader decides.
func answersLedger(t *testing.T, l quota.Limit) *Ledger {
	t.Helper()
	l.LimitName = quota.LimitName{Namespace: "n", Limit: "l"}
	l.Decide, l.Durable = quota.AtLeader, true
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Overrides: &oneOverride{}}, 0, 1, "leader", []quota.NodeID{"b"}, limits, nil, start)
}

// askOnce asks for tokens, and fails unless they are admitted and to be reported.
func askOnce(t *testing.T, l *Ledger, now quota.Time, inc quota.Incarnation, id quota.Seq, tokens int64) {
	t.Helper()
	a := l.Ask(now, []quota.Ask{{From: "b", Incarnation: inc, ID: id, Key: theKey("k"), Cost: quota.FromTokens(tokens)}})[0]
	if !a.Allowed || !a.Report {
		t.Fatalf("%+v", a)
	}
}

// TestCancelAnsweredHasNoMoreThanRoom: a cancelled request returns no more than the bucket has had room for since.
func TestCancelAnsweredHasNoMoreThanRoom(t *testing.T) {
	l := answersLedger(t, quota.Limit{Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 10})
	now := start
	askOnce(t, l, now, 1, 1, 6)
	now = now.Add(5 * time.Second) // 9 of 10: without the request it would be full for 5 s
	askOnce(t, l, now, 1, 2, 5)
	g, err := l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: 1, Entries: []quota.ReportEntry{{
		Key: theKey("k"), Epoch: 1, Used: quota.FromTokens(5), Unreported: quota.FromTokens(5), Cancelled: []quota.Seq{1},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Entries[0].Level; got != quota.FromTokens(5) {
		t.Errorf("level %s, want 5: only the second request counts", show(got))
	}
}

// TestCancelAnsweredOfSlidWindow: what a request took in a sliding window returns once, although it is cancelled in the
// next window.
func TestCancelAnsweredOfSlidWindow(t *testing.T) {
	l := answersLedger(t, quota.Limit{Kind: quota.SlidingWindow, Rate: quota.Rate{Tokens: 10, Per: time.Minute}, Burst: 10})
	now := start - start%quota.Time(time.Minute) + quota.Time(2*time.Minute) - quota.Time(time.Second)
	askOnce(t, l, now, 1, 1, 8)
	now = now.Add(31 * time.Second) // 8 used in the last window, half of it returned
	rep := func(seq quota.Seq, final bool, cancelled ...quota.Seq) quota.Units {
		g, err := l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{{
			Key: theKey("k"), Epoch: 1, Cancelled: cancelled, Final: final,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return g.Entries[0].Level
	}
	before := rep(1, false)
	after := rep(2, false, 1)
	closed := rep(3, true)
	if closed != before || after != before {
		t.Errorf("level %s, %s when it is cancelled, %s when the key closes", show(before), show(after), show(closed))
	}
}

// TestCancelAnsweredOfWindow: what a request took in a window returns whole, however many requests follow it.
func TestCancelAnsweredOfWindow(t *testing.T) {
	l := answersLedger(t, quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 1000, Per: time.Hour}, Burst: 1000})
	now, later := start, quota.Seq(4*maxRooms)
	askOnce(t, l, now, 1, 1, 1)
	for id := range later {
		now = now.Add(time.Millisecond)
		askOnce(t, l, now, 1, 2+id, 1)
	}
	used := quota.FromTokens(int64(later))
	g, err := l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: 1, Entries: []quota.ReportEntry{{
		Key: theKey("k"), Epoch: 1, Used: used, Unreported: used, Cancelled: []quota.Seq{1},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Entries[0].Level, quota.FromTokens(1000)-used; got != want {
		t.Errorf("level %s, want %s: the first request does not count", show(got), show(want))
	}
}

// TestAnsweredOfDeadCountsOnce: an answer counts once if its process dies and the journal reports it, in the same window
// or a later one.
func TestAnsweredOfDeadCountsOnce(t *testing.T) {
	for _, late := range []bool{false, true} {
		l := answersLedger(t, quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 10, Per: time.Minute}, Burst: 10})
		now := start - start%quota.Time(time.Minute) + quota.Time(2*time.Minute)
		win := now
		askOnce(t, l, now, 1, 1, 3)
		now = now.Add(time.Second)
		l.MemberGone(now, "b", 2)
		if late {
			now = win.Add(time.Minute + time.Second)
		}
		if _, err := l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 2, Seq: 1, Entries: []quota.ReportEntry{{
			Key: theKey("k"), Epoch: 1, Incarnation: 1, Used: quota.FromTokens(3), Window: win,
		}}}); err != nil {
			t.Fatal(err)
		}
		if r, _ := l.Key(now, theKey("k")); r.Admitted != 3 {
			t.Errorf("late %v: %d admitted, want 3", late, r.Admitted)
		}
	}
}

// TestAnsweredOfDeadFinalReport: an answer counts once if the last report of a dead process arrives, and then its journal.
func TestAnsweredOfDeadFinalReport(t *testing.T) {
	l := answersLedger(t, quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 10, Per: time.Minute}, Burst: 10})
	now := start - start%quota.Time(time.Minute) + quota.Time(2*time.Minute)
	win := now
	askOnce(t, l, now, 1, 1, 5)
	now = now.Add(time.Second)
	e := quota.ReportEntry{Key: theKey("k"), Epoch: 1, Used: quota.FromTokens(2), Unreported: quota.FromTokens(2), Window: win}
	e0 := e // the process is known
	e0.Used, e0.Unreported = 0, 0
	l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: 1, Entries: []quota.ReportEntry{e0}})
	b := l.bucket(theKey("k"))
	for i := range b.allocations {
		b.retire(now, now, i)
	}
	l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: 2, Entries: []quota.ReportEntry{e}})
	l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 2, Seq: 1, Entries: []quota.ReportEntry{{
		Key: theKey("k"), Epoch: 1, Incarnation: 1, Used: quota.FromTokens(5), Window: win,
	}}})
	if r, _ := l.Key(now, theKey("k")); r.Admitted != 5 || r.Remaining != 5 {
		t.Errorf("%d admitted, %d remain, want 5 and 5", r.Admitted, r.Remaining)
	}
}

// TestAnsweredOfSeeminglyDead: what is answered does not count as of an ended window because its process seems dead.
func TestAnsweredOfSeeminglyDead(t *testing.T) {
	l := answersLedger(t, quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 10, Per: time.Minute}, Burst: 10})
	now := start - start%quota.Time(time.Minute) + quota.Time(2*time.Minute)
	askOnce(t, l, now, 1, 1, 3)
	b := l.bucket(theKey("k"))
	b.retire(now, now, 0)
	if got := b.allocations[0].logged.ended; got != 0 {
		t.Errorf("%s answered in ended windows, want 0", show(got))
	}
}

// TestReportCrossesAnswer: the cost of an answer that a report crosses counts as spent, and no refill is lost.
func TestReportCrossesAnswer(t *testing.T) {
	l := answersLedger(t, quota.Limit{Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 10})
	now := start
	askOnce(t, l, now, 1, 1, 5)
	rep := func(seq, applied quota.Seq, used int64) quota.GrantEntry {
		g, err := l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{{
			Key: theKey("k"), Epoch: 1, Used: quota.FromTokens(used), Applied: applied,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return g.Entries[0]
	}
	e := rep(1, 0, 0)
	if e.Level != quota.FromTokens(5) {
		t.Errorf("level %s after 5 of 10, want 5", show(e.Level))
	}
	now = now.Add(2 * time.Second)
	if e = rep(2, e.Seq, 5); e.Level != quota.FromTokens(7) {
		t.Errorf("level %s two seconds later, want 7", show(e.Level))
	}
}

// TestFinalReportCrossesAnswer: an answer that a final report crosses counts once, and returns if the member does not report
// it when it repeats the final report.
func TestFinalReportCrossesAnswer(t *testing.T) {
	for _, used := range []int64{3, 0} {
		for _, late := range []bool{false, true} {
			l := answersLedger(t, quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 10, Per: time.Minute}, Burst: 10})
			now := start - start%quota.Time(time.Minute) + quota.Time(2*time.Minute)
			win := now
			seq := quota.Seq(0)
			rep := func(used int64, final bool) quota.GrantEntry {
				seq++
				g, err := l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{{
					Key: theKey("k"), Epoch: 1, Used: quota.FromTokens(used), Final: final, Window: win,
				}}})
				if err != nil {
					t.Fatal(err)
				}
				l.Checkpoint(now, 10)
				l.Saved(now, l.Written())
				return g.Entries[0]
			}
			rep(0, false)
			askOnce(t, l, now, 1, 1, 3)
			if late {
				now = now.Add(time.Minute)
			}
			if g := rep(0, true); g.Closed {
				t.Error("closed, although an answer may be on its way")
			}
			if used > 0 {
				rep(used, false)
				rep(used, true)
			}
			closed := rep(used, true).Closed
			want := int64(10)
			if !late {
				want -= used
			}
			if r, _ := l.Key(now, theKey("k")); r.Remaining != want || used > 0 && r.Admitted != used || !closed {
				t.Errorf("%d used, late %v: %d remain, %d admitted, closed %v; want %d and %d", used, late, r.Remaining, r.Admitted, closed, want, used)
			}
		}
	}
}

// TestAnswerAfterClose: the answers to final reports are lost, so a member repeats one that an admitted request still
// crosses, and the key closes. If the member uses the answer then, or cancels it, it counts once, or not at all.
func TestAnswerAfterClose(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, used := range []int64{3, 0} {
			l := answersLedger(t, quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 10, Per: time.Minute}, Burst: 10})
			now := start - start%quota.Time(time.Minute) + quota.Time(2*time.Minute)
			seq := quota.Seq(0)
			rep := func(e quota.ReportEntry) quota.GrantEntry {
				seq++
				e.Key = theKey("k")
				g, err := l.Report(now, quota.Report{Term: 1, From: "b", Incarnation: 1, Seq: seq, Entries: []quota.ReportEntry{e}})
				if err != nil {
					t.Fatal(err)
				}
				l.Checkpoint(now, 10)
				l.Saved(now, l.Written())
				return g.Entries[0]
			}
			win := now
			rep(quota.ReportEntry{Epoch: 1, Window: win})
			askOnce(t, l, now, 1, 1, 3)
			if late {
				now = now.Add(time.Minute)
			}
			rep(quota.ReportEntry{Epoch: 1, Window: win, Final: true})
			if !rep(quota.ReportEntry{Epoch: 1, Window: win, Final: true}).Closed {
				t.Fatal("the key is not closed")
			}
			next := quota.ReportEntry{Epoch: 2, Window: win, Used: quota.FromTokens(used), Unreported: quota.FromTokens(used)}
			if used == 0 {
				next.Cancelled = []quota.Seq{1}
			}
			rep(next)
			want := int64(10)
			if !late {
				want -= used
			}
			if r, _ := l.Key(now, theKey("k")); r.Admitted != used || r.Attempted != used || r.Remaining != want {
				t.Errorf("late %v: %d admitted of %d, %d remain; want %d of %d, and %d", late, r.Admitted, r.Attempted, r.Remaining, used, used, want)
			}
		}
	}
}
