package systemtest

import (
	"fmt"
	"syscall"
	"time"
)

func (f *loadedCluster) killedLeader() fault {
	k, _ := f.leader()
	s := f.c.nodes[k]
	return fault{
		name: "leader killed", did: "`kill -9`, back after " + long(5*time.Second, 2*time.Second).String(),
		inject: s.kill, heal: func() { f.c.start(s) }, hold: long(5*time.Second, 2*time.Second), silent: []int{k},
		rest: 2 * time.Second, // as without external load: ARCHITECTURE.md
	}
}

func (f *loadedCluster) pausedLeader() fault {
	k, _ := f.leader()
	s, hold := f.c.nodes[k], long(10*time.Second, 3*time.Second)
	return fault{
		name: "leader paused", did: fmt.Sprintf("`SIGSTOP`, `SIGCONT` after %v", hold),
		inject: func() { s.signal(syscall.SIGSTOP) }, heal: func() { s.signal(syscall.SIGCONT) }, hold: hold, silent: []int{k},
	}
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// killed kills node k, which may or may not lead the keys.
func (f *loadedCluster) killed(k int) fault {
	s := f.c.nodes[k]
	return fault{
		name: s.id + " killed", did: "`kill -9`, back after 2s",
		inject: s.kill, heal: func() { f.c.start(s) }, hold: 2 * time.Second, silent: []int{k}, rest: 2 * time.Second,
	}
}

func (f *loadedCluster) killedMajority() fault {
	k, others := f.leader()
	return fault{
		name: "majority killed", did: "`kill -9` of the leader and another, both back after 15s",
		inject: func() { f.c.nodes[k].kill(); f.c.nodes[others[0]].kill() },
		heal:   func() { f.c.start(f.c.nodes[k]); f.c.start(f.c.nodes[others[0]]) },
		hold:   15 * time.Second, silent: []int{k, others[0]},
	}
}

// restarts kills and restarts one node after the other, each as soon as the previous one is ready.
func (f *loadedCluster) restarts() fault {
	const rounds = 100
	began := time.Now()
	return fault{
		name: "100 restarts", did: "`kill -9` of one node after the other, each as soon as the last is ready",
		inject: func() {
			for i := range rounds {
				k := i % len(f.c.nodes)
				s := f.c.nodes[k]
				f.down(k)
				s.kill()
				f.c.start(s)
				f.c.awaitReady(s, 20*time.Second)
				eventually(f.t, 5*time.Second, s.id+" answers", func() error {
					if now := time.Now().Add(-10 * time.Millisecond); !f.asks.answeredSince(k, now) {
						return fmt.Errorf("no answer since %v", now)
					}
					return nil
				})
				f.up(k)
			}
		},
		heal: func() {}, unsteady: true,
		note: func() string { return fmt.Sprintf("%v in all", time.Since(began).Round(time.Second)) },
	}
}
