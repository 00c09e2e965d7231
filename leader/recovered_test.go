package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// recoveredTest is a ledger of one key, a hard window of an hour, and its log.
type recoveredTest struct {
	t      *testing.T
	now    quota.Time
	limits *quota.Limits
	key    quota.Key
	l      *Ledger
	log    []quota.KeyLevel
	seq    quota.Seq
}

func newRecoveredTest(t *testing.T, burst int64) *recoveredTest {
	t.Helper()
	e := &recoveredTest{t: t, now: quota.Time(100 * time.Hour), key: quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}}
	e.limits = e.limitsOf(burst)
	e.elect(1, e.limits)
	e.now = e.now.Add(time.Second) // learning is over
	return e
}

func (e *recoveredTest) limitsOf(burst int64) *quota.Limits {
	e.t.Helper()
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: e.key.LimitName, Kind: quota.FixedWindow, Ceiling: quota.Hard,
		Rate: quota.Rate{Tokens: burst, Per: time.Hour}, Burst: burst,
	}})
	if err != nil {
		e.t.Fatal(err)
	}
	return limits
}

// elect starts a leader with these limits and the lines of the log.
func (e *recoveredTest) elect(term quota.Term, limits *quota.Limits) {
	e.l = New(Config{}, 0, term, "b", []quota.NodeID{"a", "b"}, limits, LinesOf(e.log), e.now)
}

// write makes the next checkpoint, which is committed or not.
func (e *recoveredTest) write(commit bool) {
	if levels := e.l.Checkpoint(e.now, 10); commit && len(levels) > 0 {
		e.log = levels
		e.l.Saved(e.now, e.l.Written())
	}
}

// report sends an entry of node a's process, and returns the answer to it.
func (e *recoveredTest) report(inc quota.Incarnation, entry quota.ReportEntry) []quota.GrantEntry {
	e.t.Helper()
	e.now = e.now.Add(10 * time.Millisecond)
	e.seq++
	entry.Key = e.key
	g, err := e.l.Report(e.now, quota.Report{Term: e.l.Term(), From: "a", Incarnation: inc, Seq: e.seq, Entries: []quota.ReportEntry{entry}})
	if err != nil {
		e.t.Fatal(err)
	}
	return g.Entries
}

func (e *recoveredTest) remaining(want int64) {
	e.t.Helper()
	if k, ok := e.l.Key(e.now, e.key); !ok || k.Remaining != want {
		e.t.Errorf("remaining %d, %v; want %d", k.Remaining, ok, want)
	}
}

// TestRecoveredIsCommitted: a process learns that the counts of an earlier one are settled only
// when the log has them. This includes a process that counted nothing and only held tokens.
func TestRecoveredIsCommitted(t *testing.T) {
	for _, used := range []int64{0, 7} {
		e := newRecoveredTest(t, 1000)
		e.report(1, quota.ReportEntry{Epoch: 3, Want: quota.FromTokens(50)})
		e.write(true) // with a promise to the process
		if len(e.log) != 1 || len(e.log[0].Marks) != 1 || e.log[0].Marks[0].Out == 0 {
			t.Fatalf("the log promises nothing: %+v", e.log)
		}
		e.elect(2, e.limits)
		told := quota.ReportEntry{Epoch: 3, Incarnation: 1, Overdrawn: quota.FromTokens(used), Window: e.now - e.now%quota.Time(time.Hour)}
		if got := e.report(2, told); len(got) != 0 {
			t.Errorf("%d used: answered before the log has it: %+v", used, got)
		}
		e.write(false) // lost with its leader
		if got := e.report(2, told); len(got) != 0 {
			t.Errorf("%d used: answered before the log has it: %+v", used, got)
		}
		e.elect(3, e.limits)
		if got := e.report(2, told); len(got) != 0 {
			t.Errorf("%d used: answered by a leader whose log has not got it: %+v", used, got)
		}
		e.write(true)
		for range 2 {
			if got := e.report(2, told); len(got) != 1 || got[0].Incarnation != 1 || got[0].Saved != quota.FromTokens(used) {
				t.Errorf("%d used: %+v; want it settled", used, got)
			}
		}
		e.elect(4, e.limits)
		e.remaining(1000 - used)
	}
}

