package control

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// result formats a result of Apply for comparison.
func result(v any) string {
	switch r := v.(type) {
	case limitsResult:
		return fmt.Sprintf("%+v %v %v", r.version, r.changed, r.err)
	case MembersResult: // the snapshots contain the table
		return fmt.Sprint(r.Err)
	case overridesResult:
		return fmt.Sprint(r.count, r.revision, r.err)
	case policiesResult:
		return fmt.Sprint(r.changed, r.revision, r.err)
	}
	return fmt.Sprint(v)
}

func TestMetaMachine(t *testing.T) {
	for seed := range machinetest.Seeds(5) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var log [][]byte
			for i := range 100 {
				cmd := randomCommand(rng)
				if rng.IntN(3) > 0 {
					cmd.Fence = new(uint64(i+rng.IntN(10)) / 10) // sometimes below an earlier one
				}
				log = append(log, snapshotio.Encode(cmd), machinetest.Garbage(rng))
			}
			var told []uint64
			var overridden, reloaded int
			machinetest.Replicate(t, func() machinetest.Machine {
				m := NewMachine(func(l *quota.Limits) { told = append(told, l.Version) }, func([]quota.Key) { overridden++ })
				m.maxOverrides, m.maxConfigs, m.maxPolicyBytes = 40, 5, 3000
				m.Reloaded = func() { reloaded++ }
				return m
			}, log, result)
			if len(told) == 0 || overridden == 0 || reloaded == 0 {
				t.Errorf("told of %d changes of limits, %d of overrides and %d of policies", len(told), overridden, reloaded)
			}
		})
	}
}

// TestNoChange: entries that change nothing have no result, and entries of no known kind have an
// error.
func TestNoChange(t *testing.T) {
	m := NewMachine(func(*quota.Limits) { t.Error("the limits changed") }, func([]quota.Key) { t.Error("overrides changed") })
	for _, cmd := range []*raftlogv1.MetaCommand{
		{Change: &raftlogv1.MetaCommand_AdvanceCommit{AdvanceCommit: &raftlogv1.AdvanceCommit{}}},
		{Change: &raftlogv1.MetaCommand_TermStart{TermStart: &raftlogv1.TermStart{Node: "n1"}}},
	} {
		if res := m.Apply(1, 1, snapshotio.Encode(cmd)); res != nil {
			t.Errorf("%v: %v; want nothing", cmd, res)
		}
	}
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), nil)
	for _, data := range [][]byte{nil, unknown} {
		if res, _ := m.Apply(1, 1, data).(error); !errors.Is(res, errUnknownCommand) {
			t.Errorf("%x: %v; want %v", data, res, errUnknownCommand)
		}
	}
}

// randomCommand returns a valid or invalid command of any kind.
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
		limits = append(limits, testLimit(fmt.Sprintf("l%d", j), int64(rng.IntN(3)), quota.Ceiling(rng.IntN(2))))
	}
	set := EncodeLimits(limits, time.Unix(rng.Int64N(100), 0))
	if rng.IntN(9) == 0 {
		set.Limits = append(set.Limits, &raftlogv1.StoredLimit{Namespace: "bad name", Burst: -1})
	}
	if rng.IntN(9) > 0 { // otherwise an entry of an old version
		set.RequestId = []byte{1, byte(rng.IntN(100))} // sometimes repeated
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
			Key:   testKey("test", fmt.Sprintf("l%d", rng.IntN(3)), fmt.Sprintf("k%d", rng.IntN(30))),
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

// FuzzMetaApply feeds two replicas the same entries: random ones from a seed, and one from the
// fuzzer. The replicas never panic and never differ, and a replica restored from a snapshot equals
// them.
func FuzzMetaApply(f *testing.F) {
	f.Add(uint64(1), []byte{})
	f.Add(uint64(2), snapshotio.Encode(setOverridesCommand(quota.Override{Key: testKey("n", "l", "\xff"), Class: quota.Banned, Burst: -1})))
	f.Add(uint64(3), snapshotio.Encode(deleteOverridesCommand(quota.Key{})))
	f.Add(uint64(4), snapshotio.Encode(purgeCommand(never)))
	f.Add(uint64(5), []byte{0x0a, 0x00})
	f.Fuzz(func(t *testing.T, seed uint64, entry []byte) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var log [][]byte
		for range 9 {
			log = append(log, snapshotio.Encode(randomCommand(rng)), entry)
		}
		machinetest.Replicate(t, func() machinetest.Machine { return NewMachine(func(*quota.Limits) {}, func([]quota.Key) {}) }, log, result)
	})
}

// FuzzMetaRestore restores arbitrary bytes. If that fails, the state is unchanged; if it succeeds,
// the state survives another snapshot and restore unchanged.
func FuzzMetaRestore(f *testing.F) {
	m := NewMachine(func(*quota.Limits) {}, func([]quota.Key) {})
	rng := rand.New(rand.NewPCG(7, 7))
	for range 30 {
		m.Apply(1, 1, snapshotio.Encode(randomCommand(rng)))
	}
	f.Add(machinetest.Snapshot(f, m))
	f.Add([]byte(MetaMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		machinetest.Restore(t, func() machinetest.Machine { return NewMachine(func(*quota.Limits) {}, func([]quota.Key) {}) }, data)
	})
}

func TestMetaMachineResults(t *testing.T) {
	calls := 0
	m := NewMachine(func(*quota.Limits) { calls++ }, func([]quota.Key) {})
	set := func(limits ...quota.Limit) limitsResult {
		t.Helper()
		res, ok := m.Apply(1, 1, snapshotio.Encode(&raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{
			SetLimits: EncodeLimits(limits, time.Now()),
		}})).(limitsResult)
		if !ok {
			t.Fatal("no limitsResult")
		}
		return res
	}
	a := testLimit("a", 1, quota.Hard)
	if r := set(a); r.version.Number != 1 || !r.changed || r.err != nil {
		t.Errorf("first: %+v", r)
	}
	if r := set(a); r.version.Number != 1 || r.changed || r.err != nil {
		t.Errorf("again, later: %+v", r)
	}
	if r := set(a, a); r.err == nil || r.changed || r.version.Number != 1 {
		t.Errorf("twice: %+v", r)
	}
	if calls != 1 || m.Current().Version != 1 || !m.Current().All()[0].Equal(&a) {
		t.Errorf("%d calls, version %d", calls, m.Current().Version)
	}
	if r, ok := m.Apply(2, 1, []byte{0xff}).(limitsResult); !ok || r.err == nil {
		t.Errorf("garbage: %+v", r)
	}
	if err := m.Restore(bytes.NewReader([]byte{0xff})); err == nil {
		t.Error("a broken snapshot was taken")
	}
	if m.Current().Version != 1 {
		t.Error("a broken snapshot changed the limits")
	}
}
