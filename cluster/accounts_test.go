package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

func accountID(name string) account.ID {
	return account.ID{App: "app", Realm: "realm", Namespace: "ns", Name: name, Resource: "units"}
}

// deposit adds to an account, without bounds, and creates it if it is missing.
func deposit(id account.ID, delta int64) account.Op {
	return account.Op{Account: id, RelativeTo: account.Balance, Delta: delta, Options: account.IgnorePolicyBounds}
}

// create creates an account with a balance.
func create(id account.ID, balance int64) account.Op {
	return account.Op{Account: id, RelativeTo: account.Zero, Delta: balance, Options: account.IgnorePolicyBounds}
}

// accountIn returns the i-th account of a range.
func accountIn(t testing.TB, r quota.RangeID, ranges, i int) account.ID {
	t.Helper()
	for n := range 100_000 {
		if id := accountID(fmt.Sprintf("r%d-%d-%d", r, i, n)); accounts.RangeOf(id, ranges) == r {
			return id
		}
	}
	t.Fatalf("no account is in range %d", r)
	return account.ID{}
}

// unnamed numbers the requests of mustApply that have no id.
var unnamed atomic.Int64

// mustApply applies operations through a node. It gives a request without an id one, so that it can
// be retried and a busy machine only takes longer.
func mustApply(t testing.TB, n *Node, requestID string, ops ...account.Op) account.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a busy machine only takes longer
	defer cancel()
	if requestID == "" {
		requestID = fmt.Sprint("unnamed ", unnamed.Add(1))
	}
	out, err := n.ApplyOps(ctx, account.Caller{By: "user:me"}, requestID, 0, ops)
	if err != nil {
		t.Fatalf("apply on %s: %v", n.cfg.Self, err)
	}
	if out.Code != account.Done && out.Code != account.Repeated {
		t.Fatalf("apply on %s: %+v", n.cfg.Self, out)
	}
	return out
}

func balances(t testing.TB, n *Node, stale bool, ids ...account.ID) []int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	states, _, err := n.GetAccounts(ctx, ids, stale)
	if err != nil {
		t.Fatalf("get on %s: %v", n.cfg.Self, err)
	}
	out := make([]int64, len(states))
	for i, s := range states {
		if s.ID != ids[i] {
			t.Fatalf("asked for %v, got %v", ids[i], s.ID)
		}
		out[i] = s.Balance
	}
	return out
}

func TestAccountsFromEveryNode(t *testing.T) {
	c := newThreeNodes(t, 4)
	for r := range quota.RangeID(4) {
		// Without a request id, a request that was not answered in time is not repeated: use another account.
		i := 0
		c.eventually(patience, fmt.Sprintf("an account of range %d is counted on all nodes", r), func() error {
			i++
			return c.depositEverywhere(accountIn(t, r, 4, i))
		})
	}
}

// depositEverywhere adds to a new account through every node, and reads it on every node
// after each deposit. Its error is an *accounts.UnavailableError.
func (c *threeNodes) depositEverywhere(id account.ID) error {
	mustApply(c.t, c.nodes["n1"], "create "+id.Name, create(id, 0))
	want := int64(0)
	for round := range 3 {
		for _, n := range c.running() {
			out, err := n.ApplyOps(c.t.Context(), account.Caller{By: "user:me"}, "", 0, []account.Op{deposit(id, 5)})
			if unavailable := (*accounts.UnavailableError)(nil); errors.As(err, &unavailable) {
				return fmt.Errorf("round %d on %s: %w", round, n.cfg.Self, err)
			}
			if want += 5; err != nil || out.Code != account.Done || out.Results[0].New != want || out.Results[0].Previous != want-5 {
				c.t.Fatalf("round %d on %s: %+v, %v, want a balance of %d", round, n.cfg.Self, out, err, want)
			}
			for _, reader := range c.running() {
				if got := balances(c.t, reader, false, id)[0]; got != want {
					c.t.Errorf("read on %s after %s: %d, want %d", reader.cfg.Self, n.cfg.Self, got, want)
				}
			}
		}
	}
	return nil
}

