package systemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

const killLimits = `
version: 1
namespaces:
  api:
    limits:
      soft: {rate: 500/s, burst: 500}
      hard: {rate: 500/s, burst: 500, ceiling: hard}
      slow: {rate: 5/h, burst: 5, ceiling: hard}
`

// TestKillLeader kills, under three times the limit, the node that leads a soft and a hard key, and
// checks how fast the survivors recover and how much they admit. The time limits assume a free
// processor for the nodes, so the test subtracts the time for which this process itself got none.
func TestKillLeader(t *testing.T) {
	testspeed.Full(t)
	const rate, burst = 500, 500
	c := newServers(t, 16)
	c.run(killLimits)
	keys := c.keysLedBy("n2", "api/soft", "api/hard")
	soft, hard := keys[0], keys[1]
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	l := startLoad(ctx, t, c.nodes, rate, keys...)
	time.Sleep(4 * time.Second) // load, the baseline for the recovery
	victim := c.leaderOf(c.nodes[0], soft)
	if other := c.leaderOf(c.nodes[0], hard); victim.id != "n2" || other != victim {
		t.Fatalf("the keys are led by %s and %s, not by n2", victim.id, other.id)
	}
	time.Sleep(time.Second) // more load
	watch := watchRecovery(l, c.others(victim), victim.id)
	killed, stalled := time.Now(), l.stall()
	victim.kill()
	recovered := watch(t, killed, stalled)
	l.wait()

	for _, k := range keys {
		got := l.keys[k]
		most := got.envelope(rate, burst)
		t.Logf("%s: admitted %d of %d requests; the limit's envelope is %.0f: %+.2f %%; %v",
			k.Limit, got.admitted, got.admitted+got.refused, most, 100*(float64(got.admitted)/most-1), got.why)
		allowed := most * 1.03
		if k == hard {
			allowed = most
		}
		if float64(got.admitted) > allowed {
			t.Errorf("%s: admitted %d, which is more than %.0f", k.Limit, got.admitted, allowed)
		}
		least := 0.95 * most
		// Under hard, the survivors do not grant what the dead node may have used of the tokens
		// that the log had promised it. Its third of the rate goes to them when its lease ends,
		// after at most 5 s.
		if k == hard {
			least = most - burst - 1.5*rate - 5*rate/3
		}
		if float64(got.admitted) < least {
			t.Errorf("%s: admitted %d, which is less than %.0f of at most %.0f", k.Limit, got.admitted, least, most)
		}
	}
	for _, s := range c.others(victim) {
		n := l.nodes[s.grpc]
		t.Logf("%s: %v, %v after the kill (the load itself stalled for %v in all); all ranges ready again after %v", s.id, n, n.gapAt.Sub(killed).Round(time.Millisecond), l.stalled.Round(time.Millisecond), recovered[s.id].Round(time.Millisecond))
		if n.gap >= patience()*250*time.Millisecond {
			t.Errorf("%s did not answer for %v", s.id, n.gap)
		}
		if n.errors > 0 {
			t.Errorf("%s: %d errors, the last: %v", s.id, n.errors, n.lastErr)
		}
		if recovered[s.id] >= patience()*2*time.Second {
			t.Errorf("%s: not all ranges had leaders until %v after the kill", s.id, recovered[s.id])
		}
	}
}

// watchRecovery polls the survivors. The function that it returns waits until all of them are ready
// without the victim, and reports how long after the kill, less the stalls of the load.
func watchRecovery(l *load, nodes []*server, victim string) func(t *testing.T, killed time.Time, stalled time.Duration) map[string]time.Duration {
	type result struct {
		noticed, ready time.Time
		stalled        time.Duration // of the load, when the node was ready
		err            error
	}
	var mu sync.Mutex
	results := map[string]*result{}
	var wg sync.WaitGroup
	for _, s := range nodes {
		r := &result{}
		results[s.id] = r
		wg.Go(func() {
			for end := time.Now().Add(leastPatience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				st, err := s.status()
				mu.Lock()
				switch {
				case err != nil:
					r.err = err
				case r.noticed.IsZero() && (!st.Ready || !st.leads(victim)):
					r.noticed = time.Now()
				}
				if err == nil && !r.noticed.IsZero() && st.Ready && !st.leads(victim) {
					r.ready, r.stalled = time.Now(), l.stall()
					mu.Unlock()
					return
				}
				mu.Unlock()
			}
		})
	}
	return func(t *testing.T, killed time.Time, stalled time.Duration) map[string]time.Duration {
		t.Helper()
		wg.Wait()
		out := map[string]time.Duration{}
		for id, r := range results {
			if r.noticed.Before(killed) || r.ready.IsZero() {
				t.Fatalf("%s: noticed the death at %v, ready at %v (killed at %v): %v", id, r.noticed, r.ready, killed, r.err)
			}
			t.Logf("%s noticed the death after %v", id, r.noticed.Sub(killed).Round(time.Millisecond))
			out[id] = r.ready.Sub(killed) - (r.stalled - stalled)
		}
		return out
	}
}

