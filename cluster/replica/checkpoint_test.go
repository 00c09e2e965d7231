package replica

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/leader"
)

// TestLargeCheckpoint checks that all levels that change between two checkpoints reach the log, even if
// they exceed one log entry, and that no entry is much larger than leader.MaxCheckpoint.
func TestLargeCheckpoint(t *testing.T) {
	testspeed.Full(t)
	const keys, members = 4096, 40
	s, n := newSet(t, 1, func(cfg *Config) { cfg.MaxKeys = 10_000 })
	n.gate = func(entry []byte) {
		if most := leader.MaxCheckpoint / 8 * 9; len(entry) > most {
			t.Errorf("an entry of %d bytes; at most %d", len(entry), most)
		}
	}
	l := limit("h", 1_000_000, quota.Hard)
	n.setLimits(t, l)
	s.Start()
	r := s.Of(0)
	r.Lead(1)
	s.SetNodes(make([]quota.NodeID, members))
	long := strings.Repeat("k", quota.MaxKeyLen-10)
	r.saving.Lock() // simulates a slow disk
	for m := range members {
		in := quota.Report{Term: 1, From: quota.NodeID(fmt.Sprintf("member-%03d", m)), Incarnation: 1_790_000_000_000_000_000, Seq: 1}
		for k := range keys {
			in.Entries = append(in.Entries, quota.ReportEntry{
				Key: quota.Key{LimitName: l.LimitName, Key: fmt.Sprintf("%s%d", long, k)}, Epoch: quota.Seq(100_000 + k), Overdrawn: 1234 * quota.Token, Unreported: 1234 * quota.Token,
			})
		}
		if _, ok := r.report(&in, nil); !ok {
			t.Fatalf("the report of member %d is not answered", m)
		}
	}
	r.saving.Unlock()
	eventually(t, "all keys are in the log", func() error {
		found := r.Machine.levels.all()
		if len(found) != keys || len(found[0].Marks) != members {
			return fmt.Errorf("%d of %d are", len(found), keys)
		}
		return nil
	})
	data := machinetest.Snapshot(t, r.Machine)
	again := NewMachine(r.Machine.levels.mono)
	if err := again.Restore(bytes.NewReader(data)); err != nil || len(again.levels.byKey) != keys {
		t.Errorf("a snapshot of %d bytes has %d keys, want %d: %v", len(data), len(again.levels.byKey), keys, err)
	}
}

// TestPromiseBeforeBulk checks that levels that members wait for reach the log before all other changed
// levels. If those are already being written, they follow the entry that is in progress.
func TestPromiseBeforeBulk(t *testing.T) {
	const parts = 10
	s, n := newSet(t, 1, func(cfg *Config) { cfg.MaxKeys = 100_000 })
	soft, hard := limit("s", 1000, quota.Soft), limit("h", 30, quota.Hard)
	hard.Kind, hard.Rate.Tokens = quota.FixedWindow, hard.Burst // a window grants nothing before the log has it
	n.setLimits(t, soft, hard)
	s.Start()
	r := s.Of(0)
	r.Lead(1)
	levels := r.Machine.levels
	levels.mu.Lock() // blocks the log for now
	for seq := range quota.Seq(parts) {
		in := quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: 1 + seq}
		for i := range maxCheckpoint {
			k := quota.Key{LimitName: soft.LimitName, Key: fmt.Sprint(seq, "-", i)}
			in.Entries = append(in.Entries, quota.ReportEntry{Key: k, Epoch: 1, Overdrawn: 9 * quota.Token, Unreported: 9 * quota.Token})
		}
		if _, ok := r.report(&in, nil); !ok {
			t.Fatal("a report is not answered")
		}
	}
	eventually(t, "a part of what moved is being written", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.unsaved == nil {
			return errors.New("none is")
		}
		return nil
	})
	k := quota.Key{LimitName: hard.LimitName, Key: "k"}
	ask := quota.Report{Term: 1, From: "a", Incarnation: 1, Seq: parts + 1, Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Want: 20 * quota.Token}}}
	if _, ok := r.report(&ask, nil); !ok {
		t.Fatal("the report is not answered")
	}
	before := 0
	levels.mu.Unlock()
	eventually(t, "what the member waits for is in the log", func() error {
		levels.mu.Lock()
		defer levels.mu.Unlock()
		if _, there := levels.byKey[k]; !there {
			before = len(levels.byKey)
			return errors.New("it is not")
		}
		return nil
	})
	if before > maxCheckpoint {
		t.Errorf("%d of %d levels are written before what a member waits for", before, parts*maxCheckpoint)
	}
}

// TestCheckpointsTogether checks that the entries of all ranges are on their way into the log at the same
// time, one for each range with changed levels: they share the syncs of the log.
func TestCheckpointsTogether(t *testing.T) {
	const ranges, used = 64, 40
	s, n := newSet(t, ranges)
	l := limit("s", 10, quota.Soft)
	n.setLimits(t, l)
	for id := range quota.RangeID(ranges) {
		r := s.Of(id)
		if r.Lead(1); id < used && !r.opens(1, 1, quota.Key{LimitName: l.LimitName, Key: fmt.Sprint(id)}) {
			t.Fatalf("range %d does not answer a report", id)
		}
	}
	var proposed atomic.Int64
	all := make(chan struct{})
	n.gate = func([]byte) {
		if proposed.Add(1) == used {
			close(all)
		}
		select {
		case <-all:
		case <-time.After(10 * time.Second):
			t.Errorf("%d entries at the same time; want %d", proposed.Load(), used)
		}
	}
	s.checkpointAll(t.Context())
	s.checkpointAll(t.Context()) // has nothing to write
	if got := proposed.Load(); got != used {
		t.Errorf("%d entries of %d ranges with one changed level", got, used)
	}
}

// TestTick checks that nodes checkpoint at the same moments, whenever they were started.
func TestTick(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	for d := time.Duration(0); d < 3*checkpointEvery; d += 7 * time.Millisecond {
		now := begin.Add(d)
		wait := untilTick(now)
		if wait <= 0 || wait > checkpointEvery || !now.Add(wait).Truncate(checkpointEvery).Equal(now.Add(wait)) {
			t.Fatalf("%v after %v, a node waits for %v", d, begin, wait)
		}
	}
}
