package systemtest

import (
	"testing"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestFaults does one fault after the other to a cluster under load: those that CI
// has time for, in short, and for make faults the rest, in full.
func TestFaults(t *testing.T) {
	testspeed.Full(t)
	t.Run("any", func(t *testing.T) { // the data of the third node lie on a small disk
		f := newLoadedCluster(t, smallDisk)
		f.run(f.fullDisk) // first, while the node leads: afterwards it does not for a minute
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
	t.Run("tuned", func(t *testing.T) { // other settings than the ordinary ones
		f := newLoadedCluster(t, tuned)
		f.run(f.slowTuned)
	})
	t.Run("disk", func(t *testing.T) { // what only an operator can mend
		f := newLoadedCluster(t, mountImage)
		f.run(f.readOnlyDisk)
		f.run(f.damagedSnapshots)
	})
	t.Run("bent", func(t *testing.T) { // clocks that are wrong, and disks that are slow
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

// runLong does what needs no other cluster, only time.
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
