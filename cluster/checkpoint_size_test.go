package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/leader"
)

// TestLargeCheckpoint: what moves between two checkpoints may be more than an entry of the log may
// have. All of it gets into the log.
func TestLargeCheckpoint(t *testing.T) {
	testspeed.Full(t)
	const keys, members = 4096, 40
	c := newOne(t, 1)
	n := c.running()[0]
	n.seats[0].with(func(l *leader.Ledger, _ quota.Time) { l.SetNodes(members) })
	l := limit("h", 1_000_000, quota.Hard)
	if _, _, err := n.SetLimits(t.Context(), []quota.Limit{l}); err != nil {
		t.Fatal(err)
	}
	s := n.seats[0]
	var term quota.Term
	s.with(func(l *leader.Ledger, _ quota.Time) { term = l.Term() })
	long := strings.Repeat("k", quota.MaxKeyLen-10)
	s.saving.Lock() // the disk takes a moment
	for m := range members {
		r := quota.Report{Term: term, From: quota.NodeID(fmt.Sprintf("member-%03d", m)), Incarnation: 1_790_000_000_000_000_000, Seq: 1}
		for k := range keys {
			r.Entries = append(r.Entries, quota.ReportEntry{
				Key: quota.Key{LimitName: l.LimitName, Key: fmt.Sprintf("%s%d", long, k)}, Epoch: quota.Seq(100_000 + k), Overdrawn: 1234 * quota.Token, Unreported: 1234 * quota.Token,
			})
		}
		if _, ok := s.report(&r, nil); !ok {
			t.Fatalf("the report of member %d is not answered", m)
		}
	}
	s.saving.Unlock()
	c.eventually(20*time.Second, "all keys are in the log", func() error {
		found := s.fsm.levels.all(0, 0)
		if len(found) != keys || len(found[0].Marks) != members {
			return fmt.Errorf("%d of %d are", len(found), keys)
		}
		return nil
	})
	data := machinetest.Snapshot(t, s.fsm)
	again := newRangeFSM(s.fsm.levels.mono)
	if err := again.Restore(bytes.NewReader(data)); err != nil || len(again.levels.levels) != keys {
		t.Errorf("a snapshot of %d bytes has %d keys, want %d: %v", len(data), len(again.levels.levels), keys, err)
	}
}

// TestPromiseBeforeBulk: what a member waits for is in the log before all that moved besides, also
// where that is being written already: after the entry that is under way.
func TestPromiseBeforeBulk(t *testing.T) {
	const parts = 10
	c := newOne(t, 1, func(cfg *Config) { cfg.MaxKeys = 100_000 })
	n := c.running()[0]
	soft, hard := limit("s", 1000, quota.Soft), limit("h", 30, quota.Hard)
	hard.Kind, hard.Rate.Tokens = quota.FixedWindow, hard.Burst // of a window nothing is granted before it is in the log
	c.apply(soft, hard)
	s := n.seats[0]
	levels := s.fsm.levels
	levels.mu.Lock() // the log takes nothing for now
	for seq := range quota.Seq(parts) {
		r := quota.Report{Term: quota.Term(s.leads.Load()), From: "a", Incarnation: 1, Seq: 1 + seq}
		for i := range maxCheckpoint {
			k := quota.Key{LimitName: soft.LimitName, Key: fmt.Sprint(seq, "-", i)}
			r.Entries = append(r.Entries, quota.ReportEntry{Key: k, Epoch: 1, Overdrawn: 9 * quota.Token, Unreported: 9 * quota.Token})
		}
		if _, ok := s.report(&r, nil); !ok {
			t.Fatal("a report is not answered")
		}
	}
	c.eventually(patience, "a part of what moved is being written", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.unsaved == nil {
			return errors.New("none is")
		}
		return nil
	})
	k := quota.Key{LimitName: hard.LimitName, Key: "k"}
	ask := quota.Report{Term: quota.Term(s.leads.Load()), From: "a", Incarnation: 1, Seq: parts + 1, Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Want: 20 * quota.Token}}}
	if _, ok := s.report(&ask, nil); !ok {
		t.Fatal("the report is not answered")
	}
	before := 0
	levels.mu.Unlock()
	c.eventually(patience, "what the member waits for is in the log", func() error {
		levels.mu.Lock()
		defer levels.mu.Unlock()
		if _, there := levels.levels[k]; !there {
			before = len(levels.levels)
			return errors.New("it is not")
		}
		return nil
	})
	if before > maxCheckpoint {
		t.Errorf("%d of %d levels are written before what a member waits for", before, parts*maxCheckpoint)
	}
}

// TestSnapshotBeyondBuffer: a snapshot whose levels take more than the reader's buffer, and that has
// a history, is read.
func TestSnapshotBeyondBuffer(t *testing.T) {
	f := newTestRange()
	cp := &raftlogv1.Checkpoint{AtUnixNanos: 1}
	for i := range 2 * snapshotio.BufferSize / quota.MaxKeyLen {
		k := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: fmt.Sprintf("%0*d", quota.MaxKeyLen, i)}
		cp.Levels = append(cp.Levels, encodeLevel(quota.KeyLevel{Key: k, Level: 1, FullAt: 9}))
	}
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

// TestLargeSnapshot: a replica, and a backup, can read what a replica has written, however large its
// levels are.
func TestLargeSnapshot(t *testing.T) {
	testspeed.Full(t)
	const keys, marks = 4096 + 100, 220
	now := quota.Time(1_790_000_000_000_000_000)
	f := newTestRange()
	for from := 0; from < keys; {
		cp, size := &raftlogv1.Checkpoint{AtUnixNanos: int64(now)}, 0
		for ; from < keys && size < leader.MaxCheckpoint; from++ {
			kl := quota.KeyLevel{
				Key:   quota.Key{LimitName: quota.LimitName{Namespace: "test", Limit: "h"}, Key: fmt.Sprintf("tenant-%017d", from)},
				Level: -5 * quota.Token, FullAt: now.Add(time.Hour), Full: 1000 * quota.Token,
			}
			for m := range marks {
				kl.Marks = append(kl.Marks, quota.Mark{
					Node: quota.NodeID(fmt.Sprintf("node-%03d", m)), Life: quota.Incarnation(now), Epoch: quota.Seq(from), Used: 123456789, Overdrawn: 1234567, Refunded: -1,
					Out: -12345678, Rate: 12345678, Cap: 123456789, Until: now.Add(3 * time.Second),
				})
			}
			cp.Levels, size = append(cp.Levels, encodeLevel(kl)), size+kl.MaxSize()
		}
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
	if !reflect.DeepEqual(again.levels.levels, f.levels.levels) {
		t.Error("another state is restored")
	}
	var backup bytes.Buffer
	if err := restoredRange(&backup, bytes.NewReader(data)); err != nil {
		t.Fatalf("a backup cannot read a snapshot of %d bytes: %v", len(data), err)
	}
	restored := newTestRange()
	if err := restored.Restore(&backup); err != nil || len(restored.levels.levels) != keys {
		t.Errorf("from the backup: %d levels, want %d: %v", len(restored.levels.levels), keys, err)
	}
}
