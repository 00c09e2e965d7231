package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestPart: what is counted before and after the parting is in one report each,
// whatever had been acknowledged.
func TestPart(t *testing.T) {
	a, clock := partTable(t)
	key := quota.Key{LimitName: benchName, Key: "k"}
	for range 5 {
		a.Check(clock, benchName, "k", 1)
	}
	reports := a.Collect(clock())
	if len(reports) != 1 || reports[0].Entries[0].Overdrawn != 5*quota.Token {
		t.Fatalf("reports %+v", reports)
	}
	e := reports[0].Entries[0]
	a.Apply(clock(), quota.Grant{Term: 1, From: "n", To: "c", At: clock(), Entries: []quota.GrantEntry{{
		Key: key, Epoch: e.Epoch, Seq: 1, Ack: reports[0].Seq, Tokens: 50 * quota.Token, Level: 95 * quota.Token, Lease: time.Minute, Again: time.Second,
	}}})
	for range 7 {
		a.Check(clock, benchName, "k", 1)
	}
	a.Check(clock, benchName, "fresh", 3) // never reported

	lasts := a.Part(clock(), 0, 1)
	if len(lasts) != 1 || len(lasts[0].Report.Entries) != 2 || len(lasts[0].Acknowledged) != 2 || !lasts[0].Report.Full || lasts[0].Report.Term != 1 {
		t.Fatalf("last reports %+v", lasts)
	}
	acked := lasts[0].Acknowledged
	for i, e := range lasts[0].Report.Entries {
		used, known, held := 3*quota.Token, quota.Units(0), quota.Units(0)
		if e.Key == key {
			used, known, held = 12*quota.Token, 5*quota.Token, 43*quota.Token
		}
		if e.Used+e.Overdrawn != used || acked[i] != known || e.Returned != held || e.Held != 0 || !e.Final {
			t.Errorf("entry %+v, acknowledged %v; want %v used, %v known, %v returned", e, acked[i], used, known, held)
		}
	}
	if !a.Quiet() && len(a.ranges[0].open) > 0 {
		t.Error("keys are open after the parting")
	}
	if again := a.Part(clock(), 0, 1); again != nil {
		t.Errorf("parted twice: %+v", again)
	}
	if got := a.Check(clock, benchName, "k", 0).Remaining; got != 88 {
		t.Errorf("%d remain; the level stays as it was told, less what was used since: 88", got)
	}

	a.SetLeader(0, "m", 2)
	a.Check(clock, benchName, "k", 2)
	var sum quota.Units
	for _, r := range a.Collect(clock()) {
		for _, e := range r.Entries {
			sum += e.Used + e.Overdrawn
		}
	}
	if sum != 2*quota.Token {
		t.Errorf("the next leader is told of %v; want the two tokens since", sum)
	}
}

// TestHandle: a handle takes what is held, of the limits in force and of no
// bucket that is gone.
func TestHandle(t *testing.T) {
	a, clock := partTable(t)
	h := a.Handle(benchName, "k")
	if h.Take(1) {
		t.Fatal("took of a key that holds nothing")
	}
	a.Check(clock, benchName, "k", 1)
	for _, r := range a.Collect(clock()) {
		a.Apply(clock(), quota.Grant{Term: 1, From: "n", To: "c", At: clock(), Entries: []quota.GrantEntry{{
			Key: r.Entries[0].Key, Epoch: r.Entries[0].Epoch, Seq: 1, Ack: r.Seq, Tokens: 10 * quota.Token, Level: 99 * quota.Token, Lease: time.Minute, Again: time.Second,
		}}})
	}
	h.Find()
	if !h.Take(4) || h.Take(7) || h.Take(0) || h.Take(-1) || !h.Take(6) {
		t.Error("a handle takes what is held, and no more")
	}
	limits, _ := quota.NewLimits(2, []quota.Limit{{LimitName: benchName, Class: quota.Banned, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 100}})
	a.SetLimits(clock(), limits)
	if h.Take(1) {
		t.Error("took under limits that are not in force any more")
	}
	h.Find()
	if h.Take(1) {
		t.Error("took of a limit that refuses everything")
	}
}

func partTable(t *testing.T) (*Aggregator, Clock) {
	t.Helper()
	now := quota.Time(time.Hour)
	clock := func() quota.Time { return now }
	a := New(Config{Self: "c", Incarnation: 1, Ranges: 1}, now)
	limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: benchName, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 100}})
	if err != nil {
		t.Fatal(err)
	}
	a.SetLimits(now, limits)
	a.SetLeader(0, "n", 1)
	a.Collect(now)
	return a, clock
}
