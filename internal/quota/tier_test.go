package quota

import (
	"slices"
	"testing"
)

// TestKinds: every kind that has a word is listed in the order of its number, and counts by windows, unless it is a
// bucket or counts requests in flight.
func TestKinds(t *testing.T) {
	if len(Kinds()) != len(kinds) {
		t.Errorf("%v are listed; there are %d", Kinds(), len(kinds))
	}
	for i, k := range Kinds() {
		if int(k) != i {
			t.Errorf("%v has the number %d, and stands at %d", k, k, i)
		}
		if want := !slices.Contains([]Kind{TokenBucket, Concurrency}, k); k.Windowed() != want {
			t.Errorf("%v: windowed %v", k, !want)
		}
	}
}
