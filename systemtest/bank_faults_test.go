package systemtest

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// bankFor returns how long tellers work under faults.
func bankFor() time.Duration { return time.Duration(soak("SOAK_BANK_SECONDS", 8)) * time.Second }

// TestBank moves money between accounts, within one range and across ranges, while nodes are killed
// and suspended. It checks that all answers are linearizable, that no request is charged twice, and
// that no read sees half of a transfer.
func TestBank(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 8)
	c.run("version: 1\nnamespaces: {}\n")
	b := openBank(t, c, 7)
	ctx, cancel := context.WithTimeout(t.Context(), bankFor())
	defer cancel()
	b.open(ctx)
	rng := rand.New(rand.NewPCG(1, 2))
	kills, pauses := 0, 0
	for ctx.Err() == nil {
		sleep(ctx, time.Duration(500+rng.IntN(1500))*time.Millisecond)
		victim := c.nodes[rng.IntN(len(c.nodes))]
		if rng.IntN(2) == 0 {
			victim.kill()
			kills++
			sleep(ctx, time.Duration(rng.IntN(1000))*time.Millisecond)
			c.start(victim)
			c.awaitReady(victim, 20*time.Second)
		} else {
			pauses++
			stop(t, victim, time.Duration(200+rng.IntN(2500))*time.Millisecond)
		}
	}
	b.judge()
	t.Logf("%d kills, %d pauses", kills, pauses)
}

// TestBankAllKilled checks that every acknowledged operation survives killing all nodes at once.
func TestBankAllKilled(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 8)
	c.run("version: 1\nnamespaces: {}\n")
	b := openBank(t, c, 7)
	ctx, cancel := context.WithTimeout(t.Context(), bankFor()/2)
	defer cancel()
	b.open(ctx)
	sleep(ctx, bankFor()/4)
	for _, s := range c.nodes {
		s.kill()
	}
	for _, s := range c.nodes {
		c.start(s)
	}
	b.judge()
}

// stop suspends a process for d.
func stop(t *testing.T, s *server, d time.Duration) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d) // under test: a suspended process
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
