package leader_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestGrownBeforeCheckpoint: a node is granted its part of a new key, the cluster grows, and the
// leader and that node are lost before the grant is in the log. The next leader divides by the old
// number of nodes.
func TestGrownBeforeCheckpoint(t *testing.T) {
	hard := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "hard"}, Rate: quota.Rate{Tokens: 1, Per: 24 * time.Hour}, Burst: 30, Ceiling: quota.Hard}
	limits, err := quota.NewLimits(1, []quota.Limit{hard})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	k := quota.Key{LimitName: hard.LimitName, Key: "k"}
	report := func(l *leader.Ledger, from quota.NodeID) quota.Grant {
		g, err := l.Report(now, quota.Report{Term: l.Term(), From: from, Incarnation: 1, Seq: 1, Age: 2000 * time.Hour, Full: true, Parts: 1, Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Want: 20 * quota.Token}}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	var had quota.Units
	g := report(leader.New(leader.Config{}, 0, 1, "a", []quota.NodeID{"a", "b", "c"}, limits, nil, now), "a")
	had = g.Entries[0].Tokens
	next := leader.New(leader.Config{Fewest: 3}, 0, 2, "b", []quota.NodeID{"a", "b", "c", "d"}, limits, nil, now)
	next.MemberGone(now, "a", 99)
	for _, id := range []quota.NodeID{"b", "c", "d"} {
		report(next, id)
	}
	r, _ := next.Key(now, k)
	if most := r.Remaining + had.Tokens(); most > hard.Burst {
		t.Errorf("a was granted %d, and %d are left; the burst is %d", had.Tokens(), r.Remaining, hard.Burst)
	}
}
