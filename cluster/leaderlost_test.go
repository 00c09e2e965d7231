package cluster

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/shard"
)

// TestRefusalsWithoutLeader checks the refusals of a hard limit that is nearly full while its range has no leader. They
// have the reason failover, and a retry time about when the election is over, or later if it takes longer. Around the
// election, a node that learns of the new leader before it gets a grant from it may briefly refuse as over the limit:
// fewer than one in a hundred checks.
func TestRefusalsWithoutLeader(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 6, quick)
	l := limit("hard", 1000, quota.Hard)
	l.Decide = quota.Locally // asked for more than it holds, a node does not ask the leader
	c.apply(l)
	k := c.keyLedBy(l.LimitName, "n1", "k")
	r := shard.Of(k, c.ranges)
	for _, n := range c.running() {
		use(t, n, k, 1)
	}
	c.awaitRemaining(k, 997)
	without := map[*Node]time.Time{} // since when the node knows no leader
	asked, over := 0, 0
	// ask asks for more than a node holds, and returns how long the node has known no leader.
	ask := func(n *Node) (quota.Decision, time.Duration) {
		before, start := n.routes.leader(r), time.Now()
		d := n.Check(k, 900)
		if asked++; !d.Allowed && d.Why == quota.WhyOverLimit {
			over++
		}
		switch {
		case before != "" || n.routes.leader(r) != "":
			delete(without, n)
			return d, 0
		case without[n].IsZero():
			without[n] = start
		}
		return d, start.Sub(without[n])
	}
	var kills sync.WaitGroup
	defer kills.Wait()
	kill := func(id quota.NodeID) {
		n := c.nodes[id]
		delete(c.nodes, id)
		kills.Go(func() { // takes a while, and the others see the end at once
			if err := n.Kill(); err != nil {
				t.Errorf("kill %s: %v", id, err)
			}
		})
	}

	kill("n1")
	seen := 0
	c.eventually(patience, "there is a leader again", func() error {
		var err error
		for _, n := range c.running() {
			d, gone := ask(n)
			if gone > 20*time.Millisecond { // decisions learn of the loss a moment after the status
				if seen++; d.Why != quota.WhyFailover || d.RetryAfter < n.cfg.Sync {
					t.Fatalf("%s without a leader for %v: %v, retry after %v", n.cfg.Self, gone, d.Why, d.RetryAfter)
				}
			}
			if id := n.routes.leader(r); id == "" || id == "n1" {
				err = fmt.Errorf("%s: %q leads", n.cfg.Self, id)
			}
		}
		return err
	})
	if seen == 0 {
		t.Error("the election left no time to look at")
	}

	kill("n2")
	c.eventually(patience, "n3 is alone for two seconds", func() error {
		d, gone := ask(c.nodes["n3"])
		if gone > 500*time.Millisecond && (d.Why != quota.WhyFailover && d.Why != quota.WhyCutOff || d.RetryAfter < 400*time.Millisecond) {
			t.Fatalf("without a leader for %v: %v, retry after %v", gone, d.Why, d.RetryAfter)
		}
		if gone < 2*time.Second {
			return errors.New("not yet")
		}
		return nil
	})
	if t.Logf("%d of %d checks were refused as over the limit", over, asked); over*100 > asked {
		t.Errorf("%d of %d checks were refused as over the limit", over, asked)
	}
}
