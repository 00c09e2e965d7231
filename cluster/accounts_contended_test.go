package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestContendedTransfers runs many callers on all nodes that move units between the same two accounts
// of two ranges, in both directions. No caller is refused. Callers queue instead of aborting
// each other's transactions, and the waiting callers of a node share an attempt.
func TestContendedTransfers(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2)
	a, b := accountIn(t, 0, 2, 0), accountIn(t, 1, 2, 0)
	mustApply(t, c.nodes["n1"], "", create(a, 1000), create(b, 1000))
	for _, workers := range []int{9, 30} {
		const long = 1500 * time.Millisecond
		entries, attempts := c.entries(2), c.attempts()
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		end := time.Now().Add(long)
		for w := range workers {
			n := c.running()[w%3]
			wg.Go(func() {
				for i := 0; time.Now().Before(end); i++ {
					ops := []account.Op{deposit(a, 1), deposit(b, -1)}
					if (w+i)%2 == 0 {
						ops = []account.Op{deposit(b, 1), deposit(a, -1)}
					}
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					start := time.Now()
					out, err := n.ApplyOps(ctx, account.Caller{By: "user:me"}, fmt.Sprint(workers, " ", w, " ", i), 0, ops)
					cancel()
					if err != nil || out.Code != account.Done && out.Code != account.Repeated {
						t.Errorf("worker %d: %+v, %v", w, out, err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(start))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(took)
		if len(took) == 0 {
			t.Fatal("nothing was done")
		}
		calls := float64(len(took))
		perCall, tries := float64(c.entries(2)-entries)/calls, (c.attempts()-attempts)/calls
		t.Logf("%d workers: %.0f/s, median %v, 99th percentile %v; %.1f entries and %.2f attempts for each",
			workers, calls/long.Seconds(), took[len(took)/2], took[len(took)*99/100], perCall, tries)
		if perCall > 3 || tries > 0.75 {
			t.Errorf("%d workers: %.1f entries and %.2f attempts for each call, want at most 3 and 0.75", workers, perCall, tries)
		}
		if got := balances(t, c.nodes["n1"], false, a, b); got[0]+got[1] != 2000 {
			t.Errorf("balances %v: together 2000 before", got)
		}
	}
}

// entries returns the number of entries in the logs of the ranges so far.
func (c *threeNodes) entries(ranges int) (n uint64) {
	for r := range ranges {
		most := uint64(0)
		for _, node := range c.running() {
			if g := node.host.Group(raftgroup.OfRange(quota.RangeID(r))); g != nil {
				at, _ := g.Progress()
				most = max(most, at)
			}
		}
		n += most
	}
	return n
}

// attempts returns how many attempts at transactions the nodes have made so far.
func (c *threeNodes) attempts() (n float64) {
	for _, node := range c.running() {
		reg, ok := node.cfg.Registry.(prometheus.Gatherer)
		if !ok {
			c.t.Fatalf("%T tells no metrics", node.cfg.Registry)
		}
		families, err := reg.Gather()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "quorate_account_transactions_total" {
				for _, m := range f.GetMetric() {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
