package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestHistories runs tellers and checks of a hard limit while nodes are killed, restarted,
// suspended and partitioned by a seeded plan. It checks that the answers about each group of
// accounts are linearizable, and that the hard limit held by the moments that callers saw. CI does
// one short run; make histories does HISTORIES_RUNS runs of a minute, with clock steps as well, on
// a build with clocks that tests step (internal/faulttest).
func TestHistories(t *testing.T) {
	testspeed.Full(t)
	runs, seed := soak("HISTORIES_RUNS", 0), uint64(soak("HISTORIES_SEED", 1))
	if runs == 0 {
		t.Parallel() // mostly waits
		runHistory(t, seed, time.Duration(soak("HISTORIES_SECONDS", 15))*time.Second, false)
		return
	}
	bends(t)
	for ; runs > 0; runs-- {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			runHistory(t, seed, time.Duration(soak("HISTORIES_SECONDS", 60))*time.Second, true)
		})
		seed++
	}
}

func runHistory(t *testing.T, seed uint64, length time.Duration, clocks bool) {
	needBinary(t)
	p := &plague{t: t, net: newFabric(t, 3), rng: rand.New(rand.NewPCG(seed, 3)), clocks: clocks, counts: map[string]int{}}
	p.c = p.net.servers(8)
	if clocks {
		for _, s := range p.c.nodes {
			p.c.bend(s)
		}
	}
	p.c.run(faultLimits)
	b := openBank(t, p.c, seed)
	keys := p.c.oneLeader("api/hard")
	asks := startAskers(t, p.c.nodes, faultAsked, keys)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	b.open(ctx)
	for ctx.Err() == nil {
		sleep(ctx, p.between(300, 1500))
		p.strike(ctx)
	}
	for _, s := range p.c.nodes {
		p.c.awaitReady(s, 30*time.Second)
	}
	asks.stop()
	b.wg.Wait()
	eventually(t, 30*time.Second, "all accounts can be read", b.last)
	verdict := b.judge()
	hard := measure(asks.all(), 0, faultLimit(t, keys[0].LimitName))
	if hard.proven > 0 || hard.admitted == 0 {
		t.Errorf("hard limit: %d admitted of %d, %.2f beyond it by the moments that callers saw", hard.admitted, hard.asked, hard.proven)
	}
	row := fmt.Sprintf("| %d | %s | %d | %d | %d, %d | %d | %s | %d of %d | %.2f |",
		seed, p, len(b.history), b.moved(), b.resent.Load(), b.repeated.Load(), b.unknown(), verdict, hard.admitted, hard.asked, max(0, hard.proven))
	t.Log(row)
	writeRow(t, "HISTORIES_ROWS", row)
}

// plague strikes a cluster with one fault after the other, and sometimes with two at once.
type plague struct {
	t      *testing.T
	net    *fabric
	c      *servers
	rng    *rand.Rand
	clocks bool // steps clocks too
	counts map[string]int
}

func (p *plague) between(low, high int) time.Duration {
	return time.Duration(low+p.rng.IntN(high-low)) * time.Millisecond
}

// strike injects a fault, waits, and heals it.
func (p *plague) strike(ctx context.Context) {
	k := p.rng.IntN(3)
	s := p.c.nodes[k]
	heal := func() {}
	switch n := p.rng.IntN(20); {
	case n < 5:
		p.count("kill -9")
		s.kill()
		heal = func() { p.c.start(s) }
	case n < 6:
		p.count("all killed")
		for _, s := range p.c.nodes {
			_ = s.cmd.Process.Kill() // all, before waiting for any
		}
		for _, s := range p.c.nodes {
			s.kill()
		}
		heal = func() {
			for _, s := range p.c.nodes {
				p.c.start(s)
			}
		}
	case n < 8:
		p.count("restart")
		s.interrupt(syscall.SIGTERM, time.Minute)
		heal = func() { p.c.start(s) }
	case n < 12:
		p.count("pause")
		p.signal(s, syscall.SIGSTOP)
		heal = func() { p.signal(s, syscall.SIGCONT) }
	case n < 14:
		p.count("cut off")
		p.net.set(rule{cut: true}, p.net.around(k+1)...)
		heal = p.net.heal
	case n < 16:
		p.count("cut one way")
		ways := p.net.into(k + 1)
		if p.rng.IntN(2) == 0 {
			ways = p.net.outOf(k + 1)
		}
		p.net.set(rule{cut: true}, ways...)
		heal = p.net.heal
	case n < 17:
		p.count("flap")
		for range 5 {
			p.net.set(rule{cut: true}, p.net.around(k+1)...)
			sleep(ctx, p.between(100, 1500))
			p.net.heal()
			sleep(ctx, p.between(100, 1500))
		}
	case n < 18 || !p.clocks:
		p.count("slow and lossy")
		p.net.set(rule{delay: 40 * time.Millisecond, loss: 0.1}, p.net.all()...)
		heal = p.net.heal
	default:
		p.count("clock step")
		steps := []time.Duration{2 * time.Second, -2 * time.Second, time.Hour, -time.Hour}
		p.c.clock(s, steps[p.rng.IntN(len(steps))])
		heal = func() { p.c.clock(s, 0) }
	}
	sleep(ctx, p.between(100, 2000))
	if other := p.c.nodes[(k+1)%3]; p.rng.IntN(4) == 0 && running(other) {
		p.count("and another killed")
		other.kill()
		sleep(ctx, p.between(0, 1000))
		p.c.start(other)
	}
	sleep(ctx, p.between(100, 2000))
	heal()
}

func (p *plague) count(what string) { p.counts[what]++ }

func (p *plague) signal(s *server, sig syscall.Signal) {
	p.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s: %v: %v", s.id, sig, err)
	}
}

// String names the faults so far, most frequent first.
func (p *plague) String() string {
	var names []string
	for name := range p.counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		if d := p.counts[y] - p.counts[x]; d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", p.counts[name], name)
	}
	return strings.Join(names, ", ")
}

func running(s *server) bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}
