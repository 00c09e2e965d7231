package cluster

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestKill checks that after a kill the other nodes go on deciding, and that no bucket is refilled.
func TestKill(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 6, quick)
	soft, hard, busy := limit("soft", 30, quota.Soft), limit("hard", 30, quota.Hard), limit("busy", 1_000_000, quota.Soft)
	busy.Rate = quota.Rate{Tokens: 1_000_000, Per: time.Second}
	c.apply(soft, hard, busy)
	const victim = "n2"
	var keys []quota.Key
	for _, l := range []quota.LimitName{soft.LimitName, hard.LimitName} {
		for i := range 3 {
			k := c.keyLedBy(l, victim, fmt.Sprintf("k%d.", i))
			for _, n := range c.running() {
				use(t, n, k, 10)
			}
			c.awaitRemaining(k, 0)
			keys = append(keys, k)
		}
	}
	c.awaitLogged(keys...)
	fresh := c.keyLedBy(soft.LimitName, victim, "fresh")
	for _, n := range c.running() { // not checkpointed, but known to the members
		use(t, n, fresh, 10)
	}
	c.awaitRemaining(fresh, 0)
	c.eventually(time.Second, "members know the level", func() error {
		for _, n := range c.running() {
			if d := n.Check(fresh, 1); d.Allowed {
				return fmt.Errorf("%s allows", n.cfg.Self)
			}
		}
		return nil
	})
	keys = append(keys, fresh)

	hot := c.keyLedBy(busy.LimitName, victim, "hot")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	gaps := make(map[quota.NodeID]time.Duration)
	late := lateness()
	var mu sync.Mutex
	for _, n := range c.running() {
		if n.cfg.Self == victim {
			continue
		}
		wg.Go(func() {
			var gap time.Duration // of one check: how late the next begins depends on the machine
			refused := 0
			for {
				select {
				case <-stop:
					mu.Lock()
					gaps[n.cfg.Self] = gap
					mu.Unlock()
					if refused > 0 {
						t.Errorf("%s refused %d checks far below the limit", n.cfg.Self, refused)
					}
					return
				case <-time.After(time.Millisecond):
				}
				began := time.Now()
				if !n.Check(hot, 1).Allowed {
					refused++
				}
				gap = max(gap, time.Since(began))
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // load before the kill
	began := time.Now()
	c.kill(victim)
	c.eventually(5*time.Second, "the survivors lead all ranges", func() error {
		for _, n := range c.running() {
			st := n.Status()
			if err := led(st); err != nil {
				return fmt.Errorf("%s: %w", st.Node, err)
			}
			for _, r := range st.Ranges {
				if r.Leader == victim {
					return fmt.Errorf("%s: range %d is led by %q", st.Node, r.Id, r.Leader)
				}
			}
		}
		return nil
	})
	took := time.Since(began)
	close(stop)
	wg.Wait()
	stalled := late()
	t.Logf("ready again %v after the kill; longest check %v; the machine stalled for %v", took.Round(time.Millisecond), gaps, stalled)
	// A stall may hit every step of an election: three rounds between nodes, and a write.
	if most := 2*time.Second + 20*stalled; took > most {
		t.Errorf("the ranges have leaders again after %v; at most %v", took, most)
	}
	for id, gap := range gaps {
		if gap > 250*time.Millisecond+stalled {
			t.Errorf("%s did not decide for %v", id, gap)
		}
	}
	for _, n := range c.running() {
		for _, k := range keys {
			c.stillUsedUp(n, k, "after the failover")
		}
	}
	time.Sleep(500 * time.Millisecond) // a leader that has forgotten the levels would grant in this time
	for _, n := range c.running() {
		for _, k := range keys {
			c.stillUsedUp(n, k, "half a second later")
		}
	}
	c.start(victim, nil)
	c.awaitReady(10 * time.Second)
	if v := c.nodes[victim].Limits().Version; v != 1 {
		t.Errorf("after its return the node has version %d of the limits", v)
	}
	for _, k := range keys[3:6] { // hard limits are exact even on a node without state
		if d := c.nodes[victim].Check(k, 1); d.Allowed {
			t.Errorf("%v was used up; the node that came back says %+v", k, d)
		}
	}
}

// stillUsedUp checks that nothing passes. A node that has not heard of a soft limit may guess.
func (c *threeNodes) stillUsedUp(n *Node, k quota.Key, when string) {
	c.t.Helper()
	d := n.Check(k, 1)
	if d.Allowed && (k.Limit != "soft" || d.Why != quota.WhyEstimate) {
		c.t.Errorf("%v was used up; %s %s says %+v", k, when, n.cfg.Self, d)
	}
}

// TestCutOff checks that a node that cannot reach the others knows no leaders, says so, and says that
// it decides. The others work without it.
func TestCutOff(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 3, quick)
	lone := c.nodes["n3"]
	cut := func(to quota.NodeID) func(quota.NodeID, peerv1.Lane) transport.Fault {
		return func(id quota.NodeID, _ peerv1.Lane) transport.Fault {
			return transport.Fault{Cut: to == "" || id == to}
		}
	}
	c.nodes["n1"].net.SetFault(cut("n3"))
	c.nodes["n2"].net.SetFault(cut("n3"))
	lone.net.SetFault(cut(""))
	c.eventually(5*time.Second, "the lone node knows no leaders", func() error {
		st := lone.Status()
		for _, r := range st.Ranges {
			if r.Leader != "" {
				return fmt.Errorf("range %d: %s", r.Id, r.Leader)
			}
		}
		if !st.Ready || st.Leaderless == "" {
			return fmt.Errorf("ready %t (%s), leaderless %q", st.Ready, st.Reason, st.Leaderless)
		}
		return nil
	})
	c.eventually(5*time.Second, "the others lead all ranges", func() error {
		for _, id := range []quota.NodeID{"n1", "n2"} {
			st := c.nodes[id].Status()
			if err := led(st); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			for _, r := range st.Ranges {
				if r.Leader == "n3" {
					return fmt.Errorf("%s: range %d is led by %q", id, r.Id, r.Leader)
				}
			}
		}
		return nil
	})
	for _, n := range c.running() {
		n.net.SetFault(nil)
	}
	healed := time.Now()
	c.awaitReady(10 * time.Second)
	t.Logf("ready %v after the healing", time.Since(healed).Round(time.Millisecond))
}

// TestRestartAll checks that limits and levels survive the end of all processes.
func TestRestartAll(t *testing.T) {
	testspeed.Full(t)
	for _, how := range []string{"close", "kill"} {
		t.Run(how, func(t *testing.T) {
			c := newThreeNodes(t, 4)
			soft, hard := limit("soft", 5, quota.Soft), limit("hard", 5, quota.Hard)
			c.apply(soft, hard)
			var keys []quota.Key
			for _, l := range []quota.LimitName{soft.LimitName, hard.LimitName} {
				for i, n := range c.running() {
					k := quota.Key{LimitName: l, Key: strconv.Itoa(i)}
					use(t, n, k, 5)
					c.awaitRemaining(k, 0)
					keys = append(keys, k)
				}
			}
			if how == "close" { // writes a checkpoint of its own
				c.stop()
			} else {
				c.awaitLogged(keys...)
				for _, id := range c.ids() {
					c.kill(id)
				}
			}
			for _, id := range c.ids() {
				c.start(id, nil)
			}
			c.awaitReady(15 * time.Second)
			for _, n := range c.running() {
				if got := n.Limits(); got.Version != 1 || len(got.All()) != 2 {
					t.Errorf("%s has version %d of the limits: %v", n.cfg.Self, got.Version, got.All())
				}
			}
			for _, k := range keys {
				if k.Limit != "hard" {
					// A node without state admits the first check and then learns
					// the level: the leader books the check as debt.
					c.running()[0].Check(k, 1)
					c.awaitRemaining(k, 0)
					time.Sleep(50 * time.Millisecond) // the answer to the report arrives; another refused check would report again
				}
				for i, n := range c.running() {
					if i > 0 && k.Limit != "hard" {
						continue
					}
					if d := n.Check(k, 1); d.Allowed {
						t.Errorf("%v was used up; after the restart %s says %+v", k, n.cfg.Self, d)
					}
				}
			}
		})
	}
}

// TestCloseIsSafe closes nodes at odd moments.
func TestCloseIsSafe(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4)
	c.apply(limit("a", 1_000_000, quota.Soft))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, n := range c.running() {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				n.Check(key("test", "a", strconv.Itoa(i%1000)), 1)
				if i%100 == 0 {
					n.Status()
					time.Sleep(time.Millisecond) // leaves the CPU to the nodes
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond) // load before the end
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, n := range c.running() {
		if err := n.Close(ended); err != nil { // no time to hand over
			t.Errorf("close: %v", err)
		}
		if err := n.Close(ended); err != nil {
			t.Errorf("second close: %v", err)
		}
		if err := n.Kill(); err != nil {
			t.Errorf("kill after close: %v", err)
		}
		n.Check(key("test", "a", "late"), 1)
		n.Status()
		if _, _, err := n.SetLimits(ended, nil); err == nil {
			t.Error("a closed node took limits")
		}
	}
	close(stop)
	wg.Wait()
}
