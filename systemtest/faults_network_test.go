package systemtest

import (
	"fmt"
	"math/rand/v2"
	"time"
)

func (f *loadedCluster) cutOffLeader() fault {
	k, _ := f.leader()
	hold := long(15*time.Second, 4*time.Second)
	return fault{
		name: "leader cut off", did: fmt.Sprintf("no frame to it or from it for %v", hold),
		inject: func() { f.net.set(rule{cut: true}, f.net.around(k+1)...) }, heal: f.net.heal, hold: hold, alone: []int{k},
	}
}

func (f *loadedCluster) deafLeader() fault {
	k, _ := f.leader()
	hold := long(15*time.Second, 4*time.Second)
	return fault{
		name: "leader hears nothing", did: fmt.Sprintf("one way only: what it sends arrives, for %v", hold),
		inject: func() { f.net.set(rule{cut: true}, f.net.into(k+1)...) }, heal: f.net.heal, hold: hold, alone: []int{k},
	}
}

func (f *loadedCluster) slowAndLossy() fault {
	hold := long(15*time.Second, 4*time.Second)
	return fault{
		name: "slow and lossy", did: fmt.Sprintf("every frame 50 ms late, 10 %% lost, for %v", hold),
		inject: func() { f.net.set(rule{delay: 50 * time.Millisecond, loss: 0.1}, f.net.all()...) }, heal: f.net.heal, hold: hold, lossy: true, delay: 50 * time.Millisecond,
	}
}

func (f *loadedCluster) cutOffFollower() fault {
	_, others := f.leader()
	k := others[0]
	return fault{
		name: "follower cut off", did: "no frame to it or from it for 15s",
		inject: func() { f.net.set(rule{cut: true}, f.net.around(k+1)...) }, heal: f.net.heal, hold: 15 * time.Second, alone: []int{k},
	}
}

func (f *loadedCluster) muteLeader() fault {
	k, _ := f.leader()
	return fault{
		name: "leader is not heard", did: "one way only: what others send arrives, for 15s",
		inject: func() { f.net.set(rule{cut: true}, f.net.outOf(k+1)...) }, heal: f.net.heal, hold: 15 * time.Second, alone: []int{k},
	}
}

// slowTuned is slow with Raft timeouts long enough for it.
func (f *loadedCluster) slowTuned() fault {
	ft := f.slow()
	ft.name, ft.did, ft.calm = "slow, Raft set for it", ft.did+", with `raft: "+tunedRaft+"`", true
	return ft
}

const tunedRaft = "{heartbeat: 4s, election: 4s, lease: 2s}"

// tuned sets Raft timeouts for a slow network.
func tuned(c *servers) {
	for _, s := range c.nodes {
		s.prefix = append(s.prefix, "env", "QUORATE_RAFT_HEARTBEAT=4s", "QUORATE_RAFT_ELECTION=4s", "QUORATE_RAFT_LEASE=2s")
	}
}

// flapping cuts the leader off and reconnects it, again and again.
func (f *loadedCluster) flapping() fault {
	const seed, hold = 7, 30 * time.Second
	k, _ := f.leader()
	rng, ended := rand.New(rand.NewPCG(seed, 0)), make(chan struct{})
	return fault{
		name: "leader flaps", did: fmt.Sprintf("cut off and back for 0.1 to 1.5 s each, for %v, seed %d", hold, seed),
		inject: func() {
			go func() {
				defer close(ended)
				for end := time.Now().Add(hold); time.Now().Before(end); {
					f.net.set(rule{cut: true}, f.net.around(k+1)...)
					time.Sleep(time.Duration(100+rng.IntN(1400)) * time.Millisecond) // under test: cut off for a while
					f.net.heal()
					time.Sleep(time.Duration(100+rng.IntN(1400)) * time.Millisecond) // and back for a while
				}
			}()
		},
		heal: func() { <-ended }, hold: hold, alone: []int{k}, unsteady: true,
	}
}

func (f *loadedCluster) slow() fault {
	return fault{
		name: "slow", did: "every frame between nodes 200 ms late, for 20s",
		inject: func() { f.net.set(rule{delay: 200 * time.Millisecond}, f.net.all()...) }, heal: f.net.heal, hold: 20 * time.Second, delay: 200 * time.Millisecond,
	}
}

func (f *loadedCluster) lossy() fault {
	return fault{
		name: "lossy", did: "every tenth frame between nodes lost, for 20s",
		inject: func() { f.net.set(rule{loss: 0.1}, f.net.all()...) }, heal: f.net.heal, hold: 20 * time.Second, lossy: true,
	}
}
