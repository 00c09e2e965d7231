package leader_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestWantedFirst: the lines that members wait for are in the next checkpoint, however many other
// buckets have changed, and CheckpointWanted returns them alone.
func TestWantedFirst(t *testing.T) {
	const keys, part = 5000, 100
	rate := quota.Rate{Tokens: 10, Per: time.Hour}
	soft := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "soft"}, Rate: rate, Burst: 1000, Ceiling: quota.Soft}
	hard := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "hard"}, Rate: rate, Burst: 30, Ceiling: quota.Hard}
	limits, err := quota.NewLimits(1, []quota.Limit{soft, hard})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	ledger := leader.New(leader.Config{}, 0, 1, "a", []quota.NodeID{"a", "b", "c"}, limits, nil, now)
	seq := quota.Seq(0)
	report := func(entries ...quota.ReportEntry) {
		t.Helper()
		seq++
		if _, err := ledger.Report(now, quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: seq, Entries: entries}); err != nil {
			t.Fatal(err)
		}
	}
	used := func(n int64) (out []quota.ReportEntry) {
		for i := range keys {
			out = append(out, quota.ReportEntry{Key: quota.Key{LimitName: soft.LimitName, Key: strconv.Itoa(i)}, Epoch: 1, Overdrawn: quota.FromTokens(n), Unreported: quota.FromTokens(n)})
		}
		return out
	}
	// A third of the bucket is a's implicit grant; it wants more.
	ask := func(key string) quota.Key {
		k := quota.Key{LimitName: hard.LimitName, Key: key}
		report(quota.ReportEntry{Key: k, Epoch: 1, Want: 20 * quota.Token})
		if !ledger.Wants() {
			t.Fatalf("nobody waits for %v", k)
		}
		return k
	}
	report(used(100)...)
	k := ask("alone")
	if lines := ledger.CheckpointWanted(now, part); len(lines) != 1 || lines[0].Key != k || ledger.More() {
		t.Fatalf("%d lines are written at once, more: %v; want that of %v", len(lines), ledger.More(), k)
	}
	if grants := ledger.Saved(now, ledger.Written()); len(grants) != 1 || grants[0].Entries[0].Tokens < 10*quota.Token {
		t.Fatalf("what a waited for is %+v", grants)
	}
	if lines := ledger.CheckpointWanted(now, part); len(lines) != 0 {
		t.Errorf("nobody waits, and %d lines are written at once", len(lines))
	}
	k = ask("among others")
	lines := ledger.Checkpoint(now, part)
	if len(lines) != part || !ledger.More() {
		t.Fatalf("%d lines, more: %v", len(lines), ledger.More())
	}
	for i := range lines {
		if lines[i].Key == k {
			if ledger.Wants() {
				t.Error("it is written, and waited for")
			}
			return
		}
	}
	t.Errorf("the first %d lines of %d are without %v, which a waits for", part, keys, k)
}

// TestWantedInParts: lines that do not fit into one checkpoint are spread over several, in the
// order of the requests.
func TestWantedInParts(t *testing.T) {
	hard := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: "hard"}, Rate: quota.Rate{Tokens: 10, Per: time.Hour}, Burst: 30, Ceiling: quota.Hard}
	limits, err := quota.NewLimits(1, []quota.Limit{hard})
	if err != nil {
		t.Fatal(err)
	}
	now := quota.Time(1_790_000_000_000_000_000)
	ledger := leader.New(leader.Config{}, 0, 1, "a", []quota.NodeID{"a", "b", "c"}, limits, nil, now)
	r := quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: 1}
	for i := range 10 {
		r.Entries = append(r.Entries, quota.ReportEntry{Key: quota.Key{LimitName: hard.LimitName, Key: strconv.Itoa(9 - i)}, Epoch: 1, Want: 20 * quota.Token})
	}
	if _, err := ledger.Report(now, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6789", "2345", "01", ""} {
		got := ""
		for _, kl := range ledger.CheckpointWanted(now, 4) {
			got += kl.Key.Key
		}
		if more := want > "2"; got != want || ledger.More() != more || ledger.Wants() != more {
			t.Errorf("written are %q, more: %v, wants: %v; want %q, more: %v", got, ledger.More(), ledger.Wants(), want, more)
		}
	}
}
