package leader_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestSavedHandsOutEverything: when the log has committed what a member waits for, others may be
// recalled or granted tokens. Saved returns these grants with those that caused them, not with the
// next report: a grant that waits yields a rate and tokens for a moment that has long passed.
func TestSavedHandsOutEverything(t *testing.T) {
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100, Ceiling: quota.Hard, Durable: true,
	}
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	ledger := leader.New(leader.Config{}, 0, 1, "a", []quota.NodeID{"a", "b", "c", "d"}, limits, nil, now)
	key := quota.Key{LimitName: l.LimitName, Key: "k"}
	log := func() []quota.Grant {
		ledger.Checkpoint(now, 10)
		return ledger.Saved(now, ledger.Written())
	}
	held, seq := map[quota.NodeID]quota.Units{}, map[quota.NodeID]quota.Seq{}
	applied := map[quota.NodeID]quota.Seq{}
	report := func(from quota.NodeID, refused, want quota.Units) {
		t.Helper()
		seq[from]++
		g, err := ledger.Report(now, quota.Report{Term: 1, From: from, Incarnation: 1, Seq: seq[from], Entries: []quota.ReportEntry{{
			Key: key, Epoch: 1, Refused: refused, Held: held[from], Want: want, Applied: applied[from], Stopped: applied[from] > 0,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		held[from], applied[from] = held[from]+g.Entries[0].Tokens, g.Entries[0].Seq
	}
	report("a", 0, 60*quota.Token)
	for _, g := range log() {
		held[g.To], applied[g.To] = held[g.To]+g.Entries[0].Tokens, g.Entries[0].Seq
	}
	report("a", 0, 0) // it holds more than half
	now = now.Add(time.Second)
	report("b", 100*quota.Token, 100*quota.Token) // b's callers were refused; part of its need waits for the log
	ledger.Pushed()                               // discard the grants of this report
	now = now.Add(time.Second)
	recalled := false
	for _, g := range log() {
		recalled = recalled || g.To == "a" && g.Entries[0].Recall
	}
	if late := ledger.Pushed(); len(late) > 0 {
		t.Errorf("%d grants wait for the next report: %+v", len(late), late)
	}
	if !recalled {
		t.Error("nobody was asked to give back, where one holds all and another waits")
	}
}
