package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestAccountsCoordinatorStops stops the coordinator after each step of a transaction.
// The other nodes finish it within seconds, entirely or not at all, and nothing
// stays held or pending.
func TestAccountsCoordinatorStops(t *testing.T) {
	testspeed.Full(t)
	all := []stop{
		{step: "begin"},
		{step: "prepare"},
		{step: "prepare", after: 1},
		{step: "decide"},
		{step: "decided", told: true, done: true},
		{step: "finish", told: true, done: true},
		{step: "finish", after: 1, told: true, done: true},
		{step: "forget", told: true, done: true},
	}
	for stops := range slices.Chunk(all, 4) { // 12 ranges: in clusters of more than 16, some have no accounts
		t.Run(stops[0].step, func(t *testing.T) { stopCoordinators(t, stops) })
	}
}

// stop is where a coordinator stops, and what became of its transaction.
type stop struct {
	step  string
	after int // how many steps of that name are carried out
	told  bool
	done  bool
}

func stopCoordinators(t *testing.T, stops []stop) {
	ranges := 3 * len(stops) // each case has its own ranges
	c := newThreeNodes(t, ranges)
	n := c.nodes["n1"]
	seen, over := make([]atomic.Int64, len(stops)), make([]atomic.Bool, len(stops))
	n.accounts.StopAt(func(step string, home quota.RangeID) bool {
		i := int(home) / 3
		return !over[i].Load() && step == stops[i].step && seen[i].Add(1) > int64(stops[i].after)
	})
	for i, tc := range stops {
		t.Run(fmt.Sprintf("%s%d", tc.step, tc.after), func(t *testing.T) {
			t.Parallel()
			var ids []account.ID
			var ops []account.Op
			for j := range 3 {
				ids = append(ids, accountIn(t, quota.RangeID(3*i+j), ranges, 0))
				ops = append(ops, deposit(ids[j], 1))
				mustApply(t, n, "", create(ids[j], 100))
			}
			out, err := n.ApplyOps(t.Context(), account.Caller{By: "user:me"}, fmt.Sprint("stopped", i), 0, ops)
			if told := err == nil && out.Code == account.Done; told != tc.told {
				t.Errorf("answer %+v, %v", out, err)
			}
			c.eventually(time.Minute, "the step is met", func() error {
				if seen[i].Load() <= int64(tc.after) {
					return errors.New("not yet")
				}
				return nil
			})
			// A reader on another node sees all or nothing as soon as it gets an answer.
			want := "[100 100 100]"
			if tc.done {
				want = "[101 101 101]"
			}
			if got := fmt.Sprint(balances(t, c.nodes["n2"], false, ids...)); got != want {
				t.Errorf("read %s, want %s", got, want)
			}
			over[i].Store(true)
			again := mustApply(t, c.nodes["n3"], fmt.Sprint("stopped", i), ops...)
			if (again.Code == account.Repeated) != tc.done {
				t.Errorf("again: %+v", again)
			}
			if got := fmt.Sprint(balances(t, c.nodes["n2"], false, ids...)); got != "[101 101 101]" {
				t.Errorf("in the end %s", got)
			}
			c.eventually(time.Minute, "nothing is left", func() error { return c.nothingPending() })
		})
	}
}

// nothingPending returns an error while a replica has a pending transaction.
func (c *threeNodes) nothingPending() error {
	for _, n := range c.running() {
		for r, accounts := range n.ranges.Accounts() {
			if list := accounts.View().Pending(10); len(list) > 0 {
				return fmt.Errorf("%s, range %d: %+v", n.cfg.Self, r, list[0])
			}
		}
	}
	return nil
}

// TestAccountsBank moves units between accounts of all ranges from two nodes, and
// reads the accounts all the while. The sum never differs, even when the leader of some ranges is
// killed or cut off.
func TestAccountsBank(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // it mostly waits
	t.Run("killed", func(t *testing.T) { bank(t, func(c *threeNodes) { c.kill("n3") }) })
	t.Run("truncated", func(t *testing.T) {
		bank(t, func(c *threeNodes) {
			for _, id := range []quota.NodeID{"n3", "n1"} {
				heal := c.cutOff(id)
				time.Sleep(1500 * time.Millisecond) // longer than an election
				heal()
				time.Sleep(500 * time.Millisecond) // load after healing
			}
		})
	})
}

