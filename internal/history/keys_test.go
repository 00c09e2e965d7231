package history

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestKeys checks that what is said of listed and unlisted keys holds for their real demand, over several
// minutes, with leaders that change within a minute and lines that are applied twice.
func TestKeys(t *testing.T) {
	limit := modelLimits[0]
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		k, truth := NewRecentKeys(), map[string]quota.Units{}
		for i := range 1 + rng.IntN(20) {
			l := KeysLine{Minute: Minute(1000 + i/2), By: Lister{Term: uint64(i), At: 9}}
			counts := map[string]quota.Units{}
			for range rng.IntN(30) {
				counts[strconv.Itoa(rng.IntN(12))] += quota.Units(rng.IntN(100))
			}
			top := TopKeys{Limit: limit}
			for key, n := range counts {
				truth[key] += n
				if rng.IntN(3) == 0 {
					top.Rest = max(top.Rest, n)
					continue
				}
				top.Keys = append(top.Keys, KeyTotal{Key: key, Attempted: n, Admitted: n / 2})
			}
			l.Lists = []TopKeys{top}
			read, err := DecodeKeysLine(l.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + rng.IntN(2) {
				k.Apply(&read)
			}
			again, err := DecodeRecentKeys(k.Append(nil))
			if err != nil || !bytes.Equal(again.Append(nil), k.Append(nil)) {
				t.Fatalf("seed %d: read again it is another: %v", seed, err)
			}
			k = again
		}
		got := topOf(t, k, limit, 1+rng.IntN(15))
		named := map[string]bool{}
		for _, x := range got.Keys {
			named[x.Key] = true
			if want := truth[x.Key]; want < x.Attempted || want > x.Attempted+x.Error {
				t.Fatalf("seed %d: %s had %d; said are %d and at most %d more", seed, x.Key, want, x.Attempted, x.Error)
			}
		}
		for key, want := range truth {
			if !named[key] && want > got.Rest {
				t.Fatalf("seed %d: %s, which is not named, had %d; said is at most %d", seed, key, want, got.Rest)
			}
		}
	}
}

// topOf returns the top keys of all minutes together, after each minute was encoded and decoded.
func topOf(t *testing.T, k *RecentKeys, limit quota.LimitName, most int) TopKeys {
	t.Helper()
	var sum KeysSum
	for _, at := range k.Minutes() {
		p, there := k.Minute(limit, at)
		stored, err := DecodeStored(limit, p.Top.AppendStored(nil))
		if err != nil || !there {
			t.Fatalf("%v, %v", there, err)
		}
		p.Top = stored
		sum.Add(&p)
	}
	return sum.Top(limit, most)
}

