package history

import "testing"

// TestReplaced checks a process that died with the whole cluster before the log had its last slot. It must
// be missing in the slot in which the next process of its node began, and in no later slot, whatever a
// leader expected.
func TestReplaced(t *testing.T) {
	k := NewRecent()
	old, next, other := Process{"n3", 1}, Process{"n3", 2}, Process{"n1", 2}
	for b := Slot(100); b < 104; b++ {
		k.Apply(&Line{Slot: b, Expected: []Process{other, old, next}, From: []Process{other, next}})
	}
	for b, want := range map[Slot]int{100: 1, 101: 0, 103: 0} {
		if got := k.missing(b, k.slots[b]); len(got) != want {
			t.Errorf("slot %d: %v are missing, want %d", b, got, want)
		}
	}
	k.Apply(&Line{Slot: 104, Expected: []Process{other, old, next}, From: []Process{other}})
	if got := k.missing(104, k.slots[104]); len(got) != 2 {
		t.Errorf("who has not uploaded: %v", got)
	}
}
