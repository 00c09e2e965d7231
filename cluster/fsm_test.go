package cluster

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// machine is what a group replicates, as package multiraft wants it.
type machine interface {
	Apply(index, term uint64, data []byte) any
	Snapshot() (func(io.Writer) error, error)
	Restore(r io.Reader) error
}

func snapshot(t testing.TB, m machine) []byte {
	t.Helper()
	write, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// replicate gives the log to two replicas, of which the second is restored
// from a snapshot on the way, and compares their snapshots at every step.
func replicate(t *testing.T, fresh func() machine, log [][]byte) {
	t.Helper()
	a, b := fresh(), fresh()
	for i, entry := range log {
		got, want := result(b.Apply(uint64(i+1), 1, entry)), result(a.Apply(uint64(i+1), 1, entry))
		if got != want {
			t.Fatalf("entry %d: results %s and %s", i, got, want)
		}
		sa, sb := snapshot(t, a), snapshot(t, b)
		if !bytes.Equal(sa, sb) {
			t.Fatalf("after entry %d of %d the snapshots differ (%d and %d bytes)", i, len(log), len(sa), len(sb))
		}
		if i%7 == 3 {
			b = fresh()
			if err := b.Restore(bytes.NewReader(sa)); err != nil {
				t.Fatal(err)
			}
			if again := snapshot(t, b); !bytes.Equal(sa, again) {
				t.Fatalf("after entry %d: a restored replica has another snapshot", i)
			}
		}
	}
}

// result is a result that can be compared.
func result(v any) string {
	switch r := v.(type) {
	case limitsResult:
		return fmt.Sprintf("%+v %v %v", r.version, r.changed, r.err)
	case membersResult: // the table is in the snapshots
		return fmt.Sprint(r.err)
	case overridesResult:
		return fmt.Sprint(r.count, r.revision, r.err)
	case policiesResult:
		return fmt.Sprint(r.changed, r.revision, r.err)
	}
	return fmt.Sprint(v)
}

func garbage(rng *rand.Rand) []byte {
	data := make([]byte, rng.IntN(40))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

func TestMetaMachine(t *testing.T) {
	for seed := range modelSeeds(5) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var log [][]byte
			for range 100 {
				log = append(log, encode(randomCommand(rng)), garbage(rng))
			}
			var told []uint64
			var overridden, reloaded int
			replicate(t, func() machine {
				m := newMetaFSM(func(l *quota.Limits) { told = append(told, l.Version) }, func([]quota.Key) { overridden++ })
				m.maxOverrides, m.maxConfigs, m.maxPolicyBytes = 40, 5, 3000
				m.reloaded = func() { reloaded++ }
				return m
			}, log)
			if len(told) == 0 || overridden == 0 || reloaded == 0 {
				t.Errorf("told of %d changes of limits, %d of overrides and %d of policies", len(told), overridden, reloaded)
			}
		})
	}
}

// randomCommand is a command of any kind, right or wrong.
func randomCommand(rng *rand.Rand) *raftlogv1.MetaCommand {
	switch rng.IntN(14) {
	case 0, 1, 2:
		return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{SetLimits: randomLimits(rng)}}
	case 3, 4, 5:
		return setOverridesCommand(randomOverrides(rng, rng.IntN(8))...)
	case 6:
		var keys []quota.Key
		for _, o := range randomOverrides(rng, rng.IntN(8)) {
			keys = append(keys, o.Key)
		}
		return deleteOverridesCommand(keys...)
	case 7, 8, 9, 10:
		return loadCommand(randomConfig(rng))
	case 11, 12:
		return purgePoliciesCommand(randomConfig(rng).id)
	default:
		return purgeCommand(quota.Time(rng.IntN(100)))
	}
}

func randomLimits(rng *rand.Rand) *raftlogv1.SetLimits {
	var limits []quota.Limit
	for j := range rng.IntN(4) {
		limits = append(limits, limit(fmt.Sprintf("l%d", j), int64(rng.IntN(3)), quota.Ceiling(rng.IntN(2))))
	}
	set := encodeLimits(limits, time.Unix(rng.Int64N(100), 0))
	if rng.IntN(9) == 0 {
		set.Limits = append(set.Limits, &raftlogv1.StoredLimit{Namespace: "bad name", Burst: -1})
	}
	if rng.IntN(9) > 0 { // else an entry of an old version
		set.RequestId = []byte{1, byte(rng.IntN(100))} // sometimes the same again
		set.By, set.Comment = fmt.Sprintf("user%d", rng.IntN(3)), "why"
	}
	if rng.IntN(4) == 0 {
		set.Expect = new(rng.Uint64N(20))
	}
	if rng.IntN(4) == 0 {
		set.RollbackTo = rng.Uint64N(20)
	}
	return set
}

func randomOverrides(rng *rand.Rand, count int) []quota.Override {
	var out []quota.Override
	for range count {
		out = append(out, quota.Override{
			Key:   key("test", fmt.Sprintf("l%d", rng.IntN(3)), fmt.Sprintf("k%d", rng.IntN(30))),
			Burst: rng.Int64N(10) - 1, Scale: rng.Int64N(3), // sometimes neither
			Expires: quota.Time(rng.IntN(2) * rng.IntN(100)), At: quota.Time(rng.IntN(100)), By: "me",
		})
	}
	return out
}