func bank(t *testing.T, fault func(c *threeNodes)) {
	const ranges, count, each = 4, 8, 1000
	c := newThreeNodes(t, ranges, quick)
	var ids []account.ID
	var ops []account.Op
	for i := range count {
		ids = append(ids, accountIn(t, quota.RangeID(i%ranges), ranges, i))
		ops = append(ops, create(ids[i], each))
	}
	mustApply(t, c.nodes["n1"], "", ops...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	least := time.After(4 * time.Second) // load before and after the fault; longer on a slow machine
	var moved, unsure, reads atomic.Int64
	var wg sync.WaitGroup
	nodes := c.running()[:2] // the third may be killed
	for w := range 6 {
		n := nodes[w%2]
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 5))
			for i := 0; ctx.Err() == nil; i++ {
				from, to := rng.IntN(count), rng.IntN(count)
				if from == to {
					continue
				}
				amount := rng.Int64N(50)
				call, stop := context.WithTimeout(t.Context(), 8*time.Second)
				out, err := n.ApplyOps(call, account.Caller{By: "me"}, fmt.Sprintf("w%d-%d", w, i), 0, []account.Op{deposit(ids[from], -amount), deposit(ids[to], amount)})
				stop()
				switch {
				case err != nil:
					unsure.Add(1)
				case out.Code == account.Done || out.Code == account.Repeated:
					moved.Add(1)
				case out.Code != account.Held:
					t.Errorf("transfer: %+v", out)
				}
			}
		})
	}
	for _, n := range nodes {
		wg.Go(func() {
			for ctx.Err() == nil || reads.Load() == 0 {
				states, _, err := n.GetAccounts(t.Context(), ids, false)
				if err != nil {
					continue // an election, or too many changes
				}
				reads.Add(1)
				sum := int64(0)
				for _, s := range states {
					sum += s.Balance
				}
				if sum != count*each {
					t.Errorf("a reader on %s saw %d in all, not %d", n.cfg.Self, sum, count*each)
				}
			}
		})
	}
	time.Sleep(time.Second) // load before the fault
	fault(c)
	before := moved.Load()
	<-least
	c.eventually(2*time.Minute, "transfers go on", func() error {
		if now := moved.Load(); now < before+10 {
			return fmt.Errorf("%d, %d at the end of the fault", now, before)
		}
		return nil
	})
	cancel()
	wg.Wait()
	t.Logf("%d transfers, %d not known, %d readings of all", moved.Load(), unsure.Load(), reads.Load())
	c.eventually(10*time.Second, "nothing is left", func() error { return c.nothingPending() })
	sum := int64(0)
	for _, b := range balances(t, c.nodes["n1"], false, ids...) {
		sum += b
	}
	if sum != count*each {
		t.Errorf("%d in all, not %d", sum, count*each)
	}
}

// TestAccountsOnceThroughElections sends each request through two nodes while leaders
// are killed. Each request is applied once.
func TestAccountsOnceThroughElections(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	id := accountIn(t, 0, 2, 0)
	far := accountIn(t, 1, 2, 0)
	mustApply(t, c.nodes["n1"], "", create(id, 0), create(far, 0))
	leader := quota.NodeID(c.nodes["n1"].Status().Ranges[0].Leader)
	var through []*Node
	for _, n := range c.running() {
		if n.cfg.Self != leader {
			through = append(through, n)
		}
	}
	const requests = 60
	var wg sync.WaitGroup
	var answered, repeated atomic.Int64
	for i := range requests {
		ops := []account.Op{deposit(id, 1)}
		if i%6 == 0 { // these all use the same two accounts, so they take turns
			ops = append(ops, deposit(far, 1))
		}
		for _, n := range through {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 25 * time.Millisecond) // sends requests before, during and after the election
				for try, end := 0, time.Now().Add(2*patience); time.Now().Before(end); try++ {
					out, err := n.ApplyOps(t.Context(), account.Caller{By: "me"}, fmt.Sprint("r", i), 0, ops)
					if err == nil && (out.Code == account.Done || out.Code == account.Repeated) {
						if out.Code == account.Repeated {
							repeated.Add(1)
						}
						answered.Add(1)
						return
					}
					if err == nil && out.Code != account.Held {
						t.Errorf("request %d, try %d: %+v", i, try, out)
						return
					}
				}
				t.Errorf("request %d was not answered", i)
			})
		}
	}
	c.eventually(patience, "some are answered before the kill", func() error {
		if n := answered.Load(); n < requests/3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	c.kill(leader)
	wg.Wait()
	if got := fmt.Sprint(balances(t, through[0], false, id, far)); got != fmt.Sprintf("[%d %d]", requests, requests/6) {
		t.Errorf("balances %s after %d requests, each sent twice", got, requests)
	}
	if repeated.Load() < requests {
		t.Errorf("%d answers were repetitions; want %d", repeated.Load(), requests)
	}
}
