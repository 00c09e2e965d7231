package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// builds is the policy of the tested accounts.
var builds = account.PolicyKey{Namespace: "ci", Name: "day", Resource: "units"}

// charger charges accounts of all ranges, and records the answers.
type charger struct {
	c      *threeNodes
	policy account.PolicyRef
	mu     sync.Mutex
	calls  int
	load   historyLoad
}

func newCharger(c *threeNodes, limit int64) *charger {
	c.t.Helper()
	n := c.nodes["n1"]
	rule := account.Policy{Default: limit, Limit: limit, Refill: account.Refill{Units: limit, Interval: 86400}}
	id, _, err := n.LoadPolicies(c.t.Context(), "user:me", account.ConfigID{App: "app", Realm: "realm"}, map[account.PolicyKey]account.Policy{builds: rule})
	if err != nil {
		c.t.Fatal(err)
	}
	return &charger{c: c, policy: account.PolicyRef{Config: id, Key: builds}, load: historyLoad{from: recorder.Second(n.clock.Now()) - 1}}
}

// charge takes units from one or two accounts, and retries the request at any node until it is answered.
func (g *charger) charge(rng *rand.Rand, nodes []*Node) {
	g.mu.Lock()
	g.calls++
	name := fmt.Sprint("charge", g.calls)
	g.mu.Unlock()
	var ops []account.Op
	first := rng.IntN(12)
	for i := range 1 + rng.IntN(2) {
		units := 1 + rng.Int64N(3)
		if rng.IntN(4) == 0 {
			units = 5000 // more than an account ever has
		}
		ops = append(ops, account.Op{Account: accountID(fmt.Sprint("b", (first+i)%12)), Policy: &g.policy, Delta: -units})
	}
	for try := rng.IntN(3); g.c.t.Context().Err() == nil; try++ {
		ctx, cancel := context.WithTimeout(g.c.t.Context(), 2*time.Second)
		out, err := nodes[try%len(nodes)].ApplyOps(ctx, account.Caller{By: "user:me"}, name, 0, ops)
		cancel()
		if err == nil && out.Code != account.Held {
			g.note(ops, &out)
			return
		}
		time.Sleep(20 * time.Millisecond) // a closing node refuses at once
	}
}

func (g *charger) note(ops []account.Op, out *account.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range ops {
		u := quota.Units(ops[i].Demand()) * quota.Token
		switch {
		case out.Code == account.Done || out.Code == account.Repeated:
			g.load.attempted, g.load.admitted = g.load.attempted+u, g.load.admitted+u
		case out.Code == account.Failed && out.Results[i].Status == account.Underflow:
			g.load.attempted += u
		case out.Code != account.Failed:
			g.c.t.Errorf("charged: %+v", *out)
		}
	}
}

// during charges through nodes, with four callers, while f runs and for a second more.
func (g *charger) during(nodes []*Node, f func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			for rng := rand.New(rand.NewPCG(i, 1)); ; {
				select {
				case <-done:
					return
				default:
					g.charge(rng, nodes)
				}
			}
		})
	}
	f()
	time.Sleep(time.Second) // real clocks: the load continues for a while after f
	close(done)
	wg.Wait()
}

func (g *charger) without(id quota.NodeID) (nodes []*Node) {
	for _, n := range g.c.running() {
		if n.cfg.Self != id {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// leading returns a node that leads a range.
func (c *threeNodes) leading() quota.NodeID {
	for _, n := range c.running() {
		if n.accountsLeader(0) {
			return n.cfg.Self
		}
	}
	c.t.Fatal("nobody leads range 0")
	return ""
}

// TestHistoryAccounts checks that requests to accounts have a history, as limits do. It stays exact when a
// leader stops in order under load and starts again. A killed leader loses its last block, which then
// names that leader as missing.
func TestHistoryAccounts(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("waits for blocks of ten seconds")
	}
	t.Parallel() // it waits most of the time
	c := newThreeNodes(t, 4, quick)
	g := newCharger(c, 3000)
	name := g.policy.LimitName()
	g.during(c.running(), func() {})
	g.load.await(c, name, "what was charged is told")
	if g.load.admitted == 0 || g.load.admitted == g.load.attempted {
		t.Fatalf("of %d units %d were admitted", g.load.attempted, g.load.admitted)
	}

	stops := c.leading()
	g.during(g.without(stops), func() {
		closed := c.nodes[stops]
		delete(c.nodes, stops)
		if err := closed.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	c.start(stops, nil)
	c.awaitReady(patience)
	g.load.await(c, name, "what was charged while a leader stopped in order is told")

	dies := c.leading()
	killed := c.nodes[dies]
	before := g.load.attempted
	g.load.killed = append(g.load.killed, history.Process{Node: dies, Incarnation: killed.inc})
	g.during(g.without(dies), func() { c.kill(dies) })
	c.start(dies, nil)
	c.awaitReady(patience)
	last := g.load.attempted
	c.eventually(patience, "what was charged before a leader was killed is told, and at most its last block is not", func() error {
		for _, n := range c.running() {
			p, err := g.load.recorded(c, n, name, 1)
			switch {
			case err != nil:
				return err
			case !p.Complete:
				return fmt.Errorf("%s: without %v", n.cfg.Self, p.Missing)
			case p.Attempted > last || p.Admitted > g.load.admitted:
				t.Fatalf("%s tells %d attempted, %d admitted; asked were %d, %d", n.cfg.Self, p.Attempted, p.Admitted, last, g.load.admitted)
			case p.Attempted < before:
				return fmt.Errorf("%s tells %d of %d that were told before", n.cfg.Self, p.Attempted, before)
			}
		}
		return nil
	})
}
