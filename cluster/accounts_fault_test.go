package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// cutOff silently drops all traffic between a node and the others until heal is called.
func (c *threeNodes) cutOff(id quota.NodeID) (heal func()) {
	for _, n := range c.running() {
		n.net.SetFault(func(to quota.NodeID, _ peerv1.Lane) transport.Fault {
			return transport.Fault{Drop: to == id || n.cfg.Self == id}
		})
	}
	return func() {
		for _, n := range c.running() {
			n.net.SetFault(nil)
		}
	}
}

// TestAccountsNeverStale cuts off the leader repeatedly while others write. Every
// read, on any node, shows at least what was answered before the read began, and at most
// what was requested before it ended. The test runs until it has seen enough reads, so a slow machine
// only takes longer.
func TestAccountsNeverStale(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	c := newThreeNodes(t, 1, quick)
	id := accountIn(t, 0, 1, 0)
	mustApply(t, c.nodes["n1"], "", create(id, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var asked, answered, reads, blind atomic.Int64
	enough := func() bool { return answered.Load() >= 20 && reads.Load() >= 100 && blind.Load() > 0 }
	var wg sync.WaitGroup
	wg.Go(func() { // one writer: the balance is the number of its requests
		nodes := c.running()
		for i := 0; ctx.Err() == nil; i++ {
			asked.Add(1)
			for try := i; ; try++ { // retry until it is answered
				call, stop := context.WithTimeout(t.Context(), 400*time.Millisecond)
				out, err := nodes[try%3].ApplyOps(call, account.Caller{By: "me"}, fmt.Sprint("w", i), 0, []account.Op{deposit(id, 1)})
				stop()
				if err == nil && (out.Code == account.Done || out.Code == account.Repeated) {
					if out.Results[0].New != int64(i)+1 {
						t.Errorf("request %d made it %d", i, out.Results[0].New)
					}
					break
				}
			}
			answered.Add(1)
		}
	})
	for _, n := range c.running() {
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					before := answered.Load()
					call, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
					states, _, err := n.GetAccounts(call, []account.ID{id}, false)
					stop()
					if err != nil {
						blind.Add(1)
						continue
					}
					reads.Add(1)
					if got, most := states[0].Balance, asked.Load(); got < before || got > most {
						t.Errorf("%s read %d; %d were answered before, %d asked for", n.cfg.Self, got, before, most)
					}
				}
			})
		}
	}
	for cuts := 0; ctx.Err() == nil && (cuts < 3 || !enough()); {
		time.Sleep(300 * time.Millisecond) // real links and clocks: traffic needs time between two cuts
		leader := quota.NodeID("")
		for _, n := range c.running() {
			if n.accountsLeader(0) {
				leader = n.cfg.Self
			}
		}
		if leader == "" {
			continue
		}
		heal := c.cutOff(leader)
		time.Sleep(2200 * time.Millisecond) // longer than an election: another node leads meanwhile
		heal()
		cuts++
	}
	cancel()
	wg.Wait()
	if !enough() {
		t.Errorf("only %d writes, %d readings, %d without an answer", answered.Load(), reads.Load(), blind.Load())
	}
	t.Logf("%d writes, %d readings, %d without an answer", answered.Load(), reads.Load(), blind.Load())
	if got := balances(t, c.nodes["n1"], false, id)[0]; got != answered.Load() {
		t.Errorf("in the end %d, %d were answered", got, answered.Load())
	}
	c.sameReplicas(0)
}

// accountsLeader reports whether this node serves a range.
func (n *Node) accountsLeader(r quota.RangeID) bool {
	_, _, serving := n.host.Group(raftgroup.OfRange(r)).Leader()
	return serving
}
