package systemtest

import (
	"testing"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestFaults injects one fault after the other into a cluster under load and checks that the
// cluster serves, keeps its limits and books exactly. CI runs some of them, shortened; make faults
// runs all, in full.
func TestFaults(t *testing.T) {
	testspeed.Full(t)
	t.Run("any", func(t *testing.T) { // the third node's data is on a small disk
		f := newLoadedCluster(t, smallDisk)
		f.run(f.fullDisk) // first, while the node leads: afterwards it does not lead for a minute
		f.run(f.killedLeader)
		f.run(f.pausedLeader)
		f.run(f.cutOffLeader)
		f.run(f.deafLeader)
		f.run(f.slowAndLossy)
		f.run(f.garbage)
		f.run(f.manyConnections)
		f.run(f.tornLog)
		f.run(f.damagedLog)
		if longFaults() {
			f.runLong()
		}
	})
	if !longFaults() {
		return
	}
	t.Run("tuned", func(t *testing.T) { // non-default settings
		f := newLoadedCluster(t, tuned)
		f.run(f.slowTuned)
	})
	t.Run("disk", func(t *testing.T) { // faults that only an operator can repair
		f := newLoadedCluster(t, mountImage)
		f.run(f.readOnlyDisk)
		f.run(f.damagedSnapshots)
	})
	t.Run("bent", func(t *testing.T) { // wrong clocks and slow disks
		bends(t)
		f := newLoadedCluster(t, func(c *servers) {
			for _, s := range c.nodes {
				c.bend(s)
			}
		})
		f.run(f.slowSync)
		f.run(f.clockJumps)
		f.run(f.clockAhead)
	})
}

// runLong runs the faults that need no other cluster, only time.
func (f *loadedCluster) runLong() {
	for k := range f.c.nodes {
		f.run(func() fault { return f.killed(k) })
	}
	f.run(f.killedMajority)
	f.run(f.cutOffFollower)
	f.run(f.muteLeader)
	f.run(f.flapping)
	f.run(f.slow)
	f.run(f.lossy)
	f.run(f.restarts)
}
