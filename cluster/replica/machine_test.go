package replica

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/leader"
)

func TestLevelsMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var log [][]byte
	at := int64(1_000_000)
	for range 80 {
		at += int64(rng.IntN(1000)) - 100 // a new leader's clock may be behind
		var levels []quota.KeyLevel
		for range rng.IntN(60) {
			levels = append(levels, quota.KeyLevel{
				Key: testKey(strconv.Itoa(rng.IntN(4000))), At: quota.Time(at),
				Level: quota.Units(rng.IntN(1000)) - 500, FullAt: quota.Time(at + int64(rng.IntN(5000)) - 100),
			})
		}
		cp := EncodeCheckpoint(quota.Time(at), levels)
		log = append(log,
			snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}),
			snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_TermStart{TermStart: &raftlogv1.TermStart{Node: "n1"}}}),
			machinetest.Garbage(rng))
	}
	machinetest.Replicate(t, func() machinetest.Machine { return NewMachine(noTime) }, log, func(v any) string { return fmt.Sprint(v) })
}

func TestLevelsMachineForgets(t *testing.T) {
	f := newLevels(noTime)
	for i := range 10_000 {
		at := quota.Time(i)
		if err := f.checkpoint(1, EncodeCheckpoint(at, []quota.KeyLevel{{Key: testKey(strconv.Itoa(i)), At: at, FullAt: at + 10}})); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(f.all()); got != 10 {
		t.Errorf("%d levels are not full again; want 10", got)
	}
	if len(f.byKey) > 2*minPrune {
		t.Errorf("%d levels are kept", len(f.byKey))
	}
	got := f.all()[0]
	if got.Key.Limit != "l" || got.At+10 != got.FullAt {
		t.Errorf("level %+v", got)
	}
}

// noTime is the clock of a process in which no time passes.
func noTime() time.Duration { return 0 }

// TestLevelsAppliedAt checks that a replica dates committed levels by its own monotonic clock, and levels
// from a snapshot by the time when it read the snapshot.
func TestLevelsAppliedAt(t *testing.T) {
	mono := 10 * time.Second
	r := NewMachine(func() time.Duration { return mono })
	f := r.levels
	day := quota.Time(24 * time.Hour)
	if err := f.checkpoint(1, EncodeCheckpoint(day, []quota.KeyLevel{{Key: testKey("k"), At: day, FullAt: 2 * day}})); err != nil {
		t.Fatal(err)
	}
	now := day.Add(time.Hour) // the wall clock was set meanwhile
	applied := func(mono time.Duration) quota.Time {
		kl, _ := f.lines(now, mono).Find(testKey("k"))
		return kl.Applied
	}
	if got := applied(12 * time.Second); got != now.Add(-2*time.Second) {
		t.Errorf("applied %v before now, want 2s", now.Sub(got))
	}
	data := machinetest.Snapshot(t, r)
	mono = time.Second // the clock of the next process
	if err := r.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if got := applied(4 * time.Second); got != now.Add(-3*time.Second) {
		t.Errorf("after a restart: applied %v before now, want 3s", now.Sub(got))
	}
}

// TestOtherRangeFormat checks that snapshots of another format are refused, and that the state stays.
func TestOtherRangeFormat(t *testing.T) {
	for name, tt := range map[string]struct{ data, want string }{
		"a newer one":           {"\x00range2\nmore", `range snapshot: format: begins with "\x00range2\n"; this version of quorate reads "\x00range1\n"`},
		"one of the meta group": {"\x00meta1\nmore", `range snapshot: format: begins with`},
		"nothing":               {"", "range snapshot: format: unexpected EOF"},
	} {
		f := newTestRange()
		before := machinetest.Snapshot(t, f)
		if err := f.Restore(strings.NewReader(tt.data)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %s", name, err, tt.want)
		}
		if !bytes.Equal(machinetest.Snapshot(t, f), before) {
			t.Errorf("%s: the state has changed", name)
		}
	}
}

// historyEntry returns a log entry with a line and a list of keys.
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

// TestHistorySnapshot checks that a range's state survives its snapshot, which an earlier version can read
// as long as there is no line, that an entry applied twice counts once, and that damage changes nothing.
func TestHistorySnapshot(t *testing.T) {
	mono := func() time.Duration { return 0 }
	f := NewMachine(mono)
	before := machinetest.Snapshot(t, f)
	if !strings.HasPrefix(string(before), rangeMagic) {
		t.Fatalf("a snapshot without history begins with %q", before[:8])
	}
	for _, b := range []history.Slot{1000, 1001, 1001, 1007} {
		if err := f.Apply(1, 1, historyEntry(b)); err != nil {
			t.Fatal(err)
		}
	}
	whole := machinetest.Snapshot(t, f)
	again := NewMachine(mono)
	if err := again.Restore(bytes.NewReader(whole)); err != nil || !bytes.Equal(machinetest.Snapshot(t, again), whole) {
		t.Fatalf("restored it is another: %v", err)
	}
	limit := quota.LimitName{Namespace: "n", Limit: "l"}
	points, _, asOf := again.History.Points(limit, 0, 1<<40, 60)
	sum := quota.Units(0)
	for i := range points {
		sum += points[i].Attempted
	}
	var keys history.KeysSum
	again.History.Top(limit, 0, 1<<40, &keys)
	top := keys.Top(limit, 10)
	if sum != 15*quota.Token || asOf != history.Slot(1008).First() || len(top.Keys) != 1 || top.Keys[0].Attempted != 15*quota.Token {
		t.Errorf("%d attempted until %d, keys %+v", sum, asOf, top)
	}
	var filtered bytes.Buffer
	if err := CopyForRestore(&filtered, bytes.NewReader(whole)); err != nil || !bytes.Equal(filtered.Bytes(), whole) {
		t.Errorf("a backup has another: %v", err)
	}
	for n := len(rangeMagic); n < len(whole); n++ {
		if err := again.Restore(bytes.NewReader(whole[:n])); err == nil {
			t.Fatalf("cut off after %d of %d bytes: no error", n, len(whole))
		}
	}
	if !bytes.Equal(machinetest.Snapshot(t, again), whole) {
		t.Error("a damaged snapshot has changed the state")
	}
	if err := again.Restore(bytes.NewReader(before)); err != nil || !bytes.Equal(machinetest.Snapshot(t, again), before) {
		t.Errorf("a snapshot without history: %v", err)
	}
	if err, failed := f.Apply(9, 1, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_History{History: &raftlogv1.HistoryLines{Lines: [][]byte{{1, 2}}}}})).(error); !failed || err == nil {
		t.Error("a damaged line: no error")
	}
}

