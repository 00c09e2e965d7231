package leader

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// packAll packs all buckets that may be packed, and checks that each would be unpacked as it was.
func packAll(t testing.TB, l *Ledger) {
	t.Helper()
	for b := range l.buckets.all() {
		was := b.state
		if b.isPacked() || !l.packBucket(b) {
			continue
		}
		l.peek(b)
		sameState(t, was, b.state)
		l.unpackBucket(b)
		sameState(t, was, b.state)
		l.packBucket(b)
	}
}

// sameState compares all fields. An empty list is the same as none.
func sameState(t testing.TB, want, got *state) {
	t.Helper()
	for _, s := range []*state{want, got} {
		if s.unusual != nil {
			s.unusual.outlived = nil // empty
			s.unusual.outstanding = orNone(s.unusual.outstanding)
		}
		if s.decided != nil {
			s.decided.own.pending = nil // empty
		}
		s.rooms, s.allocations = orNone(s.rooms), orNone(s.allocations)
		for i := range s.allocations {
			al := &s.allocations[i]
			if al.rare != nil && *al.rare == (rareState{}) {
				al.rare = nil
			}
			if al.unacked != nil && len(al.unacked.Grants) == 0 {
				al.unacked = nil
			}
			if al.logged != nil {
				al.logged.pending = nil // empty
			}
		}
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("a bucket was unpacked as\n%s\nwas\n%s", dump(got), dump(want))
	}
}

func orNone[S ~[]E, E any](list S) S {
	if len(list) == 0 {
		return nil
	}
	return list
}

// dump returns the fields of a state as text.
func dump(s *state) string {
	text := fmt.Sprintf("%+v", *s)
	for i := range s.allocations {
		text += fmt.Sprintf("\n%+v %+v %+v", s.allocations[i], s.allocations[i].rare, s.allocations[i].logged)
	}
	return text
}

// TestPack fills all fields of a state with random numbers, large and small. It fails if a field is
// missing in the packed form.
func TestPack(t *testing.T) {
	limit := &quota.Limit{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 7, Per: time.Second}, Burst: 20}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := &Ledger{}
		b := newBucket(0, "k", newRule(quota.LimitName{}, limit, time.Second), savedLevel{}, false)
		fill(rng, reflect.ValueOf(b.state))
		b.wanted, b.queued, b.behind, b.live, b.unusual.outlived, b.decided.own.pending = false, false, false, nil, nil, nil
		for i := range b.allocations {
			b.allocations[i].logged.pending = nil
			b.allocations[i].process = l.processes.of("n", quota.Incarnation(i))
		}
		for i := range b.unusual.outstanding {
			b.unusual.outstanding[i].process = l.processes.of("n", quota.Incarnation(i))
		}
		meter := func(m *limiter.Meter) {
			var s limiter.MeterState
			fill(rng, reflect.ValueOf(&s))
			*m = s.Meter()
		}
		meter(&b.pool)
		meter(&b.env.Meter)
		was := b.state
		if !l.packBucket(b) {
			t.Fatal("the bucket was not packed")
		}
		l.peek(b)
		sameState(t, was, b.state)
		l.unpackBucket(b)
		sameState(t, was, b.state)
	}
}

// fill sets all fields that this package may set.
func fill(rng *rand.Rand, v reflect.Value) {
	n := rng.Uint64() >> rng.IntN(64)
	switch rng.IntN(8) {
	case 0:
		n = math.MaxInt64 - n%2
	case 1:
		n = n % 1e9 * uint64(quota.Token)
	}
	if !v.CanSet() && v.CanAddr() {
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(rng, v.Elem())
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(rng, f)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(3), 3))
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Bool:
		v.SetBool(n%2 == 0)
	case reflect.String:
		v.SetString(fmt.Sprint("n", n%20))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(rng.NormFloat64() * float64(n%1000))
	case reflect.Int64, reflect.Int:
		v.SetInt(int64(n) * (1 - 2*int64(rng.IntN(2))))
	case reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		v.SetUint(n)
	default:
		panic(v.Kind())
	}
}

// TestPackWhenUnused checks that buckets are packed after some seconds without use, whatever reads them
// meanwhile, and that use unpacks them.
func TestPackWhenUnused(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		const keys = 300
		u := newUpkept(t, keys, 3, ceiling)
		wantPacked := func(want int) {
			t.Helper()
			n := 0
			for b := range u.buckets.all() {
				if b.isPacked() {
					n++
				}
			}
			if n != want {
				t.Errorf("%v: %d of %d buckets are packed; want %d", ceiling, n, keys, want)
			}
		}
		pass := func(seconds int) {
			for range seconds {
				u.now = u.now.Add(time.Second)
				u.Sweep(u.now)
				u.save()
			}
		}
		wantPacked(0)
		pass(20)
		wantPacked(keys)
		u.use(7)
		u.use(9)
		wantPacked(keys - 2)
		if len(u.TopSince(10, 10)) == 0 || u.Booked(u.name) == 0 {
			t.Error("nothing is counted")
		}
		q := Query{Top: keys, Limits: func(quota.LimitName) bool { return true }}
		packed := u.Rates(u.now, q)
		wantPacked(keys - 2)
		for k := range keys {
			u.bucket(u.key(k))
		}
		wantPacked(0)
		if inUse := u.Rates(u.now, q); !reflect.DeepEqual(packed, inUse) {
			t.Errorf("%v: the rates of packed buckets are\n%+v\nin use\n%+v", ceiling, packed, inUse)
		}
		if err := u.Check(u.now); err != nil {
			t.Error(err)
		}
		u.SetLimits(u.now, u.limits(2))
		u.MemberGone(u.now, "n1", math.MaxUint64)
		pass(20)
		if u.watched.len() > 2*keys {
			t.Errorf("%v: %d of %d buckets are watched", ceiling, u.watched.len(), keys)
		}
		wantPacked(keys)
	}
}

// BenchmarkPack unpacks a key with ten members, and packs it again.
func BenchmarkPack(b *testing.B) {
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		b.Run(c.String(), func(b *testing.B) {
			l := reported(b, 1000, c, true)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := *l.refs.buckets.at(i % 1000)
				l.unpackBucket(k)
				if !l.packBucket(k) {
					b.Fatal("the bucket was not packed")
				}
			}
		})
	}
}

// TestProcessesAreBounded checks that a ledger numbers at most maxProcesses, and that the buckets of
// further ones are not packed.
func TestProcessesAreBounded(t *testing.T) {
	l := &Ledger{}
	limit := &quota.Limit{Kind: quota.TokenBucket, Rate: quota.Rate{Tokens: 7, Per: time.Second}, Burst: 20}
	packs := func(inc int) bool {
		b := newBucket(0, "k", newRule(quota.LimitName{}, limit, time.Second), savedLevel{}, false)
		b.allocations = []allocation{{openState: openState{process: l.processes.of("n", quota.Incarnation(inc))}}}
		return l.packBucket(b)
	}
	for i := range maxProcesses {
		if !packs(i) {
			t.Fatalf("the bucket of process %d of %d is not packed", i+1, maxProcesses)
		}
	}
	if packs(maxProcesses) {
		t.Error("the bucket of one process too many is packed")
	}
	if !packs(7) {
		t.Error("the bucket of a known process is not packed")
	}
}