// TestRecoveredNeedsLimits: a new leader may not have the limits yet. It does not settle counts
// that it cannot book, until the limits must have arrived.
func TestRecoveredNeedsLimits(t *testing.T) {
	e := newRecoveredTest(t, 1000)
	none, err := quota.NewLimits(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.elect(2, none)
	told := quota.ReportEntry{Epoch: 3, Incarnation: 1, Overdrawn: quota.FromTokens(7), Window: e.now - e.now%quota.Time(time.Hour)}
	if got := e.report(2, told); len(got) != 0 {
		t.Errorf("settled without the limit: %+v", got)
	}
	e.l.SetLimits(e.now, e.limits)
	e.report(2, told)
	e.write(true)
	if got := e.report(2, told); len(got) != 1 {
		t.Errorf("not settled: %+v", got)
	}
	e.remaining(993)
	e.elect(3, none)
	e.now = e.now.Add(unknownFor)
	if got := e.report(2, told); len(got) != 1 || got[0].Saved != quota.FromTokens(7) {
		t.Errorf("a limit that is gone for good: %+v", got)
	}
}

// TestPromiseEndsWithEpoch: promises and saved counts in the log for one opening of a key do not
// apply to the next.
func TestPromiseEndsWithEpoch(t *testing.T) {
	e := newRecoveredTest(t, 1000)
	e.report(1, quota.ReportEntry{Epoch: 3, Want: quota.FromTokens(50)})
	e.report(1, quota.ReportEntry{Epoch: 3, Overdrawn: quota.FromTokens(20)})
	e.l.Checkpoint(e.now, 10) // not committed yet
	got := e.report(1, quota.ReportEntry{Epoch: 4, Overdrawn: quota.FromTokens(1), Want: quota.FromTokens(5)})
	if len(got) != 1 || got[0].Tokens != 0 {
		t.Errorf("granted out of the promise to another epoch: %+v", got)
	}
	e.l.Saved(e.now, e.l.Written())
	if got = e.report(1, quota.ReportEntry{Epoch: 4, Overdrawn: quota.FromTokens(30)}); len(got) != 1 || got[0].Saved != 0 {
		t.Errorf("saved %+v; nothing of this epoch is", got)
	}
	e.write(true)
	if got = e.report(1, quota.ReportEntry{Epoch: 4, Overdrawn: quota.FromTokens(30)}); len(got) != 1 || got[0].Saved != quota.FromTokens(30) {
		t.Errorf("saved %+v; want 30", got)
	}
}

// TestLimitChangesBeforeCheckpoint: the log's level was counted by a limit that the next leader
// does not know. Used tokens stay used.
func TestLimitChangesBeforeCheckpoint(t *testing.T) {
	for _, burst := range []int64{5000, 200} {
		e := newRecoveredTest(t, 1000)
		e.report(1, quota.ReportEntry{Epoch: 3, Overdrawn: quota.FromTokens(150)})
		e.write(true)
		e.report(1, quota.ReportEntry{Epoch: 3, Overdrawn: quota.FromTokens(150), Final: true})
		e.write(true)
		e.elect(2, e.limitsOf(burst))
		e.remaining(burst - 150)
	}
}

// TestManyDead: all nodes of a cluster die twice, and none is forgotten before its counts are
// booked. Beyond that number, the booked ones are forgotten first, then the oldest.
func TestManyDead(t *testing.T) {
	const nodes = 20
	b := bucket{rule: &rule{limit: &quota.Limit{Kind: quota.FixedWindow, Ceiling: quota.Hard, Rate: quota.Rate{Tokens: 1, Per: time.Hour}}}, state: &state{}}
	now := quota.Time(100 * time.Hour)
	for i := range 2*nodes + 3 {
		b.allocations = append(b.allocations, allocation{
			openState:   openState{process: &process{processID: processID{inc: quota.Incarnation(i)}}, dead: true, final: i == 5},
			demandState: demandState{reported: now},
			logged:      &logged{diedAt: now - quota.Time(i)},
		})
	}
	b.forget(now, 2*nodes)
	if got := len(b.allocations); got != 2*nodes+3 {
		t.Fatalf("%d are remembered with room for all", got)
	}
	b.forget(now, nodes)
	if got := len(b.allocations); got != 2*nodes {
		t.Fatalf("%d are remembered, want %d", got, 2*nodes)
	}
	for i := range b.allocations {
		if inc := b.allocations[i].inc; inc == 5 || inc > 2*nodes {
			t.Errorf("process %d is remembered", inc)
		}
	}
}

// TestRefundOfDead: a refund that only the journal of a dead process reports counts as far as a hard bucket has had room for
// it since.
func TestRefundOfDead(t *testing.T) {
	for _, rate := range []quota.Rate{{Tokens: 10, Per: time.Second}, {Tokens: 1, Per: time.Hour}} {
		g := newExact(t, &quota.Limit{Burst: 20, Rate: rate, Decide: quota.Locally})
		a, b := &g.members[0], &g.members[1]
		g.report(a, 6, false)
		used := a.held
		g.use(a, used.Tokens())
		g.central.Add(used) // its callers give all of it back; it dies and has reported nothing of that
		g.l.MemberGone(g.now, "a", 2)
		g.pass(3 * time.Second)
		g.report(b, 6, false)
		g.use(b, b.held.Tokens())
		g.report(b, 0, false)
		e := quota.ReportEntry{Key: examKey, Epoch: 1, Incarnation: 1, Overdrawn: used, Refunded: used}
		if _, err := g.l.Report(g.now, quota.Report{Term: 1, From: "a", Incarnation: 2, Seq: 1, Entries: []quota.ReportEntry{e}}); err != nil {
			t.Fatal(err)
		}
		g.check()
		if all := g.all(); rate.Per == time.Hour && all < g.central.Level()-exactRounding {
			t.Errorf("%s in all, the central bucket has %s", show(all), show(g.central.Level()))
		}
	}
}