// TestKillRestart checks that a killed node comes back with its data.
func TestKillRestart(t *testing.T) {
	t.Parallel() // mostly waits
	c := newServers(t, 16)
	c.quick = true
	c.run(killLimits)
	before := c.awaitReady(c.nodes[0], time.Second)
	slow := c.keysLedBy("n2", "api/slow")[0]
	for i := range 5 {
		take(t, c.nodes[i%3], slow, 1)
	}
	time.Sleep(1200 * time.Millisecond) // at least one checkpoint
	victim := c.node("n2")
	victim.kill()
	c.apply(killLimits + "      late: {rate: 1/s, burst: 1}\n") // while the node is down
	for _, s := range c.others(victim) {
		eventually(t, 5*time.Second, s.id+" has other leaders", func() error {
			st, err := s.status()
			if err == nil && (!st.Ready || st.leads("n2")) {
				err = errors.New("not yet")
			}
			return err
		})
	}
	began := time.Now()
	c.start(victim)
	st := c.awaitReady(victim, 10*time.Second)
	t.Logf("ready %v after its restart", time.Since(began).Round(time.Millisecond))
	if st.Version != 2 {
		t.Errorf("the node came back with version %d of the limits; want 2", st.Version)
	}
	if d := allow(t, victim.httpAddr, quota.Key{LimitName: quota.LimitName{Namespace: "api", Limit: "late"}, Key: "k"}); !d.Allowed {
		t.Errorf("a limit of meanwhile: %+v", d)
	}
	for _, s := range c.nodes {
		if d := allow(t, s.httpAddr, slow); d.Allowed || d.code != 429 {
			t.Errorf("%v was used up; %s says %+v", slow, s.id, d)
		}
	}
	eventually(t, 30*time.Second, "leaderships are back where they were", func() error {
		for _, s := range c.nodes {
			st, err := s.status()
			if err != nil {
				return err
			}
			for r := range st.Ranges {
				if want := before.Ranges[r].Leader; st.Ranges[r].Leader != want {
					return fmt.Errorf("%s sees %q lead range %d, not %s", s.id, st.Ranges[r].Leader, r, want)
				}
			}
			if !st.Ready {
				return errors.New(st.Reason)
			}
		}
		return nil
	})
	t.Logf("leaderships back %v after the restart", time.Since(began).Round(100*time.Millisecond))
	for _, s := range c.nodes {
		if d := allow(t, s.httpAddr, slow); d.Allowed {
			t.Errorf("%v was used up; after the moves %s says %+v", slow, s.id, d)
		}
	}
}

// TestRestartAll checks that limits and counts survive the end of every process, and that the seed
// limits of a new cluster do not return at the restart.
func TestRestartAll(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 16)
	c.seed = "version: 1\nnamespaces:\n  api:\n    limits:\n      first: {rate: 1/s, burst: 1}\n"
	c.run(killLimits)
	slow := c.keysLedBy("n1", "api/slow")[0]
	take(t, c.nodes[2], slow, 5)
	time.Sleep(1200 * time.Millisecond) // at least one checkpoint
	for _, s := range c.nodes {
		s.kill()
	}
	for _, s := range c.nodes {
		c.start(s)
	}
	for _, s := range c.nodes {
		if st := c.awaitReady(s, 15*time.Second); st.Version != 2 {
			t.Errorf("%s came back with version %d of the limits", s.id, st.Version)
		}
		if d := allow(t, s.httpAddr, slow); d.Allowed || d.code != 429 {
			t.Errorf("%v was used up; %s says %+v", slow, s.id, d)
		}
	}
	time.Sleep(500 * time.Millisecond) // time in which a node could change them
	for _, s := range c.nodes {
		if st := c.awaitReady(s, time.Second); st.Version != 2 {
			t.Errorf("%s changed the limits by itself: version %d", s.id, st.Version)
		}
	}
	q, err := client.New(t.Context(), []string{c.nodes[0].grpc}, client.WithMode(client.Remote))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if res, err := q.Allow(t.Context(), "api", "slow", "another", 1); err != nil || !res.Allowed {
		t.Errorf("another key: %+v, %v", res, err)
	}
}