func TestAccountsAcrossRanges(t *testing.T) {
	c := newThreeNodes(t, 4)
	var ids []account.ID
	var ops []account.Op
	for r := range quota.RangeID(4) {
		ids = append(ids, accountIn(t, r, 4, 0))
		ops = append(ops, create(ids[r], int64(r)*10))
	}
	for i, n := range c.running() {
		out := mustApply(t, n, "", ops...)
		for j, r := range out.Results {
			if r.New != int64(j)*10 || r.Created != (i == 0) {
				t.Errorf("on %s, operation %d: %+v", n.cfg.Self, j, r)
			}
		}
		if got := fmt.Sprint(balances(t, n, false, ids...)); got != "[0 10 20 30]" {
			t.Errorf("on %s: %s", n.cfg.Self, got)
		}
	}
	move := []account.Op{deposit(ids[3], -7), deposit(ids[1], 7)}
	first := mustApply(t, c.nodes["n1"], "move", move...)
	for _, n := range c.running() {
		again := mustApply(t, n, "move", move...)
		if again.Code != account.Repeated || fmt.Sprint(again.Results) != fmt.Sprint(first.Results) || again.At != first.At {
			t.Errorf("repeated on %s: %+v, first %+v", n.cfg.Self, again, first)
		}
		out, err := n.ApplyOps(t.Context(), account.Caller{By: "user:me"}, "move", 0, []account.Op{deposit(ids[3], -8), deposit(ids[1], 8)})
		if err != nil || out.Code != account.Mismatched {
			t.Errorf("other operations under the same id: %+v, %v", out, err)
		}
	}
	if got := fmt.Sprint(balances(t, c.nodes["n2"], false, ids...)); got != "[0 17 20 23]" {
		t.Errorf("in the end: %s", got)
	}
	// A request that fails leaves no change.
	out, err := c.nodes["n3"].ApplyOps(t.Context(), account.Caller{By: "user:me"}, "fails", 0, []account.Op{
		deposit(ids[0], 1), deposit(ids[1], 1), {Account: accountIn(t, 2, 4, 9), Delta: 1},
	})
	if err != nil || out.Code != account.Failed || out.Results[2].Status == account.Success || out.Results[0].New != 1 {
		t.Errorf("a missing account: %+v, %v", out, err)
	}
	if got := fmt.Sprint(balances(t, c.nodes["n2"], false, ids...)); got != "[0 17 20 23]" {
		t.Errorf("after a failure: %s", got)
	}
}

// TestAccountsEnd kills a node while calls wait. No call hangs.
func TestAccountsEnd(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 1)
	id := accountIn(t, 0, 1, 0)
	mustApply(t, c.nodes["n1"], "", create(id, 0))
	n := c.nodes["n1"]
	c.kill("n2")
	c.kill("n3")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := n.ApplyOps(ctx, account.Caller{By: "me"}, "", 0, []account.Op{deposit(id, 1)})
		done <- err
	}()
	time.Sleep(50 * time.Millisecond) // lets the call start, which the test cannot observe
	c.kill("n1")
	select {
	case err := <-done:
		if err == nil {
			t.Error("it was applied without a quorum")
		}
	case <-time.After(patience):
		t.Error("the call outlives the node")
	}
}

// TestRangeOfGolden pins the mapping of accounts to ranges: a change would lose every account of every
// existing cluster.
func TestRangeOfGolden(t *testing.T) {
	for id, want := range map[account.ID]quota.RangeID{
		accountID("a"): 144,
		accountID("b"): 80,
		{App: "app", Realm: "realm", Namespace: "@team|ci", Name: "a", Resource: "units"}:                  48,
		{App: "app", Realm: "realm", Namespace: "@team", Identity: "user:x", Name: "b", Resource: "other"}: 48,
	} {
		if got := accounts.RangeOf(id, 256); got != want {
			t.Errorf("%+v is in range %d, want %d", id, got, want)
		}
	}
}

// TestRangesWithAccounts checks that at most 16 ranges have accounts, which share entries there, and
// that these are spread over all.
func TestRangesWithAccounts(t *testing.T) {
	for _, ranges := range []int{1, 3, 16, 17, 64, 100, 256} {
		has := map[quota.RangeID]bool{}
		for i := range 2000 {
			has[accounts.RangeOf(accountID(strconv.Itoa(i)), ranges)] = true
		}
		want := min(ranges, 16)
		if len(has) != want {
			t.Errorf("of %d ranges, %d have accounts; want %d", ranges, len(has), want)
		}
		list := slices.Sorted(maps.Keys(has))
		for i, r := range list[1:] {
			if gap := int(r - list[i]); gap < ranges/want || gap > ranges/want+1 {
				t.Errorf("of %d ranges, %v have accounts: between %d and %d there are %d", ranges, list, list[i], r, gap-1)
			}
		}
	}
}

// TestStaleReadElsewhere checks that a node without a replica of an account's range answers stale
// reads too.
func TestStaleReadElsewhere(t *testing.T) {
	const ranges = 3
	c := newThreeNodes(t, ranges, func(cfg *Config) { cfg.Replicas = 1 })
	nodes, without := c.running(), 0
	for r := range quota.RangeID(ranges) {
		id := accountIn(t, r, ranges, 0)
		mustApply(t, nodes[0], "", create(id, 7))
		for _, n := range nodes {
			if n.host.Group(raftgroup.OfRange(r)) == nil {
				without++
			}
			for _, stale := range []bool{false, true} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				states, _, err := n.GetAccounts(ctx, []account.ID{id}, stale)
				cancel()
				if err != nil || states[0].Balance != 7 {
					t.Fatalf("range %d on %s, stale %v: %+v, %v; want a balance of 7", r, n.cfg.Self, stale, states, err)
				}
			}
		}
	}
	if without != 2*ranges {
		t.Errorf("%d times a node had no replica; want %d", without, 2*ranges)
	}
}
