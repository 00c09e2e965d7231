package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRefs: a member names a key by the leader's number, and no other key is booked: not by an
// unassigned number, not in another opening, not by another member or process, and not when the
// number was reassigned.
func TestRefs(t *testing.T) {
	name := quota.LimitName{Namespace: "n", Limit: "l"}
	limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: name, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 100}})
	if err != nil {
		t.Fatal(err)
	}
	l := New(Config{}, 0, 1, "lead", []quota.NodeID{"a", "b"}, limits, nil, 1)
	key := func(k string) quota.Key { return quota.Key{LimitName: name, Key: k} }
	now, seq := quota.Time(1), quota.Seq(0)
	report := func(from quota.NodeID, inc quota.Incarnation, e quota.ReportEntry) quota.GrantEntry {
		t.Helper()
		now, seq = now.Add(100*time.Millisecond), seq+1
		g, err := l.Report(now, quota.Report{Term: 1, From: from, Incarnation: inc, Seq: seq, Entries: []quota.ReportEntry{e}})
		if err != nil || len(g.Entries) != 1 || g.Entries[0].Line != 1 || g.Incarnation != inc {
			t.Fatalf("%+v, %v", g, err)
		}
		return g.Entries[0]
	}
	one := quota.ReportEntry{Key: key("one"), Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token}
	ref := report("a", 1, one).Ref
	if ref == 0 {
		t.Fatal("no number was told")
	}
	used := func(k string) int64 { r, _ := l.Key(now, key(k)); return r.Admitted }
	byRef := quota.ReportEntry{Ref: ref, Epoch: 1, Overdrawn: 3 * quota.Token, Unreported: 2 * quota.Token}
	if g := report("a", 1, byRef); g.Unknown || g.Ref != 0 || g.Key != key("one") || used("one") != 3 {
		t.Errorf("by its number: %+v, %d used", g, used("one"))
	}
	for _, try := range []struct { // in this order: reports of a replaced process are refused
		what string
		from quota.NodeID
		inc  quota.Incarnation
		e    quota.ReportEntry
	}{
		{"a number never given", "a", 1, quota.ReportEntry{Ref: ref + 5, Epoch: 1}},
		{"of another opening", "a", 1, quota.ReportEntry{Ref: ref, Epoch: 2}},
		{"of another member", "b", 1, quota.ReportEntry{Ref: ref, Epoch: 1}},
		{"of another process", "b", 2, quota.ReportEntry{Ref: ref, Epoch: 1}},
		{"neither name nor number", "a", 1, quota.ReportEntry{Epoch: 1}},
	} {
		try.e.Overdrawn, try.e.Unreported = 9*quota.Token, 9*quota.Token
		if g := report(try.from, try.inc, try.e); !g.Unknown || g.Tokens != 0 || used("one") != 3 {
			t.Errorf("%s: %+v, %d used", try.what, g, used("one"))
		}
	}
	report("a", 1, quota.ReportEntry{Ref: ref, Epoch: 1, Overdrawn: 3 * quota.Token, Final: true})
	for range 200 {
		now = now.Add(time.Second)
		l.Checkpoint(now, 10)
		l.Sweep(now)
	}
	if l.Len() != 0 {
		t.Fatal("the key is not forgotten")
	}
	two := report("b", 2, quota.ReportEntry{Key: key("two"), Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token})
	if two.Ref != ref {
		t.Errorf("the number %d of a key that is gone is not given again: %d", ref, two.Ref)
	}
	if g := report("a", 1, byRef); !g.Unknown || used("two") != 1 {
		t.Errorf("by a number that is of another key now: %+v, %d used", g, used("two"))
	}
}
