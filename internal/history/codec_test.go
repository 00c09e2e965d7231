package history

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

func sampleLine(rng *rand.Rand) Line {
	l := Line{Slot: Slot(rng.Int64N(maxSlot + 1))}
	for i := range rng.IntN(4) {
		l.Expected = append(l.Expected, Process{quota.NodeID(string(rune('a' + i))), quota.Incarnation(rng.Uint64())})
	}
	l.From = l.Expected[:rng.IntN(len(l.Expected)+1)]
	if len(l.From) == 0 {
		l.From = nil
	}
	if len(l.From) > 0 && rng.IntN(2) == 0 {
		l.Ended = l.From[:1]
	}
	for i := range rng.IntN(4) {
		s := Slice{Limit: quota.LimitName{Namespace: strings.Repeat("n", 1+i/2), Limit: "l" + string(rune('a'+i))}}
		for range rng.IntN(SlotSeconds) {
			s.Counts[rng.IntN(SlotSeconds)] = sampleCounts(rng)
		}
		l.Slices = append(l.Slices, s)
	}
	return l
}

func sampleCounts(rng *rand.Rand) Counts {
	unit := []quota.Units{1, quota.Token}[rng.IntN(2)]
	c := Counts{Attempted: quota.Units(rng.Int64N(1000)) * unit, Admitted: quota.Units(rng.Int64N(1000)) * unit}
	if rng.IntN(8) == 0 {
		c = Counts{Attempted: math.MaxInt64, Admitted: quota.Units(rng.Int64()), Over: math.MaxInt64, Needless: quota.Most, NeedlessAtMost: math.MaxInt64}
	} else if rng.IntN(3) == 0 {
		c.Over, c.Needless = quota.Units(rng.Int64N(1000)), quota.Units(rng.Int64N(3))*quota.Token
		c.NeedlessAtMost = c.Needless * quota.Units(rng.Int64N(3))
	}
	return c
}

// TestLineThereAndBack checks that decoding an encoded line returns the same line.
func TestLineThereAndBack(t *testing.T) {
	for seed := range uint64(2000) {
		l := sampleLine(rand.New(rand.NewPCG(seed, 3)))
		got, err := DecodeLine(l.Append(nil))
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Fatalf("seed %d: %v\n got %+v\nwant %+v", seed, err, got, l)
		}
	}
}

// TestVectorSize checks the size of vectors against docs/rfcs/20261122_history.md.
func TestVectorSize(t *testing.T) {
	var quiet, busy, mixed Vector
	for i := range busy {
		busy[i] = Counts{Attempted: 5000 * quota.Token, Admitted: 4900 * quota.Token}
		mixed[i] = Counts{Attempted: 5000*quota.Token + 1, Admitted: 4900 * quota.Token, Over: 3}
	}
	for _, c := range []struct {
		name string
		v    *Vector
		most int
	}{{"quiet", &quiet, 4}, {"busy", &busy, 4 + 4*SlotSeconds}, {"fractions", &mixed, 4 + 12*SlotSeconds}} {
		b := appendVector(nil, c.v)
		d := decoder{b: b}
		if back := d.vector(); len(b) > c.most || back != *c.v || d.err != nil {
			t.Errorf("%s: %d bytes, at most %d; %v, read as %+v", c.name, len(b), c.most, d.err, back)
		}
	}
}

// TestDamagedLine checks that lines that no leader writes are rejected.
func TestDamagedLine(t *testing.T) {
	l := Line{Slot: 7, Expected: []Process{{"a", 1}, {"b", 2}}, From: []Process{{"a", 1}}, Slices: []Slice{{Limit: modelLimits[0]}, {Limit: modelLimits[1]}}}
	l.Slices[0].Counts[3] = Counts{Attempted: quota.Token}
	whole := l.Append(nil)
	for n := range whole {
		if _, err := DecodeLine(whole[:n]); err == nil {
			t.Fatalf("cut off after %d of %d bytes: no error", n, len(whole))
		}
	}
	if _, err := DecodeLine(append(whole, 0)); err == nil {
		t.Fatal("a byte too many: no error")
	}
	l.From = []Process{{"b", 2}, {"a", 1}}
	if _, err := DecodeLine(l.Append(nil)); err == nil {
		t.Fatal("processes out of order: no error")
	}
	l.From = nil
	l.Slices[1].Limit = l.Slices[0].Limit
	if _, err := DecodeLine(l.Append(nil)); err == nil {
		t.Fatal("a limit twice: no error")
	}
}

// FuzzLine checks that no bytes do harm, and that a decoded line is encoded as the same line.
func FuzzLine(f *testing.F) {
	for seed := range uint64(20) {
		l := sampleLine(rand.New(rand.NewPCG(seed, 3)))
		f.Add(l.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeLine(b)
		if err != nil {
			return
		}
		again, err := DecodeLine(l.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), l.Append(nil)) {
			t.Fatalf("%v: %+v became %+v", err, l, again)
		}
		k := NewRecent()
		if !k.Apply(&l) {
			t.Fatal("a first line changes nothing")
		}
		for i := range l.Slices {
			k.Point(l.Slices[i].Limit, l.Slot, l.Slot+1)
		}
		l.From = nil
		k.Apply(&l) // of other processes with the same counts
		if _, err := DecodeRecent(k.Append(nil)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSumsSaturate checks that a sum that is too large stays at the maximum, and that it can be decoded in
// uploads, lines and snapshots.
func TestSumsSaturate(t *testing.T) {
	limit := modelLimits[0]
	once := Counts{Attempted: quota.Most, Admitted: quota.Most, Over: quota.Most, Needless: quota.Most, NeedlessAtMost: quota.Most}
	want := Counts{Attempted: math.MaxInt64, Admitted: math.MaxInt64, Over: math.MaxInt64, Needless: math.MaxInt64, NeedlessAtMost: math.MaxInt64}
	at := Slot(100)
	var nodes []Process
	for _, times := range []int{1, 2, 3} { // each in a line of its own
		nodes = append(nodes, Process{quota.NodeID(string(rune('a' + times))), 1})
	}
	kept := NewRecent()
	for i, self := range nodes {
		tally := NewTally(self, at.First(), 2, homeOf)
		for range i + 1 {
			tally.Add(at.First(), limit, once)
		}
		c := NewCollector(at.First(), kept)
		for _, uploaded := range tally.Pending(at.End(), 0, 10) {
			read, err := DecodeUpload(self, uploaded.Append(nil))
			if err != nil {
				t.Fatalf("uploaded by the %d. process: %v", i+1, err)
			}
			c.Add(at.End(), []Upload{read})
		}
		for _, l := range c.Lines(at.End() + Patience) {
			read, err := DecodeLine(l.Append(nil))
			if err != nil {
				t.Fatalf("line of the %d. process: %v", i+1, err)
			}
			kept.Apply(&read)
		}
		again, err := DecodeRecent(kept.Append(nil))
		if err != nil {
			t.Fatalf("state after %d lines: %v", i+1, err)
		}
		kept = again
	}
	if p := kept.Point(limit, at, at+1); p.Counts != want {
		t.Errorf("%+v; want %+v", p.Counts, want)
	}
}
