package history

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestKeys: what is said of a key, and of one that is not named, holds for what was asked of it:
// over minutes, leaders that change within one, and lines that are there twice.
func TestKeys(t *testing.T) {
	limit := modelLimits[0]
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		k, truth := NewKeptKeys(), map[string]quota.Units{}
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
			again, err := DecodeKeptKeys(k.Append(nil))
			if err != nil || !bytes.Equal(again.Append(nil), k.Append(nil)) {
				t.Fatalf("seed %d: read again it is another: %v", seed, err)
			}
			k = again
		}
		got := k.Top(limit, 1000, 2000, 1+rng.IntN(15))
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

// FuzzKeys: no bytes do harm.
func FuzzKeys(f *testing.F) {
	l := KeysLine{Minute: 7, By: Lister{Term: 3, At: 60}, Lists: []TopKeys{{Limit: modelLimits[0], Rest: 4, Keys: []KeyTotal{{Key: "k", Attempted: 5, Admitted: 2}}}}}
	k := NewKeptKeys()
	k.Apply(&l)
	f.Add(l.Append(nil))
	f.Add(k.Append(nil))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if l, err := DecodeKeysLine(b); err == nil {
			k := NewKeptKeys()
			k.Apply(&l)
			k.Top(modelLimits[0], 0, 1<<40, 3)
		}
		if k, err := DecodeKeptKeys(b); err == nil {
			k.Append(nil)
		}
	})
}
