package cluster

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestResources(t *testing.T) {
	r := newResources(t.TempDir())
	first := r.read()
	if again := r.read(); again != first {
		t.Error("a second read within half an interval measured again")
	}
	r.at = r.at.Add(-time.Second)
	time.Sleep(20 * time.Millisecond) // the clock of some systems moves that rarely
	second := r.read()
	if second.UptimeNanos <= first.UptimeNanos {
		t.Errorf("uptime went from %d to %d ns", first.UptimeNanos, second.UptimeNanos)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if second.Cpu == nil || second.GetMemoryBytes() < 1<<20 || second.GetDiskFreeBytes() == 0 {
		t.Errorf("got %v; want processor time, at least 1 MiB of memory and free disk space", second)
	}
}

// TestPeerResources checks that the status shows what a peer's beacon said as long as the peer is connected.
func TestPeerResources(t *testing.T) {
	c := newThreeNodes(t, 1)
	n := c.nodes["n1"]
	c.eventually(patience, "every node's load is known", func() error {
		for _, s := range n.Status().Nodes {
			if s.Resources.GetUptime().AsDuration() <= 0 {
				return fmt.Errorf("%s: resources %v; want an uptime", s.Id, s.Resources)
			}
		}
		return nil
	})
	c.kill("n3")
	c.eventually(patience, "the load of a dead node is forgotten", func() error {
		if s := n.Status().Nodes[2]; s.Connected || s.Resources != nil || s.Faults != nil {
			return fmt.Errorf("connected %v, resources %v, faults %v; want none", s.Connected, s.Resources, s.Faults)
		}
		return nil
	})
}

// TestBeaconFaults checks that a beacon's faults are bounded in number and bytes.
func TestBeaconFaults(t *testing.T) {
	many := slices.Repeat([]string{strings.Repeat("x", maxFault-1) + "é"}, maxFaults+1)
	got := beaconFaults(many)
	if len(got) != maxFaults || got[0] != strings.Repeat("x", maxFault-1) {
		t.Errorf("got %d faults, the first %q; want %d, cut between runes to at most %d bytes", len(got), got[0], maxFaults, maxFault)
	}
}
