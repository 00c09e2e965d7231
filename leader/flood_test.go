package leader_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestFloodOfKeys: a flood of keys of one limit takes the ledger's room for accounts from no other
// limit that has less than an equal part, and what a limit lets go of is room again.
func TestFloodOfKeys(t *testing.T) {
	const most = 160
	limitOf := func(name string) quota.Limit {
		return quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: name}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 30, Ceiling: quota.Soft}
	}
	flood, other := limitOf("flood"), limitOf("other")
	limits, err := quota.NewLimits(1, []quota.Limit{flood, other})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	l := leader.New(leader.Config{MaxKeys: most}, 0, 1, "a", []quota.NodeID{"a"}, limits, nil, now)
	seq := quota.Seq(0)
	answered := func(n quota.LimitName, keys int, final bool) int {
		t.Helper()
		seq++
		r := quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: seq}
		for i := range keys {
			r.Entries = append(r.Entries, quota.ReportEntry{Key: quota.Key{LimitName: n, Key: strconv.Itoa(i)}, Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token, Final: final})
		}
		g, err := l.Report(now, r)
		if err != nil {
			t.Fatal(err)
		}
		return len(g.Entries)
	}
	if got := answered(flood.LimitName, 500, false); got != most-most/16 {
		t.Errorf("the flood has %d accounts, want %d", got, most-most/16)
	}
	if got := answered(other.LimitName, 500, false); got != most/16 {
		t.Errorf("the other limit has %d accounts, want the last %d", got, most/16)
	}
	answered(flood.LimitName, most-most/16, true)
	now = now.Add(time.Hour)
	l.Checkpoint(now, 500)
	l.Sweep(now)
	if got := answered(other.LimitName, 100, false); got != 100 {
		t.Errorf("when the flood is over the other limit has %d accounts, want 100", got)
	}
}