func setOverridesCommand(list ...quota.Override) *raftlogv1.MetaCommand {
	set := &raftlogv1.SetOverrides{}
	for i := range list {
		set.Overrides = append(set.Overrides, limitproto.EncodeOverride(&list[i]))
	}
	return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetOverrides{SetOverrides: set}}
}

func deleteOverridesCommand(keys ...quota.Key) *raftlogv1.MetaCommand {
	del := &raftlogv1.DeleteOverrides{}
	for _, k := range keys {
		del.Keys = append(del.Keys, limitproto.EncodeKey(k))
	}
	return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_DeleteOverrides{DeleteOverrides: del}}
}

func purgeCommand(before quota.Time) *raftlogv1.MetaCommand {
	return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgeOverrides{
		PurgeOverrides: &raftlogv1.PurgeOverrides{BeforeUnixNanos: int64(before)},
	}}
}

// FuzzMetaApply feeds two replicas the same entries: random ones from a seed,
// and one that the fuzzer writes. They never panic and never differ, and a
// replica restored from a snapshot is like them.
func FuzzMetaApply(f *testing.F) {
	f.Add(uint64(1), []byte{})
	f.Add(uint64(2), encode(setOverridesCommand(quota.Override{Key: key("n", "l", "\xff"), Class: quota.Banned, Burst: -1})))
	f.Add(uint64(3), encode(deleteOverridesCommand(quota.Key{})))
	f.Add(uint64(4), encode(purgeCommand(never)))
	f.Add(uint64(5), []byte{0x0a, 0x00})
	f.Fuzz(func(t *testing.T, seed uint64, entry []byte) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var log [][]byte
		for range 9 {
			log = append(log, encode(randomCommand(rng)), entry)
		}
		replicate(t, func() machine { return newMetaFSM(func(*quota.Limits) {}, func([]quota.Key) {}) }, log)
	})
}

// FuzzMetaRestore reads what is no snapshot: an error changes nothing, and what
// is read without one is written again the same way.
func FuzzMetaRestore(f *testing.F) {
	m := newMetaFSM(func(*quota.Limits) {}, func([]quota.Key) {})
	rng := rand.New(rand.NewPCG(7, 7))
	for range 30 {
		m.Apply(1, 1, encode(randomCommand(rng)))
	}
	f.Add(snapshot(f, m))
	f.Add([]byte(metaMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := newMetaFSM(func(*quota.Limits) {}, func([]quota.Key) {}), newMetaFSM(func(*quota.Limits) {}, func([]quota.Key) {})
		empty := snapshot(t, a)
		if err := a.Restore(bytes.NewReader(data)); err != nil {
			if !bytes.Equal(snapshot(t, a), empty) {
				t.Errorf("a broken snapshot changed the state (%v)", err)
			}
			return
		}
		again := snapshot(t, a)
		if err := b.Restore(bytes.NewReader(again)); err != nil || !bytes.Equal(snapshot(t, b), again) {
			t.Errorf("read, written and read again: %v", err)
		}
	})
}

func TestMetaMachineResults(t *testing.T) {
	calls := 0
	m := newMetaFSM(func(*quota.Limits) { calls++ }, func([]quota.Key) {})
	set := func(limits ...quota.Limit) limitsResult {
		t.Helper()
		res, ok := m.Apply(1, 1, encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{
			SetLimits: encodeLimits(limits, time.Now()),
		}})).(limitsResult)
		if !ok {
			t.Fatal("no limitsResult")
		}
		return res
	}
	a := limit("a", 1, quota.Hard)
	if r := set(a); r.version.Number != 1 || !r.changed || r.err != nil {
		t.Errorf("first: %+v", r)
	}
	if r := set(a); r.version.Number != 1 || r.changed || r.err != nil {
		t.Errorf("again, later: %+v", r)
	}
	if r := set(a, a); r.err == nil || r.changed || r.version.Number != 1 {
		t.Errorf("twice: %+v", r)
	}
	if calls != 1 || m.current().Version != 1 || !m.current().All()[0].Equal(&a) {
		t.Errorf("%d calls, version %d", calls, m.current().Version)
	}
	if r, ok := m.Apply(2, 1, []byte{0xff}).(limitsResult); !ok || r.err == nil {
		t.Errorf("garbage: %+v", r)
	}
	if err := m.Restore(bytes.NewReader([]byte{0xff})); err == nil {
		t.Error("a broken snapshot was taken")
	}
	if m.current().Version != 1 {
		t.Error("a broken snapshot changed the limits")
	}
}

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
			encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}),
			encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_TermStart{TermStart: &raftlogv1.TermStart{Node: "n1"}}}),
			garbage(rng))
	}
	replicate(t, func() machine { return newRangeFSM(noTime) }, log)
}

func TestLevelsMachineForgets(t *testing.T) {
	f := newLevelsFSM(noTime)
	for i := range 10_000 {
		cp := &raftlogv1.Checkpoint{AtUnixNanos: int64(i), Levels: []*raftlogv1.KeyLevel{
			{Namespace: "n", Limit: "l", Key: strconv.Itoa(i), FullAtUnixNanos: int64(i) + 10},
		}}
		f.Apply(uint64(i+1), 1, encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}))
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
	data := snapshot(t, r)
	mono = time.Second // of the next process
	if err := r.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if got := f.all(now, 4*time.Second)[0].Applied; got != now.Add(-3*time.Second) {
		t.Errorf("after a restart: applied %v before now, want 3s", now.Sub(got))
	}
}
