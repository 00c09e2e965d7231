package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/internal/testspeed"
)

func (m *Machine) change(t testing.TB, entry []byte) overridesResult {
	t.Helper()
	res, ok := m.Apply(1, 1, entry).(overridesResult)
	if !ok {
		t.Fatal("no overridesResult")
	}
	return res
}

// TestOverridesModel compares the table with a map through random changes.
func TestOverridesModel(t *testing.T) {
	testspeed.Full(t)
	for seed := range machinetest.Seeds(4) {
		rng := rand.New(rand.NewPCG(seed, 5))
		m, model := quietMeta(), map[quota.Key]quota.Override{}
		span := []int{20, 2000, 2000, 20000}[seed] // keys: few chunks, splitting chunks, chunks that become empty
		randomKey := func() quota.Key {
			return testKey("n", fmt.Sprintf("l%d", rng.IntN(3)), strconv.Itoa(rng.IntN(span)))
		}
		for step := range 120 {
			switch rng.IntN(5) {
			case 0, 1, 2:
				var list []quota.Override
				for range rng.IntN(400) {
					o := quota.Override{Key: randomKey(), Burst: rng.Int64N(100), Expires: quota.Time(rng.IntN(2) * (step + rng.IntN(50)))}
					list, model[o.Key] = append(list, o), o
				}
				m.Apply(1, 1, snapshotio.Encode(setOverridesCommand(list...)))
			case 3:
				var keys []quota.Key
				for range rng.IntN(900) {
					k := randomKey()
					keys = append(keys, k)
					delete(model, k)
				}
				m.change(t, snapshotio.Encode(deleteOverridesCommand(keys...)))
			case 4:
				m.change(t, snapshotio.Encode(purgeCommand(quota.Time(step))))
				maps.DeleteFunc(model, func(_ quota.Key, o quota.Override) bool { return o.Expires > 0 && o.Expires <= quota.Time(step) })
			}
			if step%6 > 0 {
				continue
			}
			sameOverrides(t, m, model, randomKey)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func sameOverrides(t *testing.T, m *Machine, model map[quota.Key]quota.Override, randomKey func() quota.Key) {
	t.Helper()
	keys := slices.SortedFunc(maps.Keys(model), quota.Key.Compare)
	all, total := m.listOverrides(quota.LimitName{}, quota.Key{}, 1<<30)
	if total != len(keys) || len(all) != len(keys) {
		t.Errorf("%d listed of %d; want %d", len(all), total, len(keys))
		return
	}
	soonest := never
	for i, k := range keys {
		if all[i] != model[k] {
			t.Errorf("listed %+v; want %+v", all[i], model[k])
		}
		if at := model[k].Expires; at > 0 {
			soonest = min(soonest, at)
		}
	}
	if got := m.overrides.Load().soonest(); got != soonest {
		t.Errorf("the first expires at %d; want %d", got, soonest)
	}
	for range 20 {
		k := randomKey()
		want, ok := model[k]
		if got := m.Override(k); (got != nil) != ok || ok && *got != want {
			t.Errorf("%v has %+v; want %+v", k, got, want)
		}
		want2, after := 0, k
		for i := range keys {
			if keys[i].LimitName == k.LimitName && keys[i].Compare(k) > 0 {
				want2++
			}
		}
		if got, _ := m.listOverrides(k.LimitName, after, 1<<30); len(got) != want2 || want2 > 0 && got[0].Key.Compare(k) <= 0 {
			t.Errorf("%d of %v after %v; want %d", len(got), k.LimitName, after, want2)
		}
		in := func(o quota.Key) bool { return o.Namespace == k.Namespace }
		rest := slices.DeleteFunc(slices.Clone(keys), func(o quota.Key) bool { return !in(o) || o.Compare(k) <= 0 })
		got3, total3 := m.listOverrides(quota.LimitName{Namespace: k.Namespace}, after, 1<<30)
		if all := len(slices.DeleteFunc(slices.Clone(keys), func(o quota.Key) bool { return !in(o) })); len(got3) != len(rest) || total3 != all {
			t.Errorf("%d of namespace %v after %v, %d in all; want %d of %d", len(got3), k.Namespace, after, total3, len(rest), all)
		}
	}
}

func TestOverrideRoundtrip(t *testing.T) {
	want := filltest.Filled[quota.Override](t)
	want.Key = testKey("n", "l", "\xff\x00/\n") // arbitrary bytes
	m := quietMeta()
	if r := m.change(t, snapshotio.Encode(setOverridesCommand(want))); r.err != nil || r.count != 1 {
		t.Fatalf("%+v", r)
	}
	if got := m.Override(want.Key); got == nil || *got != want {
		t.Errorf("stored\n%+v\nset\n%+v", got, want)
	}
	r := quietMeta()
	if err := r.Restore(bytes.NewReader(machinetest.Snapshot(t, m))); err != nil {
		t.Fatal(err)
	}
	if got := r.Override(want.Key); got == nil || *got != want {
		t.Errorf("restored\n%+v\nset\n%+v", got, want)
	}
	want.Burst = -7 // keeps the limit's
	m.change(t, snapshotio.Encode(setOverridesCommand(want)))
	if got := m.Override(want.Key); got.Burst != -1 {
		t.Errorf("a burst that keeps the limit's became %d", got.Burst)
	}
}

// TestOverridesAreToldAndWhole: the callback gets the changed keys, and an invalid entry changes
// nothing.
func TestOverridesAreToldAndWhole(t *testing.T) {
	m := quietMeta()
	var told [][]quota.Key
	m.overridden = func(keys []quota.Key) {
		m.Current() // deadlocks if called under the lock
		told = append(told, keys)
	}
	a, b, c := testKey("n", "l", "a"), testKey("n", "l", "b"), testKey("n", "m", "c")
	good := func(k quota.Key, expires quota.Time) quota.Override {
		return quota.Override{Key: k, Class: quota.Unlimited, Burst: -1, Expires: expires}
	}
	m.change(t, snapshotio.Encode(setOverridesCommand(good(b, 5), good(a, 9))))
	m.change(t, snapshotio.Encode(setOverridesCommand(good(c, 0), quota.Override{Key: a, Burst: -1}))) // the second one sets nothing
	m.change(t, snapshotio.Encode(deleteOverridesCommand(c)))
	m.change(t, snapshotio.Encode(purgeCommand(4)))
	if r := m.change(t, snapshotio.Encode(purgeCommand(5))); r.count != 1 || r.revision != 2 {
		t.Errorf("purge: %+v", r)
	}
	if r := m.change(t, snapshotio.Encode(deleteOverridesCommand(c, a, a))); r.count != 1 || r.revision != 3 {
		t.Errorf("delete: %+v", r)
	}
	if want := [][]quota.Key{{a, b}, {b}, {a}}; !slices.EqualFunc(told, want, slices.Equal) {
		t.Errorf("told of %v; want %v", told, want)
	}
}

func TestTooManyOverrides(t *testing.T) {
	m := quietMeta()
	m.maxOverrides = 3
	set := func(keys ...string) error {
		var list []quota.Override
		for _, k := range keys {
			list = append(list, quota.Override{Key: testKey("n", "l", k), Burst: 1})
		}
		return m.change(t, snapshotio.Encode(setOverridesCommand(list...))).err
	}
	if err := set("a", "b"); err != nil {
		t.Fatal(err)
	}
	before := machinetest.Snapshot(t, m)
	var many *TooManyOverridesError
	if err := set("a", "c", "d"); !errors.As(err, &many) || many.Have != 2 || many.Adding != 2 {
		t.Errorf("two more: %v", err)
	}
	if !bytes.Equal(before, machinetest.Snapshot(t, m)) {
		t.Error("a part of too many was set")
	}
	res := decodeOverridesResult(encodeOverridesResult(overridesResult{err: &TooManyOverridesError{Have: 2, Adding: 2}}))
	if !errors.As(res.err, &many) || *many != (TooManyOverridesError{Have: 2, Adding: 2}) {
		t.Errorf("over the wire: %v", res.err)
	}
	if err := set("a", "b", "c"); err != nil {
		t.Errorf("up to the bound: %v", err)
	}
	m.maxOverrides = 1 // as set by a later version
	if err := set("a", "b"); err != nil {
		t.Errorf("what is there may be changed beyond the bound: %v", err)
	}
}

// TestTooManyToPropose: a call that does not fit as a whole sets nothing, however many log entries
// it would take.
func TestTooManyToPropose(t *testing.T) {
	m := quietMeta()
	m.maxOverrides = overridesBatch + 1
	m.take(t, change("one", 0, testLimit("a", 1, quota.Soft)))
	m.change(t, snapshotio.Encode(setOverridesCommand(quota.Override{Key: testKey("test", "a", "0"), Burst: 1})))
	var list []quota.Override
	for i := range overridesBatch + 2 {
		list = append(list, quota.Override{Key: testKey("test", "a", strconv.Itoa(i)), Burst: 2})
	}
	n := NewStore("n1", nil, m, slog.New(slog.DiscardHandler))
	if err := n.checkOverrides(list[:overridesBatch+1], 0); err != nil {
		t.Errorf("up to the bound: %v", err)
	}
	err := n.checkOverrides(list, 0)
	if many := (*TooManyOverridesError)(nil); !errors.As(err, &many) || many.Have != 1 || many.Adding != overridesBatch+1 {
		t.Errorf("beyond the bound: %v", err)
	}
}

// TestOverridesReadWhileChanged is for the race detector: readers see a consistent table.
func TestOverridesReadWhileChanged(t *testing.T) {
	testspeed.Full(t)
	m := quietMeta()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := testKey("n", "l", strconv.Itoa(i%500))
				if o := m.Override(k); o != nil && (o.Key != k || o.Burst != o.Scale) {
					t.Errorf("half an override: %+v", o)
				}
				list, total := m.listOverrides(k.LimitName, k, 50)
				if len(list) > total {
					t.Errorf("%d listed of %d", len(list), total)
				}
			}
		})
	}
	for round := range int64(40) {
		var list []quota.Override
		for i := range 500 {
			list = append(list, quota.Override{Key: testKey("n", "l", strconv.Itoa(i)), Burst: round + 1, Scale: round + 1})
		}
		m.change(t, snapshotio.Encode(setOverridesCommand(list...)))
		if round%5 == 4 {
			machinetest.Snapshot(t, m)
			m.change(t, snapshotio.Encode(deleteOverridesCommand(list[7].Key, list[300].Key)))
		}
	}
	close(stop)
	wg.Wait()
}

