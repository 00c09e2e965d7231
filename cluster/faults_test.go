package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/cluster/raftgroup"
)

// A full disk is one line and not one for each range; what concerns one group is told of it.
func TestFaults(t *testing.T) {
	full, stuck := errors.New("disk of d3: 0 MiB free"), errors.New("a write has not ended for 9s")
	all := []raftgroup.Fault{{Err: full}, {Group: "meta", Err: full, Out: true}}
	for i := range 16 {
		all = append(all, raftgroup.Fault{Group: fmt.Sprintf("range-%03d", i), Err: full, Out: true})
	}
	all = append(all, raftgroup.Fault{Group: "range-016", Err: stuck}, raftgroup.Fault{Group: "range-017", Err: errors.New("no"), Out: true})
	want := []string{
		"disk of d3: 0 MiB free",
		"meta, range-000 and 15 more: disk of d3: 0 MiB free (these 17 replicas here are out of service)",
		"range-016: a write has not ended for 9s",
		"range-017: no (its replica here is out of service)",
	}
	if got := tellTroubles(all); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	all = nil
	for i := range 30 {
		all = append(all, raftgroup.Fault{Group: "g", Err: fmt.Errorf("trouble %d", i)})
	}
	if got := tellTroubles(all); len(got) != maxTroubles+1 || got[maxTroubles] != "and more" {
		t.Errorf("30 troubles are told in %d lines, want %d and that there are more", len(got), maxTroubles)
	}
}
