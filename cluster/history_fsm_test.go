package cluster

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
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
func historyEntry(block history.Slot) []byte {
	p := history.Process{Node: "n1", Incarnation: 7}
	l := history.Line{Slot: block, Expected: []history.Process{p}, From: []history.Process{p}, Slices: []history.Slice{{Limit: quota.LimitName{Namespace: "n", Limit: "l"}}}}
	l.Slices[0].Counts[3] = history.Counts{Attempted: 5 * quota.Token, Admitted: 4 * quota.Token}
	l.Slices[0].Counts[4] = history.Counts{Over: math.MaxInt64}
	k := history.KeysLine{
		Minute: block.Minute(), By: history.Lister{Term: 1, At: quota.Time(block.First()) * quota.Time(time.Second)},
		Lists: []history.TopKeys{{Limit: l.Slices[0].Limit, Keys: []history.KeyTotal{{Key: "k", Attempted: 5 * quota.Token, Admitted: 4 * quota.Token}}}},
	}
	return snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_History{History: &raftlogv1.HistoryLines{Lines: [][]byte{l.Append(nil)}, Keys: [][]byte{k.Append(nil)}}}})
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
	for _, b := range []history.Slot{1000, 1001, 1001, 1007} {
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
	points, _, asOf := again.history.Points(limit, 0, 1<<40, 60)
	sum := quota.Units(0)
	for i := range points {
		sum += points[i].Attempted
	}
	var keys history.KeysSum
	again.history.Top(limit, 0, 1<<40, &keys)
	top := keys.Top(limit, 10)
	if sum != 15*quota.Token || asOf != history.Slot(1008).First() || len(top.Keys) != 1 || top.Keys[0].Attempted != 15*quota.Token {
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
		t.Errorf("a snapshot without history: %v", err)
	}
	if err, failed := f.Apply(9, 1, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_History{History: &raftlogv1.HistoryLines{Lines: [][]byte{{1, 2}}}}})).(error); !failed || err == nil {
		t.Error("a damaged line: no error")
	}
}

// TestHistoryWaits: of a range nothing is asked of, lines are written once a minute; what completes a
// block of which something was counted is not held back with them.
func TestHistoryWaits(t *testing.T) {
	mono := func() time.Duration { return 0 }
	f := newRangeFSM(mono)
	r, one, two := f.history, history.Process{Node: "n1", Incarnation: 1}, history.Process{Node: "n2", Incarnation: 1}
	begin := history.Slot(1000).First()
	r.Lead(quota.Time(begin)*quota.Time(time.Second), 1)
	tell := func(p history.Process, b history.Slot, count quota.Units, last bool) {
		told := history.Upload{From: p, Slot: b, Last: last}
		if count > 0 {
			told.Slices = []history.Slice{{Limit: quota.LimitName{Namespace: "n", Limit: "l"}}}
			told.Slices[0].Counts[1] = history.Counts{Attempted: count, Admitted: count}
		}
		if _, _, ok := r.Accept(b.End(), p, b, []history.Upload{told}); !ok {
			t.Fatal("not taken")
		}
	}
	turn := func(now history.Second) (blocks []history.Slot) {
		lines, blocks, term := r.Lines(now, []history.Process{one, two})
		if lines != nil {
			if err := f.Apply(1, 1, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_History{History: lines}})); err != nil {
				t.Fatal(err)
			}
			r.Written(term, blocks, true)
		}
		return blocks
	}
	turn(begin)
	tell(one, 1000, 5, true) // it stops: its line does not wait for the other
	if got := turn(begin + 10); !slices.Equal(got, []history.Slot{1000}) {
		t.Fatalf("%v are written; want the block in which a process stopped", got)
	}
	tell(two, 1000, 0, false)
	if got := turn(begin + 11); !slices.Equal(got, []history.Slot{1000}) {
		t.Fatalf("%v are written; want what completes the block", got)
	}
	if p := r.Recent.Point(quota.LimitName{Namespace: "n", Limit: "l"}, 1000, 1001); !p.Complete || p.Attempted != 5 {
		t.Fatalf("%+v; want 5, complete", p)
	}
	for now := begin + 20; now < begin+20+recorder.MaxIdle; now++ {
		if now%history.SlotSeconds == 0 {
			tell(two, now.Slot()-1, 0, false)
		}
		if got := turn(now); len(got) > 0 {
			t.Fatalf("%v are written after %d s, in which nothing was counted", got, now-begin)
		}
	}
	if got := turn(begin + 20 + recorder.MaxIdle); len(got) < 5 {
		t.Fatalf("%v are written; want all of a minute", got)
	}
}