// manyOverrides yields log entries of up to a thousand overrides, in an order that touches all
// chunks.
func manyOverrides(count int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for from := 0; from < count; from += overridesBatch {
			var list []quota.Override
			for i := from; i < min(from+overridesBatch, count); i++ {
				mixed := uint64(i) * 0x9e3779b97f4a7c15 // all are different
				list = append(list, quota.Override{
					Key: testKey("api", fmt.Sprintf("per_tenant_%d", i%5), fmt.Sprintf("tenant-%016x", mixed)), Burst: -1,
					Scale: 2 * quota.Million, Expires: quota.Time(1 + i), At: 1763712000000000000,
					By: "ops@example.com", Comment: "raise until Friday, ticket 12345",
				})
			}
			if !yield(snapshotio.Encode(setOverridesCommand(list...))) {
				return
			}
		}
	}
}

// TestMillionOverrides: a million overrides take less than 200 MB, restore to the same snapshot,
// and are deleted when they expire.
func TestMillionOverrides(t *testing.T) {
	testspeed.Full(t)
	count := 1_000_000
	if testing.Short() {
		count = 10_000
	}
	before := machinetest.Heap()
	m := quietMeta()
	for entry := range manyOverrides(count) {
		if r := m.change(t, entry); r.err != nil {
			t.Fatal(r.err)
		}
	}
	each := float64(machinetest.Heap()-before) / float64(count)
	t.Logf("%d overrides, %.0f bytes each", m.overrides.Load().count, each)
	if each > 200 {
		t.Errorf("an override costs %.0f bytes; at most 200", each)
	}
	r := quietMeta()
	written := machinetest.Snapshot(t, m)
	before = machinetest.Heap()
	if err := r.Restore(bytes.NewReader(written)); err != nil {
		t.Fatal(err)
	}
	t.Logf("snapshot of %d bytes; restored, %.0f bytes each", len(written), float64(machinetest.Heap()-before)/float64(count))
	if !bytes.Equal(written, machinetest.Snapshot(t, r)) {
		t.Error("restored, they have another snapshot")
	}
	if r := m.change(t, snapshotio.Encode(purgeCommand(quota.Time(count/2)))); r.count != count/2 || m.overrides.Load().count != count-count/2 {
		t.Errorf("purged %+v, left %d", r, m.overrides.Load().count)
	}
	if m.change(t, snapshotio.Encode(purgeCommand(never))); m.overrides.Load().count != 0 || len(m.overrides.Load().limits) != 0 {
		t.Errorf("left %d", m.overrides.Load().count)
	}
	runtime.KeepAlive(r)
}