// TestHistoryWaits checks that a range without demand writes lines once a minute, and that lines that
// complete a slot with counts are not delayed with them.
func TestHistoryWaits(t *testing.T) {
	mono := func() time.Duration { return 0 }
	f := NewMachine(mono)
	r, one, two := f.History, history.Process{Node: "n1", Incarnation: 1}, history.Process{Node: "n2", Incarnation: 1}
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
	tell(one, 1000, 5, true) // the process stops, so its line does not wait for the other
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

func newTestRange() *Machine { return NewMachine(func() time.Duration { return 0 }) }

// accountEntry returns an entry of a range's log.
func accountEntry(t testing.TB, at quota.Time, commands ...account.Command) []byte {
	t.Helper()
	batch, err := account.EncodeBatch(at, commands)
	if err != nil {
		t.Fatal(err)
	}
	return snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Accounts{Accounts: batch}})
}

func testKey(k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: k}
}

func levelEntry(rng *rand.Rand, at int64) []byte {
	var levels []quota.KeyLevel
	for range rng.IntN(20) {
		levels = append(levels, quota.KeyLevel{Key: testKey(strconv.Itoa(rng.IntN(400))), At: quota.Time(at), FullAt: quota.Time(at + 5000)})
	}
	cp := EncodeCheckpoint(quota.Time(at), levels)
	return snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}})
}

// TestRangeMachine applies levels and accounts to two replicas, and restores one of them from a snapshot
// again and again. It checks that they never differ.
func TestRangeMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var log [][]byte
	at := int64(1_000_000)
	for i := range 120 {
		at += int64(rng.IntN(1000)) - 100
		var commands []account.Command
		for range rng.IntN(9) {
			commands = append(commands, randomAccountCommand(rng, i))
		}
		log = append(log, accountEntry(t, quota.Time(at), commands...), levelEntry(rng, at), machinetest.Garbage(rng))
	}
	machinetest.Replicate(t, func() machinetest.Machine { return newTestRange() }, log, func(v any) string { return fmt.Sprint(v) })
}