// TestKeysGaps checks that the lists of a term join, and that a gap covers what a leader had not listed. Gaps must survive encoding.
func TestKeysGaps(t *testing.T) {
	second := quota.Time(time.Second)
	k := NewRecentKeys()
	for _, l := range []KeysLine{
		{Minute: 10, By: Lister{1, 665 * second}, Since: 600 * second},
		{Minute: 11, By: Lister{1, 725 * second}, Since: 665 * second},
		{Minute: 12, By: Lister{2, 785 * second}, Since: 770 * second}, // the leader of term 1 was killed
		{Minute: 12, By: Lister{2, 785 * second}, Since: 770 * second},
		{Minute: 13, By: Lister{2, 790 * second}, Since: 785 * second},
		{Minute: 14, By: Lister{3, 905 * second}, Since: 891 * second},
		{Minute: 15, By: Lister{4, 965*second + 1}, Since: 906*second + 1},
		{Minute: 16, By: Lister{4, 1025 * second}, Since: 965*second + 1},
		{Minute: 17, By: Lister{6, 1080 * second}, Since: 1070 * second}, // the leader of term 5 listed nothing
	} {
		read, err := DecodeKeysLine(l.Append(nil))
		if err != nil || !reflect.DeepEqual(read, l) {
			t.Fatalf("%+v became %+v: %v", l, read, err)
		}
		k.Apply(&read)
		if k, err = DecodeRecentKeys(k.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[Minute][]Gap{10: nil, 11: nil, 12: {{725, 770}}, 13: nil, 14: {{790, 891}}, 15: {{905, 907}}, 16: nil, 17: {{1025, 1070}}} {
		if p, there := k.Minute(modelLimits[0], at); !there || !slices.Equal(p.Gaps, want) {
			t.Errorf("minute %d: %v; want %v", at, p.Gaps, want)
		}
	}
	var sum KeysSum
	for _, at := range []Minute{10, 12, 13, 14} { // minute 11 was lost
		p, _ := k.Minute(modelLimits[0], at)
		sum.Add(&p)
	}
	if got, want := sum.Span(), (KeysSpan{600, 905, []Gap{{665, 770}, {790, 891}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%v; want %v: also what there is nothing of", got, want)
	}
}

// TestKeyPeak checks that the peak is the key with the most requests per second of its list's length.
func TestKeyPeak(t *testing.T) {
	part := func(from, upto, seconds Second, keys ...KeyTotal) KeysPart {
		return KeysPart{Start: from, Seconds: seconds, KeysSpan: KeysSpan{From: from, Upto: upto}, Top: TopKeys{Keys: keys}}
	}
	for name, c := range map[string]struct {
		parts []KeysPart
		want  KeyPeak
	}{
		"no list":           {nil, KeyPeak{}},
		"nothing in it":     {[]KeysPart{part(0, 60, 60)}, KeyPeak{}},
		"of two minutes":    {[]KeysPart{part(0, 60, 60, KeyTotal{Key: "a", Attempted: 5}), part(60, 120, 60, KeyTotal{Key: "b", Attempted: 7}, KeyTotal{Key: "a", Attempted: 6})}, KeyPeak{"b", 7, 60}},
		"minute above hour": {[]KeysPart{part(0, 3600, 3600, KeyTotal{Key: "a", Attempted: 500}), part(3600, 3660, 60, KeyTotal{Key: "b", Attempted: 9})}, KeyPeak{"b", 9, 60}},
		"hour above minute": {[]KeysPart{part(0, 3600, 3600, KeyTotal{Key: "a", Attempted: 600}), part(3600, 3660, 60, KeyTotal{Key: "b", Attempted: 9})}, KeyPeak{"a", 600, 3600}},
		"a late list":       {[]KeysPart{part(0, 60, 60, KeyTotal{Key: "a", Attempted: 50}), part(60, 240, 60, KeyTotal{Key: "b", Attempted: 140})}, KeyPeak{"a", 50, 60}},
	} {
		var sum KeysSum
		for i := range c.parts {
			sum.Add(&c.parts[i])
		}
		if got := sum.Peak(); got != c.want {
			t.Errorf("%s: %+v; want %+v", name, got, c.want)
		}
	}
}

// TestGapsBound checks that beyond the bound the nearest gaps are merged, and that none is lost.
func TestGapsBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var all []Gap
		truth := map[Second]bool{}
		for range rng.IntN(40) {
			g := Gap{From: Second(rng.IntN(500))}
			g.End = g.From + Second(rng.IntN(20))
			all = append(all, g)
			for at := g.From; at < g.End; at++ {
				truth[at] = true
			}
		}
		most := 1 + rng.IntN(10)
		whole := GapSeconds(Gaps(slices.Clone(all), 1000))
		if int(whole) != len(truth) {
			t.Fatalf("%d s; want %d", whole, len(truth))
		}
		few := Gaps(slices.Clone(all), most)
		if len(few) > most {
			t.Fatalf("%d gaps; want at most %d", len(few), most)
		}
		for at := range truth {
			if !slices.ContainsFunc(few, func(g Gap) bool { return g.From <= at && at < g.End }) {
				t.Fatalf("%d is in none of %v", at, few)
			}
		}
	}
}

// FuzzKeys checks that no bytes do harm.
func FuzzKeys(f *testing.F) {
	l := KeysLine{Minute: 7, By: Lister{Term: 3, At: 60}, Lists: []TopKeys{{Limit: modelLimits[0], Rest: 4, Keys: []KeyTotal{{Key: "k", Attempted: 5, Admitted: 2}}}}}
	k := NewRecentKeys()
	k.Apply(&l)
	f.Add(l.Append(nil))
	f.Add(k.Append(nil))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if l, err := DecodeKeysLine(b); err == nil {
			k := NewRecentKeys()
			k.Apply(&l)
			k.Minute(modelLimits[0], l.Minute)
		}
		if k, err := DecodeRecentKeys(b); err == nil {
			k.Append(nil)
		}
		if stored, err := DecodeStored(modelLimits[0], b); err == nil {
			stored.AppendStored(nil)
		}
	})
}