func BenchmarkOverrides(b *testing.B) {
	const count = 1_000_000
	before := machinetest.Heap()
	m := quietMeta()
	for entry := range manyOverrides(count) {
		m.change(b, entry)
	}
	each := float64(machinetest.Heap()-before) / count
	var keys []quota.Key
	for k := range m.overrides.Load().after(quota.Key{}) {
		keys = append(keys, k)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1<<16]
	for name, suffix := range map[string]string{"found": "", "missing": "!"} {
		b.Run(name, func(b *testing.B) {
			asked := slices.Clone(keys)
			for i := range asked {
				asked[i].Key += suffix
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if (m.Override(asked[i&(1<<16-1)]) == nil) != (suffix != "") {
					b.Fatal("wrong answer")
				}
				i++
			}
			b.ReportMetric(each, "B/override")
		})
	}
	b.Run("set_1000", func(b *testing.B) {
		var entry []byte
		for entry = range manyOverrides(overridesBatch) {
		}
		for b.Loop() {
			m.change(b, entry)
		}
	})
}

// TestOddKeys finds the override of each key, whatever characters its parts have, and no other
// key's.
func TestOddKeys(t *testing.T) {
	m := quietMeta()
	var keys []quota.Key
	parts := []string{"", "/", "a", "b", "a/", "/a", "a/b", "#2", "a#2", "*", "\x00", "a\x00", "\x00a", "a\x00b", ":", "_", "a_b", "@"}
	for _, n := range []quota.LimitName{
		{Namespace: "a", Limit: "b"},
		{Namespace: "a", Limit: "b_c"},
		{Namespace: "a_b", Limit: "c"},
		{Namespace: "a", Limit: "b#2"},
		{Namespace: "a", Limit: "b#floor"},
		{Namespace: "a", Limit: quota.Template},
		quota.Global,
	} {
		for _, p := range parts {
			for _, q := range parts {
				keys = append(keys, quota.Key{LimitName: n, Key: p + "|" + q})
			}
		}
	}
	for i, k := range keys {
		m.Apply(1, 1, snapshotio.Encode(setOverridesCommand(quota.Override{Key: k, Burst: int64(i)})))
	}
	for i, k := range keys {
		_, tier := k.Base()
		counter := tier != 1 // a counter has no override of its own
		if o := m.Override(k); (o == nil) != counter || o != nil && (o.Burst != int64(i) || o.Key != k) {
			t.Errorf("%q: found the override %+v, want that of burst %d", k, o, i)
		}
	}
}

