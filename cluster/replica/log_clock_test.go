package replica

import (
	"bytes"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/leader"
)

// TestCheckpointOfClockAhead checks that the entries of a leader whose clock is hours ahead make no replica
// forget what leaders with correct clocks write later: a window of a hard limit is granted once.
func TestCheckpointOfClockAhead(t *testing.T) {
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: "w"}, Kind: quota.FixedWindow, Burst: 1000,
		Rate: quota.Rate{Tokens: 1000, Per: 10 * time.Minute}, Ceiling: quota.Hard,
	}
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, time.Hour, 48 * time.Hour, -time.Hour} {
		for _, restored := range []bool{false, true} { // restore from a snapshot after each leader
			var f *Machine
			at := quota.Time(1_700_000_000_000_000_000)
			at -= at % quota.Time(10*time.Minute)
			began := at
			again := func() {
				next := NewMachine(func() time.Duration { return at.Sub(began) })
				if f != nil && restored {
					reread(t, next, machinetest.Snapshot(t, f))
				}
				if f == nil || restored {
					f = next
				}
			}
			lead := func(term quota.Term, self quota.NodeID, at quota.Time) *leader.Ledger {
				again()
				f.Apply(uint64(term), uint64(term), snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_TermStart{TermStart: &raftlogv1.TermStart{Node: string(self), AtUnixNanos: int64(at)}}}))
				led := leader.New(leader.Config{First: f.levels.first()}, 0, term, self, []quota.NodeID{"a", "b", "c"}, limits, f.levels.lines(at, at.Sub(began)), at)
				for _, id := range []quota.NodeID{"a", "b", "c"} {
					if _, err := led.Report(at, quota.Report{Term: term, From: id, Incarnation: quota.Incarnation(term), Seq: 1, Full: true, Age: time.Hour}); err != nil {
						t.Fatal(err)
					}
				}
				return led
			}
			// use makes a member use what it is granted, until it has used want.
			use := func(led *leader.Ledger, at *quota.Time, from quota.NodeID, key string, want quota.Units) (used quota.Units) {
				held, applied := quota.Units(0), quota.Seq(0)
				for seq := quota.Seq(2); seq < 100 && used < want; seq++ {
					*at = at.Add(20 * time.Millisecond)
					g, err := led.Report(*at, quota.Report{Term: led.Term(), From: from, Incarnation: quota.Incarnation(led.Term()), Seq: seq, Entries: []quota.ReportEntry{
						{Key: quota.Key{LimitName: l.LimitName, Key: key}, Epoch: 1, Used: used, Held: held, Want: min(100*quota.Token, want-used), Applied: applied},
					}})
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range g.Entries {
						held, applied = held+e.Tokens, e.Seq
					}
					take := min(held, want-used)
					held, used = held-take, used+take
					cp := EncodeCheckpoint(*at, led.Checkpoint(*at, maxCheckpoint))
					f.Apply(1, uint64(led.Term()), snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}))
					led.Saved(*at, led.Written())
				}
				return used
			}
			wrong := at.Add(ahead)
			use(lead(1, "a", wrong), &wrong, "a", "another", quota.Token)
			at = at.Add(time.Second) // clocks are correct from here on
			first := use(lead(2, "b", at), &at, "c", "k", 1000*quota.Token)
			at = at.Add(2 * time.Minute)
			later := use(lead(3, "a", at), &at, "b", "k", 1000*quota.Token)
			if first < 900*quota.Token || first+later > 1000*quota.Token {
				t.Errorf("a clock ahead by %v, restored %v: %d, and %d more by the next leader, of 1000 in a window", ahead, restored, first.Tokens(), later.Tokens())
			}
		}
	}
}

// TestLogClock checks that the log keeps a level until its bucket is full again, measured in time during
// which there is a leader, and then drops it.
func TestLogClock(t *testing.T) {
	f := newTestRange()
	at := quota.Time(1_700_000_000_000_000_000)
	say := func(term uint64, at quota.Time, keys ...string) int {
		var levels []quota.KeyLevel
		for _, k := range keys {
			levels = append(levels, quota.KeyLevel{Key: testKey(k), At: at, FullAt: at.Add(time.Minute)})
		}
		cp := EncodeCheckpoint(at, levels)
		f.Apply(1, term, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}))
		return len(f.levels.all())
	}
	for i, step := range []struct {
		term uint64
		at   time.Duration
		keys []string
		want int
	}{
		{1, 0, []string{"a"}, 1},
		{1, 30 * time.Second, []string{"b"}, 2},
		{2, 5 * time.Hour, nil, 2},                          // another leader, whose clock is hours ahead
		{2, 5*time.Hour + 29*time.Second, nil, 2},           //
		{2, 5*time.Hour + 31*time.Second, []string{"c"}, 2}, // a is full
		{3, time.Minute, nil, 2},                            // a leader whose clock is correct
		{3, time.Minute + 29*time.Second, nil, 1},           // b is full
		{3, 2*time.Minute + 5*time.Second, nil, 0},
	} {
		if got := say(step.term, at.Add(step.at), step.keys...); got != step.want {
			t.Errorf("step %d: %d levels; want %d", i, got, step.want)
		}
	}
}

// reread restores a state from its own snapshot.
func reread(t *testing.T, f *Machine, data []byte) {
	t.Helper()
	if err := f.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}
