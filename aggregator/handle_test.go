package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestHandle: a handle takes held tokens of the current limits, and none of a dropped bucket.
func TestHandle(t *testing.T) {
	a, clock := handleTable(t)
	var h Handle
	if h.Take(1) {
		t.Fatal("took of a key that holds nothing")
	}
	a.checkNow(clock, benchName, "k", 1)
	for _, r := range a.Collect(clock()) {
		a.Apply(clock(), quota.Grant{Term: 1, From: "n", To: "c", At: clock(), Entries: []quota.GrantEntry{{
			Key: r.Entries[0].Key, Epoch: r.Entries[0].Epoch, Seq: 1, Ack: r.Seq, Tokens: 10 * quota.Token, Level: 99 * quota.Token, Lease: time.Minute, Again: time.Second,
		}}})
	}
	a.Find(&h, benchName, "k")
	if !h.Take(4) || h.Take(7) || h.Take(0) || h.Take(-1) || !h.Take(6) {
		t.Error("a handle takes what is held, and no more")
	}
	limits, _ := quota.NewLimits(2, []quota.Limit{{LimitName: benchName, Class: quota.Banned, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 100}})
	a.SetLimits(clock(), limits)
	if h.Take(1) {
		t.Error("took under limits that are not in force any more")
	}
	a.Find(&h, benchName, "k")
	if h.Take(1) {
		t.Error("took of a limit that refuses everything")
	}
}

func handleTable(t *testing.T) (*Aggregator, Clock) {
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
