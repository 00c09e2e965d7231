package sharedlog

import (
	"bytes"
	"testing"

	"github.com/hashicorp/raft"
)

// FuzzKeys checks that a key names one entry or value of one group, that the keys of a group lie
// side by side, in order, and that an entry is not read back under another key.
func FuzzKeys(f *testing.F) {
	f.Add(uint32(0), uint64(1), uint32(1), uint64(1), uint8(0), []byte("data"))
	f.Add(uint32(MaxGroup), uint64(MaxIndex), uint32(MaxGroup-1), uint64(MaxIndex), uint8(3), []byte{})
	f.Add(uint32(7), uint64(0), uint32(7), uint64(MaxIndex+1), uint8(9), []byte(nil))
	f.Fuzz(func(t *testing.T, g1 uint32, i1 uint64, g2 uint32, i2 uint64, s uint8, data []byte) {
		g1, g2 = g1%(MaxGroup+1), g2%(MaxGroup+1)
		k1, err1 := entryKey(g1, i1)
		if (err1 == nil) != (i1 >= 1 && i1 <= MaxIndex) {
			t.Fatalf("entry %d: %v", i1, err1)
		}
		v := slot(s) % slots
		if g, i, stable := splitKey(stableKey(g1, v)); g != g1 || slot(i) != v || !stable {
			t.Fatalf("value %d of group %d is read as %d of %d", v, g1, i, g)
		}
		k2, err2 := entryKey(g2, i2)
		if err1 != nil || err2 != nil {
			return
		}
		if g, i, stable := splitKey(k1); g != g1 || i != i1 || stable || k1 >= stableKey(0, 0) {
			t.Fatalf("entry %d of group %d is read as %d of %d", i1, g1, i, g)
		}
		if less := g1 < g2 || g1 == g2 && i1 < i2; less != (k1 < k2) {
			t.Fatalf("order of %d/%d and %d/%d", g1, i1, g2, i2)
		}
		l := &raft.Log{Index: i1, Term: i2, Type: raft.LogType(s), Data: data, Extensions: data[:len(data)/2]}
		back := *seal(k1, l)
		if err := unseal(k1, &back); err != nil || back.Index != i1 || back.Term != i2 || !bytes.Equal(back.Data, data) || !bytes.Equal(back.Extensions, l.Extensions) {
			t.Fatalf("%+v, %v", back, err)
		}
		if k1 != k2 {
			moved := *seal(k1, l)
			moved.Index = k2 // as if its page had been written elsewhere
			if err := unseal(k2, &moved); err == nil {
				t.Fatalf("entry %d/%d is taken for %d/%d", g1, i1, g2, i2)
			}
		}
	})
}

// TestKeysOfOthers checks that an unknown key of the stable store is an error that names it.
func TestKeysOfOthers(t *testing.T) {
	l := openTest(t, t.TempDir(), nil)
	g := group(t, l, 1)
	if err := g.Set([]byte("Other"), nil); err == nil {
		t.Error("saved under a key that has no place")
	}
	if _, err := g.Get([]byte("Other")); err == nil {
		t.Error("read a key that has no place")
	}
	if _, err := l.Group(MaxGroup + 1); err == nil {
		t.Error("a group beyond the last")
	}
	if err := g.StoreLog(&raft.Log{Index: MaxIndex + 1}); err == nil {
		t.Error("an entry beyond the last")
	}
	if err := g.StoreLogs([]*raft.Log{{Index: 1}, {Index: 3}}); err == nil {
		t.Error("a gap in one call")
	}
}