func randomAccountCommand(rng *rand.Rand, i int) account.Command {
	request := account.Request{By: "me", ID: fmt.Sprint("r", rng.IntN(40)), TTL: time.Duration(rng.IntN(3000)), Ops: []account.Op{
		deposit(accountID(strconv.Itoa(rng.IntN(30))), rng.Int64N(100)-50), create(accountID(strconv.Itoa(rng.IntN(30))), 5),
	}}
	tx := account.Tx{ID: account.TxID{byte(i / 10), byte(rng.IntN(4))}, Home: quota.RangeID(rng.IntN(2))}
	more := []account.Request{{By: "me", Ops: []account.Op{deposit(accountID(strconv.Itoa(rng.IntN(30))), 1)}}}[rng.IntN(2):]
	switch rng.IntN(9) {
	case 0:
		return account.Command{Begin: &account.Begin{Tx: tx.ID, Home: tx.Home, Others: []quota.RangeID{7}, Part: request, More: more}}
	case 1:
		return account.Command{Prepare: &account.Prepare{Tx: tx, Part: request, More: more}}
	case 2:
		return account.Command{Decide: &account.Decide{Tx: tx.ID, Commit: rng.IntN(2) == 0, Results: make([]account.Result, 2), More: make([][]account.Result, len(more))}}
	case 3:
		return account.Command{Finish: &account.Finish{Tx: tx.ID, Commit: rng.IntN(2) == 0}}
	case 4:
		return account.Command{Forget: &tx.ID}
	case 5:
		return account.Command{Collect: &account.Collect{Max: 3}}
	}
	return account.Command{Apply: &request}
}

// FuzzRangeRestore restores arbitrary bytes. An error must change nothing, and what is read without an
// error must be written the same way.
func FuzzRangeRestore(f *testing.F) {
	rng := rand.New(rand.NewPCG(6, 6))
	m := newTestRange()
	for i := range 30 {
		m.Apply(1, 1, accountEntry(f, quota.Time(i), randomAccountCommand(rng, i)))
		m.Apply(1, 1, levelEntry(rng, int64(i)))
	}
	f.Add(machinetest.Snapshot(f, m))
	f.Add(machinetest.Snapshot(f, newTestRange()))
	f.Add([]byte(rangeMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		machinetest.Restore(t, func() machinetest.Machine { return newTestRange() }, data)
	})
}

// TestSnapshotBeyondBuffer checks that a snapshot with a history can be read if its levels exceed the
// reader's buffer.
func TestSnapshotBeyondBuffer(t *testing.T) {
	f := newTestRange()
	var levels []quota.KeyLevel
	for i := range 2 * snapshotio.BufferSize / quota.MaxKeyLen {
		levels = append(levels, quota.KeyLevel{Key: testKey(fmt.Sprintf("%0*d", quota.MaxKeyLen, i)), At: 1, Level: 1, FullAt: 9})
	}
	cp := EncodeCheckpoint(1, levels)
	f.Apply(1, 1, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}))
	f.Apply(2, 1, historyEntry(1))
	data := machinetest.Snapshot(t, f)
	again := newTestRange()
	if err := again.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(machinetest.Snapshot(t, again), data) {
		t.Error("another state is restored")
	}
}

