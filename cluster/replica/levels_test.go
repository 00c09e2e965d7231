package replica

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/quota"
)

func TestConvertLevel(t *testing.T) {
	want := filltest.Filled[quota.KeyLevel](t)
	got := DecodeLevel(EncodeLevel(want))
	got.At = want.At // an entry has the time of its checkpoint
	want.Applied = 0 // every replica sets its own
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stored:\n%+v\nbefore:\n%+v", got, want)
	}
}

// TestMaxSize checks that no encoded level exceeds the size assumed when checkpoints and snapshots are cut.
func TestMaxSize(t *testing.T) {
	kl := filltest.Filled[quota.KeyLevel](t)
	for _, value := range []int64{-1, math.MaxInt64} { // the longest varints
		set := func(v reflect.Value) {
			for _, f := range v.Fields() {
				switch f.Kind() {
				case reflect.Int64:
					f.SetInt(value)
				case reflect.Uint64:
					f.SetUint(math.MaxUint64)
				}
			}
		}
		set(reflect.ValueOf(&kl).Elem())
		for i := range kl.Marks {
			set(reflect.ValueOf(&kl.Marks[i]).Elem())
		}
		line := EncodeLevel(kl)
		line.AtUnixNanos = value
		if size := proto.Size(&raftlogv1.RangeSnapshot{Levels: []*raftlogv1.KeyLevel{line}}); size > kl.MaxSize() {
			t.Errorf("%d bytes in a snapshot, counted as %d", size, kl.MaxSize())
		}
		if size := proto.Size(EncodeCheckpoint(0, []quota.KeyLevel{kl})); size > kl.MaxSize() {
			t.Errorf("%d bytes in a checkpoint, counted as %d", size, kl.MaxSize())
		}
	}
}

// TestPackedLevels checks that levels come back from a checkpoint as they were, and how large they are.
func TestPackedLevels(t *testing.T) {
	at := quota.Time(1_790_000_000_000_000_000)
	rng := rand.New(rand.NewPCG(1, 1))
	amount := func() quota.Units {
		return [...]quota.Units{0, 1, -1, 7 * quota.Token, -3*quota.Token + 1, quota.Most, -quota.Most, quota.Units(rng.Int64N(1 << 40))}[rng.IntN(8)]
	}
	when := func() quota.Time {
		return [...]quota.Time{0, at, at - 1, at.Add(time.Hour), math.MaxInt64}[rng.IntN(5)]
	}
	var want []quota.KeyLevel
	for range 500 {
		kl := quota.KeyLevel{
			Key: quota.Key{LimitName: quota.LimitName{Namespace: strconv.Itoa(rng.IntN(3)), Limit: strconv.Itoa(rng.IntN(3))}, Key: strconv.Itoa(rng.IntN(1000))},
			At:  at.Add(time.Duration(rng.IntN(5))), Level: amount(), FullAt: when(), WindowStart: when(), Slope: amount(), Full: amount(),
			Implicit: amount(), Answers: amount(), AnswersUntil: when(),
		}
		for range rng.IntN(4) {
			kl.Marks = append(kl.Marks, quota.Mark{
				Node: quota.NodeID(strconv.Itoa(rng.IntN(4))), Incarnation: quota.Incarnation(rng.IntN(3)), Epoch: quota.Seq(rng.Uint64()), Used: amount(), Overdrawn: amount(),
				Refunded: amount(), Out: amount(), Rate: amount(), Cap: amount(), Until: when(), Dead: rng.IntN(2) == 0,
			})
		}
		want = append(want, kl)
	}
	cp := EncodeCheckpoint(at, want)
	got, err := DecodeCheckpoint(cp)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("levels changed in the log: %v", err)
	}
	few := EncodeCheckpoint(at, want[:50]).Packed
	for n := range len(few) { // 0 bytes are an empty checkpoint
		if _, err := DecodeCheckpoint(&raftlogv1.Checkpoint{AtUnixNanos: int64(at), Packed: few[:n]}); err == nil && n > 0 {
			t.Fatalf("%d of %d bytes are taken", n, len(few))
		}
	}
	m := newLevels(noTime)
	if err := m.checkpoint(1, cp); err != nil {
		t.Fatal(err)
	}
	last := map[quota.Key]quota.KeyLevel{}
	for _, kl := range want {
		last[kl.Key] = kl
	}
	for k, l := range m.byKey {
		if got := m.packer.unpack(k, &l); !reflect.DeepEqual(got, last[k]) {
			t.Fatalf("kept is %+v; want %+v", got, last[k])
		}
	}
}

