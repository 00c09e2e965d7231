package systemtest

import "time"

// clockJumps sets the leader's wall clock an hour ahead while it runs, and back again.
func (f *loadedCluster) clockJumps() fault {
	k, _ := f.leader()
	s := f.c.nodes[k]
	return fault{
		name: "clock jumps", did: "the leader's wall clock an hour ahead from one moment to the next, and back after 20s",
		inject: func() { f.c.clock(s, time.Hour) }, heal: func() { f.c.clock(s, 0) }, hold: 20 * time.Second,
	}
}

// clockAhead restarts the leader with a wall clock that is an hour ahead.
func (f *loadedCluster) clockAhead() fault {
	k, _ := f.leader()
	s := f.c.nodes[k]
	return fault{
		name: "clock ahead", did: "`kill -9` of the leader, started with its wall clock an hour ahead; back to the true time after 30s",
		inject: func() {
			f.down(k)
			s.kill()
			f.c.clock(s, time.Hour)
			f.c.start(s)
			f.c.awaitReady(s, 20*time.Second)
			f.up(k)
		},
		heal: func() { f.c.clock(s, 0) }, hold: 30 * time.Second, unsteady: true,
	}
}
