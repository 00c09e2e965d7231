package raftgroup

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestFaultTexts checks that a full disk yields one line rather than one for each range, and that
// a fault of a single group names that group.
func TestFaultTexts(t *testing.T) {
	full, stuck := errors.New("disk of d3: 0 MiB free"), errors.New("a write has not ended for 9s")
	all := []Fault{{Err: full}, {Group: "meta", Err: full, Out: true}}
	for i := range 16 {
		all = append(all, Fault{Group: fmt.Sprintf("range-%03d", i), Err: full, Out: true})
	}
	all = append(all, Fault{Group: "range-016", Err: stuck}, Fault{Group: "range-017", Err: errors.New("no"), Out: true})
	want := []string{
		"disk of d3: 0 MiB free",
		"meta, range-000 and 15 more: disk of d3: 0 MiB free (these 17 replicas here are out of service)",
		"range-016: a write has not ended for 9s",
		"range-017: no (its replica here is out of service)",
	}
	if got := FaultTexts(all); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	all = nil
	for i := range 30 {
		all = append(all, Fault{Group: "g", Err: fmt.Errorf("fault %d", i)})
	}
	if got := FaultTexts(all); len(got) != maxTexts+1 || got[maxTexts] != "and more" {
		t.Errorf("30 faults are in %d lines, want %d and that there are more", len(got), maxTexts)
	}
}