// TestPackedSize checks what a level takes in the log and in the memory of a replica.
func TestPackedSize(t *testing.T) {
	at := quota.Time(1_790_000_000_000_000_000)
	for _, tt := range []struct {
		name           string
		marks          int
		logged, memory float64 // bytes a key, at most
	}{{"soft", 0, 44, 260}, {"hard, 10 members", 10, 290, 480}} {
		const keys = 20_000
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := newLevels(noTime)
		bytes := 0
		for from := 0; from < keys; from += 4000 {
			var levels []quota.KeyLevel
			for i := from; i < from+4000; i++ {
				kl := quota.KeyLevel{Key: testKey(fmt.Sprintf("tenant-%017d", i)), At: at, Level: 9_123_456, FullAt: at.Add(1234567 * time.Microsecond), Full: 1000 * quota.Token}
				for n := range tt.marks {
					kl.Implicit = 100 * quota.Token
					kl.Marks = append(kl.Marks, quota.Mark{
						Node: quota.NodeID(fmt.Sprintf("node-%d", n)), Incarnation: quota.Incarnation(at), Epoch: quota.Seq(i), Used: 12 * quota.Token, Overdrawn: 3 * quota.Token,
						Out: 62_500_000, Cap: 62_500_000, Until: at.Add(5 * time.Second),
					})
				}
				levels = append(levels, kl)
			}
			cp := EncodeCheckpoint(at, levels)
			bytes += proto.Size(cp)
			if err := m.checkpoint(1, cp); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		logged, memory := float64(bytes)/keys, float64(after.HeapAlloc-before.HeapAlloc)/keys
		t.Logf("%s: %.0f bytes a key in the log, %.0f in memory", tt.name, logged, memory)
		if len(m.byKey) != keys || logged > tt.logged || memory > tt.memory {
			t.Errorf("%s: %.0f bytes a key in the log, %.0f in memory; want at most %.0f, %.0f", tt.name, logged, memory, tt.logged, tt.memory)
		}
	}
}

// TestNamesAreForgotten checks that a replica forgets the names of limits that no key has any more: limits that
// arrive with requests have any number of names.
func TestNamesAreForgotten(t *testing.T) {
	m, at := newLevels(noTime), quota.Time(1_790_000_000_000_000_000)
	for i := range 50 {
		at = at.Add(time.Minute)
		var levels []quota.KeyLevel
		for j := range 200 {
			name, err := quota.Inline{Rate: quota.Rate{Tokens: int64(1 + i*200 + j), Per: time.Second}, Burst: 10}.Name("gubernator")
			if err != nil {
				t.Fatal(err)
			}
			levels = append(levels, quota.KeyLevel{
				Key: quota.Key{LimitName: name, Key: "k"}, At: at, Level: 1, FullAt: at.Add(time.Second),
				Marks: []quota.Mark{{Node: "n1", Incarnation: quota.Incarnation(i + 1)}},
			})
		}
		if err := m.checkpoint(1, EncodeCheckpoint(at, levels)); err != nil {
			t.Fatal(err)
		}
		for k, l := range m.byKey {
			if kl := m.packer.unpack(k, &l); kl.Level != 1 || len(kl.Marks) != 1 {
				t.Fatalf("%v: %+v", k, kl)
			}
		}
	}
	if names, most := len(m.packer.limits), 4*(minPrune+200); names > most || len(m.packer.processes) > most {
		t.Errorf("%d names of limits and %d processes for %d keys", names, len(m.packer.processes), len(m.byKey))
	}
}

// TestProcessesAreForgotten checks that a replica of few keys, which it never prunes, forgets the processes of
// restarted nodes.
func TestProcessesAreForgotten(t *testing.T) {
	m, at := newLevels(noTime), quota.Time(1_790_000_000_000_000_000)
	most := 0
	for inc := range quota.Incarnation(10 * minPrune) {
		at = at.Add(time.Second)
		kl := quota.KeyLevel{Key: testKey("k"), At: at, Level: 1, FullAt: at.Add(time.Hour), Marks: []quota.Mark{{Node: "n1", Incarnation: inc}}}
		if err := m.checkpoint(1, EncodeCheckpoint(at, []quota.KeyLevel{kl})); err != nil {
			t.Fatal(err)
		}
		most = max(most, m.packer.names())
	}
	if most > 2*2+minPrune { // a limit and a process
		t.Errorf("%d names for one limit and one process", most)
	}
	if got := m.all(); len(got) != 1 || got[0].Marks[0].Incarnation != 10*minPrune-1 {
		t.Errorf("%+v", got)
	}
}

// TestLines checks that the lines of a new leader are those of the moment at which it began, whatever the log
// brings later, and that a dropped line stays in the log.
func TestLines(t *testing.T) {
	m := newLevels(noTime)
	at := quota.Time(1_790_000_000_000_000_000)
	line := func(key string, used quota.Units, inc quota.Incarnation) quota.KeyLevel {
		return quota.KeyLevel{Key: testKey(key), At: at, Level: used, FullAt: at.Add(time.Hour), Implicit: 3, Marks: []quota.Mark{{Node: "n1", Incarnation: inc, Used: used}}}
	}
	write := func(levels ...quota.KeyLevel) {
		if err := m.checkpoint(1, EncodeCheckpoint(at, levels)); err != nil {
			t.Fatal(err)
		}
	}
	full := line("full", 1, 1)
	full.FullAt = at
	was := []quota.KeyLevel{line("a", 1, 1), line("b", 2, 2)}
	write(append(was, full)...)
	lines := m.lines(at, 0)
	if _, ok := lines.Find(full.Key); ok {
		t.Error("the line of a full key is found")
	}
	write(line("a", 7, 7), line("c", 7, 8))
	m.renumber()
	heads := map[quota.Key]quota.KeyLevel{}
	for kl := range lines.All() {
		heads[kl.Key] = kl
	}
	for _, want := range was {
		got, _ := lines.Find(want.Key)
		if got.Applied = 0; !reflect.DeepEqual(got, want) {
			t.Errorf("line %+v; want %+v", got, want)
		}
		want.Marks = nil
		if got := heads[want.Key]; !reflect.DeepEqual(got, want) {
			t.Errorf("listed as %+v; want %+v", got, want)
		}
	}
	if len(heads) != len(was) {
		t.Errorf("%d lines are listed; want %d", len(heads), len(was))
	}
	lines.Drop(testKey("a"))
	if _, ok := lines.Find(testKey("a")); ok || len(m.all()) != 3 {
		t.Errorf("dropped: found %v, %d lines in the log", ok, len(m.all()))
	}
}

// FuzzDecodeCheckpoint reads arbitrary bytes. What is read without an error must be written the same way.
func FuzzDecodeCheckpoint(f *testing.F) {
	kl := quota.KeyLevel{Key: testKey("k"), At: 5, Level: 7, FullAt: 9, Marks: []quota.Mark{{Node: "a", Incarnation: 1, Used: 3, Until: 8}}}
	f.Add(EncodeCheckpoint(5, []quota.KeyLevel{kl, kl}).Packed)
	f.Fuzz(func(t *testing.T, data []byte) {
		levels, err := DecodeCheckpoint(&raftlogv1.Checkpoint{AtUnixNanos: 5, Packed: data})
		if err != nil {
			return
		}
		again, err := DecodeCheckpoint(EncodeCheckpoint(5, levels))
		if err != nil || len(again) != len(levels) {
			t.Errorf("%v: %d levels of %d", err, len(again), len(levels))
		}
	})
}