// ahead leads the meta group with a clock that is ahead of the others by an hour.
type ahead struct {
	Node
	m *Machine
}

func (n *ahead) MetaGroup() Group                                  { return n }
func (n *ahead) Now() quota.Time                                   { return quota.Time(2 * time.Hour) }
func (n *ahead) Earliest() quota.Time                              { return quota.Time(time.Hour) }
func (n *ahead) Leader() (quota.NodeID, uint64, bool)              { return "n1", 1, true }
func (n *ahead) ConfirmLeadership(context.Context) error           { return nil }
func (n *ahead) Apply(_ context.Context, data []byte) (any, error) { return n.m.Apply(1, 1, data), nil }

// TestPurgeWithClockAhead checks that a leader with a wrong clock deletes no override before it
// expires by the other clocks.
func TestPurgeWithClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := quietMeta()
		expired, valid := testKey("n", "l", "expired"), testKey("n", "l", "valid")
		m.change(t, snapshotio.Encode(setOverridesCommand(
			quota.Override{Key: expired, Burst: 1, Expires: quota.Time(time.Hour)},
			quota.Override{Key: valid, Burst: 1, Expires: quota.Time(time.Hour + time.Minute)},
		)))
		s := NewStore("n1", &ahead{m: m}, m, slog.New(slog.DiscardHandler))
		s.Start()
		time.Sleep(time.Second) // virtual
		s.Close()
		if m.Override(expired) != nil || m.Override(valid) == nil {
			t.Errorf("expired is %v, valid is %v", m.Override(expired), m.Override(valid))
		}
	})
}

func TestNextPurge(t *testing.T) {
	const now = quota.Time(time.Hour)
	for soonest, want := range map[quota.Time]time.Duration{
		now.Add(-time.Second):          purgeEvery, // the last purge failed
		now:                            purgeEvery,
		now.Add(time.Millisecond):      purgeGap, // together with those that expire soon after it
		now.Add(50 * time.Millisecond): 51 * time.Millisecond,
		now.Add(time.Second):           purgeEvery,
		never:                          purgeEvery,
	} {
		if got := nextPurge(soonest, now); got != want {
			t.Errorf("expires in %v: waits %v, want %v", soonest.Sub(now), got, want)
		}
	}
}
