package archive

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// fillFrom copies missing data in parts. It stops after the given number of parts, like a process
// that is killed, and returns how many times it stored.
func fillFrom(t *testing.T, to, from *Archive, r Resolution, begin, end history.Second, parts int) (kept int) {
	t.Helper()
	holes, err := to.Holes(r, 1, begin, end)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range holes {
		for h.From > 0 && h.From < h.End && parts > 0 {
			parts--
			rows, next, err := from.Rows(r, 1, h.From, h.End, 300)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				if rows[i].Start < h.From || rows[i].Start >= h.End {
					t.Fatalf("%d is outside of %v", rows[i].Start, h)
				}
			}
			n, err := to.Fill(r, 1, rows)
			if err != nil {
				t.Fatal(err)
			}
			kept += n
			h.From = next
		}
	}
	return kept
}

// TestFill checks that an archive that copies missing data in any number of parts ends with the
// data of both archives, and for each time with the more complete data.
func TestFill(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		one, two := openIn(t, t.TempDir(), Config{}), openIn(t, t.TempDir(), Config{})
		end := begin + 200*60
		want := map[history.Second]history.Point{}
		var keys [2][]KeysEntry
		for at := begin; at < end; at += 60 {
			full := Entry{Range: 1, Coverage: Coverage{Start: at, Complete: rng.IntN(4) > 0}, Points: []Point{{limits[0], pointOf(rng.Int64N(1e9))}, {limits[1], pointOf(7)}}}
			if !full.Complete {
				full.Missing = []history.Process{{Node: "n", Incarnation: 1}}
			}
			less := full
			less.Complete, less.Missing, less.Points = false, nil, []Point{{limits[0], pointOf(1)}}
			inOne, inTwo := rng.IntN(3), rng.IntN(3) // 0: no data, 1: less, 2: full
			for i, a := range []*Archive{one, two} {
				var err error
				switch []int{inOne, inTwo}[i] {
				case 1:
					err = a.Put(Minutes, []Entry{less})
				case 2:
					err = a.Put(Minutes, []Entry{full})
					keys[i] = append(keys[i], KeysEntry{Range: 1, Start: at, KeysSpan: history.KeysSpan{From: at + 3, Upto: at + 63}, Lists: []history.TopKeys{{Limit: limits[0], Rest: quota.Units(at)}}})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			e := full
			if max(inOne, inTwo) == 0 {
				continue
			} else if max(inOne, inTwo) == 1 {
				e = less
			}
			p := e.Points[0].Point
			p.Start, p.Seconds, p.Complete, p.Missing = at, 60, e.Complete, e.Missing
			want[at] = p
		}
		for i, a := range []*Archive{one, two} {
			if err := a.PutKeys(KeyMinutes, keys[i]); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			fillFrom(t, one, two, Minutes, begin, end, rng.IntN(10))
		}
		fillFrom(t, one, two, Minutes, begin, end, 1000)
		fillFrom(t, one, two, KeyMinutes, begin, end, 1000)
		got := read(t, one, Minutes, 1, limits[0], begin, end)
		for i := range got {
			if !reflect.DeepEqual(got[i], want[got[i].Start]) {
				t.Fatalf("seed %d: %+v; want %+v", seed, got[i], want[got[i].Start])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d minutes; want %d", seed, len(got), len(want))
		}
		found := map[history.Second]bool{}
		if err := one.ReadKeys(KeyMinutes, 1, limits[0], begin, end, func(p history.KeysPart) {
			found[p.Start] = p.Top.Rest == quota.Units(p.Start)
		}); err != nil {
			t.Fatal(err)
		}
		for i := range keys {
			for _, e := range keys[i] {
				if !found[e.Start] {
					t.Fatalf("seed %d: keys of %d are not there", seed, e.Start)
				}
			}
		}
		if n := fillFrom(t, one, two, Minutes, begin, end, 1000); n > 0 {
			t.Fatalf("seed %d: %d times are copied again", seed, n)
		}
	}
}

// TestFillDamaged checks that Fill refuses rows that this version would not write, and stores none
// of the rows that come with them.
func TestFillDamaged(t *testing.T) {
	a := openIn(t, t.TempDir(), Config{})
	p := pointOf(9)
	good := Rows{Range: 1, Start: begin, Cover: appendCoverage(nil, &Coverage{Complete: true}), Of: []Row{{limits[0], p.Append(nil)}}}
	for name, bad := range map[string]func(*Rows){
		"another range": func(r *Rows) { r.Range = 2 },
		"no minute":     func(r *Rows) { r.Start++ },
		"no coverage":   func(r *Rows) { r.Cover = nil },
		"cut off":       func(r *Rows) { r.Of = []Row{{limits[0], p.Append(nil)[:3]}} },
		"no name":       func(r *Rows) { r.Of = []Row{{quota.LimitName{Namespace: "a"}, p.Append(nil)}} },
	} {
		rows := good
		rows.Start += 60
		bad(&rows)
		if n, err := a.Fill(Minutes, 1, []Rows{good, rows}); err == nil || n > 0 {
			t.Errorf("%s: %d kept, no error", name, n)
		}
		if got := read(t, a, Minutes, 1, limits[0], begin, begin+600); len(got) > 0 {
			t.Errorf("%s: %v is there", name, got)
		}
	}
	if n, err := a.Fill(Minutes, 1, []Rows{good}); err != nil || n != 1 {
		t.Errorf("%d, %v; want one, as it is in order", n, err)
	}
}
