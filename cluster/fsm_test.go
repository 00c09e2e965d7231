package cluster

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

func TestLevelsMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var log [][]byte
	at := int64(1_000_000)
	for range 80 {
		at += int64(rng.IntN(1000)) - 100 // a new leader's clock may be behind
		cp := &raftlogv1.Checkpoint{AtUnixNanos: at}
		for range rng.IntN(60) {
			cp.Levels = append(cp.Levels, &raftlogv1.KeyLevel{
				Namespace: "n", Limit: "l", Key: strconv.Itoa(rng.IntN(4000)),
				LevelMicroTokens: int64(rng.IntN(1000)) - 500, FullAtUnixNanos: at + int64(rng.IntN(5000)) - 100,
			})
		}
		log = append(log,
			snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}),
			snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_TermStart{TermStart: &raftlogv1.TermStart{Node: "n1"}}}),
			machinetest.Garbage(rng))
	}
	machinetest.Replicate(t, func() machinetest.Machine { return newRangeFSM(noTime) }, log, func(v any) string { return fmt.Sprint(v) })
}

func TestLevelsMachineForgets(t *testing.T) {
	f := newLevelsFSM(noTime)
	for i := range 10_000 {
		cp := &raftlogv1.Checkpoint{AtUnixNanos: int64(i), Levels: []*raftlogv1.KeyLevel{
			{Namespace: "n", Limit: "l", Key: strconv.Itoa(i), FullAtUnixNanos: int64(i) + 10},
		}}
		f.checkpoint(1, cp)
	}
	if got := len(f.all(0, 0)); got != 10 {
		t.Errorf("%d levels are not full again; want 10", got)
	}
	if len(f.levels) > 2*minPrune {
		t.Errorf("%d levels are kept", len(f.levels))
	}
	got := f.all(0, 0)[0]
	if got.Key.Limit != "l" || got.At+10 != got.FullAt {
		t.Errorf("level %+v", got)
	}
}

// noTime is the clock of a process in which none passes.
func noTime() time.Duration { return 0 }

// TestLevelsAppliedAt: what a replica saw being committed it dates by its own
// monotonic clock, what it has read from a snapshot by when it read it.
func TestLevelsAppliedAt(t *testing.T) {
	mono := 10 * time.Second
	r := newRangeFSM(func() time.Duration { return mono })
	f := r.levels
	day := int64(24 * time.Hour)
	f.checkpoint(1, &raftlogv1.Checkpoint{AtUnixNanos: day, Levels: []*raftlogv1.KeyLevel{{Key: "k", FullAtUnixNanos: 2 * day}}})
	now := quota.Time(day).Add(time.Hour) // the wall clock was set meanwhile
	if got := f.all(now, 12*time.Second)[0].Applied; got != now.Add(-2*time.Second) {
		t.Errorf("applied %v before now, want 2s", now.Sub(got))
	}
	data := machinetest.Snapshot(t, r)
	mono = time.Second // of the next process
	if err := r.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if got := f.all(now, 4*time.Second)[0].Applied; got != now.Add(-3*time.Second) {
		t.Errorf("after a restart: applied %v before now, want 3s", now.Sub(got))
	}
}

// TestOtherRangeFormat refuses snapshots that are not of this format, and keeps the state.
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
