package systemtest

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// TestFaults does one fault after the other to one cluster under load.
func TestFaults(t *testing.T) {
	f := newField(t, nil)
	f.run(f.killedLeader)
	f.run(f.pausedLeader)
	f.run(f.cutOffNode)
	f.run(f.deafLeader)
	f.run(f.slowAndLossy)
	f.run(f.garbage)
	f.run(f.manyConnections)
}

func (f *field) killedLeader() fault {
	k, _ := f.leader()
	s := f.c.nodes[k]
	return fault{
		name: "leader killed", did: "`kill -9`, back after " + long(5*time.Second, 2*time.Second).String(),
		inject: s.kill, heal: func() { f.c.start(s) }, hold: long(5*time.Second, 2*time.Second), silent: []int{k},
		rest: 2 * time.Second, // as without load from outside: ARCHITECTURE.md
	}
}

func (f *field) pausedLeader() fault {
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

func (f *field) cutOffNode() fault {
	k, _ := f.leader()
	hold := long(15*time.Second, 4*time.Second)
	return fault{
		name: "leader cut off", did: fmt.Sprintf("no frame to it or from it for %v", hold),
		inject: func() { f.net.set(rule{cut: true}, f.net.around(k+1)...) }, heal: f.net.heal, hold: hold, alone: []int{k},
	}
}

func (f *field) deafLeader() fault {
	k, _ := f.leader()
	hold := long(15*time.Second, 4*time.Second)
	return fault{
		name: "leader hears nothing", did: fmt.Sprintf("one way only: what it sends arrives, for %v", hold),
		inject: func() { f.net.set(rule{cut: true}, f.net.into(k+1)...) }, heal: f.net.heal, hold: hold, alone: []int{k},
	}
}

func (f *field) slowAndLossy() fault {
	hold := long(15*time.Second, 4*time.Second)
	return fault{
		name: "slow and lossy", did: fmt.Sprintf("every frame 50 ms late, 10 %% lost, for %v", hold),
		inject: func() { f.net.set(rule{delay: 50 * time.Millisecond, loss: 0.1}, f.net.all()...) }, heal: f.net.heal, hold: hold, lossy: true, delay: 50 * time.Millisecond,
	}
}