// TestLargeSnapshot checks that replicas and backups can read any snapshot that a replica has written,
// however large its levels are.
func TestLargeSnapshot(t *testing.T) {
	testspeed.Full(t)
	const keys, marks = 4096 + 100, 220
	now := quota.Time(1_790_000_000_000_000_000)
	f := newTestRange()
	for from := 0; from < keys; {
		var levels []quota.KeyLevel
		for size := 0; from < keys && size < leader.MaxCheckpoint; from++ {
			kl := quota.KeyLevel{
				At:    now,
				Key:   quota.Key{LimitName: quota.LimitName{Namespace: "test", Limit: "h"}, Key: fmt.Sprintf("tenant-%017d", from)},
				Level: -5 * quota.Token, FullAt: now.Add(time.Hour), Full: 1000 * quota.Token,
			}
			for m := range marks {
				kl.Marks = append(kl.Marks, quota.Mark{
					Node: quota.NodeID(fmt.Sprintf("node-%03d", m)), Incarnation: quota.Incarnation(now), Epoch: quota.Seq(from), Used: 123456789, Overdrawn: 1234567, Refunded: -1,
					Out: -12345678, Rate: 12345678, Cap: 123456789, Until: now.Add(3 * time.Second),
				})
			}
			levels, size = append(levels, kl), size+kl.MaxSize()
		}
		cp := EncodeCheckpoint(now, levels)
		entry := snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}})
		if len(entry) > raftgroup.MaxEntry {
			t.Fatalf("an entry of %d bytes; at most %d", len(entry), raftgroup.MaxEntry)
		}
		if err, failed := f.Apply(1, 1, entry).(error); failed {
			t.Fatal(err)
		}
	}
	f.Apply(2, 1, historyEntry(1))
	data := machinetest.Snapshot(t, f)
	again := newTestRange()
	if err := again.Restore(bytes.NewReader(data)); err != nil {
		t.Fatalf("a replica cannot read its own snapshot of %d bytes: %v", len(data), err)
	}
	if !reflect.DeepEqual(again.levels.byKey, f.levels.byKey) {
		t.Error("another state is restored")
	}
	var backup bytes.Buffer
	if err := CopyForRestore(&backup, bytes.NewReader(data)); err != nil {
		t.Fatalf("a backup cannot read a snapshot of %d bytes: %v", len(data), err)
	}
	restored := newTestRange()
	if err := restored.Restore(&backup); err != nil || len(restored.levels.byKey) != keys {
		t.Errorf("from the backup: %d levels, want %d: %v", len(restored.levels.byKey), keys, err)
	}
}

// TestRestoredRange checks that levels lose the members' part, and that accounts stay as they were.
func TestRestoredRange(t *testing.T) {
	f := NewMachine(func() time.Duration { return 0 })
	cp := EncodeCheckpoint(4, []quota.KeyLevel{{
		Key: testKey("acme"), At: 4, Level: 5, FullAt: 1 << 60,
		Marks: []quota.Mark{{Node: "n1", Out: 3}}, Implicit: 7, Answers: 9, AnswersUntil: 1 << 60,
	}})
	f.Apply(1, 1, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}))
	write, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var in, out bytes.Buffer
	if err := write(&in); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(in.Bytes())
	if err := CopyForRestore(&out, &in); err != nil {
		t.Fatal(err)
	}
	again, err := readRange(&out)
	if err != nil {
		t.Fatal(err)
	}
	list := again.levels.all()
	if len(list) != 1 {
		t.Fatalf("%d levels", len(list))
	}
	if l := list[0]; l.Level != 5 || len(l.Marks) != 0 || l.Implicit != 0 || l.Answers != 0 || l.AnswersUntil != 0 {
		t.Errorf("%+v", l)
	}
	for n := range whole {
		var out bytes.Buffer
		if CopyForRestore(&out, bytes.NewReader(whole[:n])) == nil {
			if _, err := readRange(&out); err == nil {
				t.Errorf("%d of %d bytes are taken", n, len(whole))
			}
		}
	}
}

// readRange reads a snapshot, and checks that nothing follows it.
func readRange(r io.Reader) (*Machine, error) {
	m := newTestRange()
	if err := m.Restore(r); err != nil {
		return nil, err
	}
	_, err := io.Copy(io.Discard, r)
	return m, err
}

func accountID(name string) account.ID {
	return account.ID{App: "app", Realm: "realm", Namespace: "ns", Name: name, Resource: "units"}
}

// deposit adds to an account without any bounds, and creates the account if it is missing.
func deposit(id account.ID, delta int64) account.Op {
	return account.Op{Account: id, RelativeTo: account.Balance, Delta: delta, Options: account.IgnorePolicyBounds}
}

// create creates an account with a balance.
func create(id account.ID, balance int64) account.Op {
	return account.Op{Account: id, RelativeTo: account.Zero, Delta: balance, Options: account.IgnorePolicyBounds}
}
