package history

import "testing"

// TestReplaced: a process that died with the whole cluster, before the log had its last block, is missing in the
// block in which the next one of its node began, and in none behind it, whatever a leader expected.
func TestReplaced(t *testing.T) {
	k := NewKept()
	old, next, other := Process{"n3", 1}, Process{"n3", 2}, Process{"n1", 2}
	for b := Block(100); b < 104; b++ {
		k.Apply(&Line{Block: b, Expected: []Process{other, old, next}, From: []Process{other, next}})
	}
	for b, want := range map[Block]int{100: 1, 101: 0, 103: 0} {
		if got := k.missing(b, k.blocks[b]); len(got) != want {
			t.Errorf("block %d: %v are missing, want %d", b, got, want)
		}
	}
	k.Apply(&Line{Block: 104, Expected: []Process{other, old, next}, From: []Process{other}})
	if got := k.missing(104, k.blocks[104]); len(got) != 2 {
		t.Errorf("who has not told: %v", got)
	}
}
