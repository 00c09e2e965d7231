package cluster

import (
	"bytes"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

func rangeSnapshot(t *testing.T, f *rangeFSM) []byte {
	t.Helper()
	write, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// historyEntry is an entry of the log with a line and a list of keys.
func historyEntry(block history.Block) []byte {
	p := history.Process{Node: "n1", Incarnation: 7}
	l := history.Line{Block: block, Expected: []history.Process{p}, From: []history.Process{p}, Slices: []history.Slice{{Limit: quota.LimitName{Namespace: "n", Limit: "l"}}}}
	l.Slices[0].Counts[3] = history.Counts{Attempted: 5 * quota.Token, Admitted: 4 * quota.Token}
	k := history.KeysLine{
		Minute: block.Minute(), By: history.Lister{Term: 1, At: quota.Time(block.First()) * quota.Time(time.Second)},
		Lists: []history.TopKeys{{Limit: l.Slices[0].Limit, Keys: []history.KeyTotal{{Key: "k", Attempted: 5 * quota.Token, Admitted: 4 * quota.Token}}}},
	}
	return encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_History{History: &raftlogv1.HistoryLines{Lines: [][]byte{l.Append(nil)}, Keys: [][]byte{k.Append(nil)}}}})
}

// TestHistorySnapshot: a range's state comes back from its snapshot, of which an earlier version reads
// the form as long as there is no line; an entry that is applied twice counts once; damage changes nothing.
func TestHistorySnapshot(t *testing.T) {
	mono := func() time.Duration { return 0 }
	f := newRangeFSM(mono)
	before := rangeSnapshot(t, f)
	if !strings.HasPrefix(string(before), rangeMagic) {
		t.Fatalf("a snapshot without history begins with %q", before[:8])
	}
	for _, b := range []history.Block{1000, 1001, 1001, 1007} {
		if err := f.Apply(1, 1, historyEntry(b)); err != nil {
			t.Fatal(err)
		}
	}
	whole := rangeSnapshot(t, f)
	again := newRangeFSM(mono)
	if err := again.Restore(bytes.NewReader(whole)); err != nil || !bytes.Equal(rangeSnapshot(t, again), whole) {
		t.Fatalf("restored it is another: %v", err)
	}
	limit := quota.LimitName{Namespace: "n", Limit: "l"}
	points, _, asOf := again.history.points(limit, 0, 1<<40, 60)
	sum := quota.Units(0)
	for i := range points {
		sum += points[i].Attempted
	}
	top, _ := again.history.top(limit, 0, 1<<40, 10)
	if sum != 15*quota.Token || asOf != history.Block(1008).First() || len(top.Keys) != 1 || top.Keys[0].Attempted != 15*quota.Token {
		t.Errorf("%d attempted until %d, keys %+v", sum, asOf, top)
	}
	var filtered bytes.Buffer
	if err := restoredRange(&filtered, bytes.NewReader(whole)); err != nil || !bytes.Equal(filtered.Bytes(), whole) {
		t.Errorf("a backup has another: %v", err)
	}
	for n := len(rangeMagic); n < len(whole); n++ {
		if err := again.Restore(bytes.NewReader(whole[:n])); err == nil {
			t.Fatalf("cut off after %d of %d bytes: no error", n, len(whole))
		}
	}
	if !bytes.Equal(rangeSnapshot(t, again), whole) {
		t.Error("a damaged snapshot has changed the state")
	}
	if err := again.Restore(bytes.NewReader(before)); err != nil || !bytes.Equal(rangeSnapshot(t, again), before) {
		t.Errorf("of an earlier version: %v", err)
	}
	if err, failed := f.Apply(9, 1, encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_History{History: &raftlogv1.HistoryLines{Lines: [][]byte{{1, 2}}}}})).(error); !failed || err == nil {
		t.Error("a damaged line: no error")
	}
}
