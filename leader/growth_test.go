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

// TestNeverRefills checks that a bucket which never refills grants nothing that the log does not know, and is not less by
// that after a node and the leader are lost.
func TestNeverRefills(t *testing.T) {
	hard := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "hard"}, Rate: quota.Rate{Per: time.Second}, Burst: 30, Ceiling: quota.Hard}
	limits, err := quota.NewLimits(1, []quota.Limit{hard})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	k := quota.Key{LimitName: hard.LimitName, Key: "k"}
	report := func(l *leader.Ledger, from quota.NodeID) quota.Grant {
		g, err := l.Report(now, quota.Report{Term: l.Term(), From: from, Incarnation: 1, Seq: 1, Age: time.Hour, Full: true, Parts: 1, Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Want: 20 * quota.Token}}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := leader.New(leader.Config{}, 0, 1, "a", []quota.NodeID{"a", "b", "c"}, limits, nil, now)
	if got := report(first, "a").Entries[0].Tokens; got != 0 || !first.Wants() {
		t.Errorf("%v granted before the log knows of it", got)
	}
	first.CheckpointWanted(now, 1)
	if g := first.Saved(now, first.Written()); len(g) != 1 || g[0].Entries[0].Tokens < 20*quota.Token {
		t.Errorf("granted %+v once the log knows of it", g)
	}
	next := leader.New(leader.Config{}, 0, 2, "b", []quota.NodeID{"a", "b", "c"}, limits, nil, now)
	next.MemberGone(now, "a", 99)
	report(next, "b")
	if r, _ := next.Key(now, k); r.Remaining != hard.Burst { // the log knows nothing of the key
		t.Errorf("%d tokens of an unused key are left after a change of leaders; want all", r.Remaining)
	}
}
