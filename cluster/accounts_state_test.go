package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestAccountsSnapshotWhileWriting takes snapshots of all replicas under load, and restarts
// all nodes from them. Nothing that was answered is lost, and all replicas are equal.
func TestAccountsSnapshotWhileWriting(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 1)
	c.eventually(patience, "every node has opened its replica", func() error { // a node is ready as soon as it knows the leader
		for _, n := range c.running() {
			if n.host.Group(raftgroup.OfRange(0)) == nil {
				return fmt.Errorf("%s has not", n.cfg.Self)
			}
		}
		return nil
	})
	var ids []account.ID
	for i := range 40 {
		ids = append(ids, accountIn(t, 0, 1, i))
	}
	want := make([]int64, len(ids))
	write := func(rounds int) {
		var wg sync.WaitGroup
		for i, id := range ids {
			wg.Go(func() {
				for r := range rounds {
					out := mustApply(t, c.running()[(i+r)%3], "", create(id, int64(i*100+r)))
					want[i] = out.Results[0].New
				}
			})
		}
		wg.Wait()
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for _, n := range c.running() {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := n.host.Group(raftgroup.OfRange(0)).Snapshot(t.Context()); err != nil {
					t.Errorf("snapshot on %s: %v", n.cfg.Self, err)
				}
			}
		})
	}
	write(25)
	cancel()
	wg.Wait()
	c.stop()
	for _, id := range c.ids() {
		c.start(id, nil)
	}
	c.awaitReady(20 * time.Second)
	if got := balances(t, c.nodes["n3"], false, ids...); !slices.Equal(got, want) {
		t.Errorf("after a restart %v, want %v", got, want)
	}
	write(2)
	c.sameReplicas(0)
}

// sameReplicas waits until all replicas of a range have applied the same entries, and compares
// their snapshots.
func (c *threeNodes) sameReplicas(r quota.RangeID) {
	c.t.Helper()
	c.eventually(10*time.Second, "all replicas are the same", func() error {
		var first []byte
		for _, n := range c.running() {
			var b bytes.Buffer
			if err := n.ranges.Of(r).Machine.Accounts.View().Write(&b); err != nil {
				c.t.Fatal(err)
			}
			if first == nil {
				first = b.Bytes()
			}
			if !bytes.Equal(first, b.Bytes()) {
				return fmt.Errorf("%s has another of %d bytes, %s one of %d", n.cfg.Self, b.Len(), c.running()[0].cfg.Self, len(first))
			}
		}
		return nil
	})
}

// TestAccountsStale reads from replicas that cannot confirm a leader: only stale reads succeed.
func TestAccountsStale(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	ids := []account.ID{accountIn(t, 0, 2, 0), accountIn(t, 1, 2, 0)}
	mustApply(t, c.nodes["n1"], "", create(ids[0], 3), create(ids[1], 4))
	for _, n := range c.running() {
		c.eventually(5*time.Second, "every replica has it", func() error {
			for r := range quota.RangeID(2) {
				if !(accountsNode{slow{part{n}}}).Current(r) { // else another node answers
					return fmt.Errorf("%s does not vote in range %d yet", n.cfg.Self, r)
				}
			}
			if got := fmt.Sprint(balances(t, n, true, ids...)); got != "[3 4]" {
				return errors.New(got)
			}
			return nil
		})
	}
	c.kill("n1")
	c.kill("n2")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	time.Sleep(time.Second) // the lease ends
	_, _, err := c.nodes["n3"].GetAccounts(ctx, ids, false)
	var unavailable *accounts.UnavailableError
	if !errors.As(err, &unavailable) || unavailable.Unknown || !unavailable.NoLeader() {
		t.Errorf("without a quorum: %v", err)
	}
	if got := fmt.Sprint(balances(t, c.nodes["n3"], true, ids...)); got != "[3 4]" {
		t.Errorf("stale without a quorum: %s", got)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = c.nodes["n3"].ApplyOps(ctx, account.Caller{By: "me"}, "", 0, []account.Op{deposit(ids[0], 1)})
	if !errors.As(err, &unavailable) {
		t.Errorf("written without a quorum: %v", err)
	}
}

func TestAccountsList(t *testing.T) {
	c := newThreeNodes(t, 5)
	var ops []account.Op
	for i := range 60 {
		id := accountID(fmt.Sprintf("%c%02d", 'a'+i%3, i))
		if i%10 == 0 {
			id.Realm = "other"
		}
		ops = append(ops, create(id, int64(i)))
	}
	mustApply(t, c.nodes["n1"], "", ops...)
	for _, n := range c.running() {
		var names []string
		var after account.ID
		for {
			page, err := n.ListAccounts(t.Context(), account.Filter{App: "app", Realm: "realm", NamePrefix: "b"}, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, s := range page {
				names = append(names, s.ID.Name)
				after = s.ID
			}
		}
		if !slices.IsSorted(names) || len(names) != 18 || strings.Join(names, "")[:3] != "b01" {
			t.Errorf("on %s: %v", n.cfg.Self, names)
		}
	}
	for realm := range 12 { // one account each, spread over the ranges
		id := account.ID{App: "app", Realm: fmt.Sprintf("realm%02d", realm), Name: "one", Resource: "units"}
		mustApply(t, c.nodes["n1"], "", create(id, 1))
	}
	if _, _, err := c.nodes["n1"].LoadPolicies(t.Context(), "", account.ConfigID{App: "app", Realm: "realm03"}, map[account.PolicyKey]account.Policy{{Name: "x", Resource: "units"}: {Limit: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.running() {
		var realms []string
		var after account.Realm
		for {
			page, err := n.ListRealms(t.Context(), after, 5)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				realms = append(realms, fmt.Sprintf("%s %v %d", r.Name, r.Accounts, r.Configs))
				after = r
			}
		}
		if !slices.IsSorted(realms) || len(realms) != 14 || realms[1] != "realm true 0" || n == c.nodes["n1"] && realms[5] != "realm03 true 1" {
			t.Errorf("realms on %s: %v", n.cfg.Self, realms)
		}
	}
	placed := account.ID{App: "app", Realm: "realm", Namespace: "@team|ci", Name: "x", Resource: "units"}
	other := placed
	other.Name, other.Namespace = "y", "@team|cd"
	mustApply(t, c.nodes["n2"], "", create(placed, 1), create(other, 2))
	if a, b := accounts.RangeOf(placed, 5), accounts.RangeOf(other, 5); a != b {
		t.Errorf("placed together, in ranges %d and %d", a, b)
	}
	page, err := c.nodes["n3"].ListAccounts(t.Context(), account.Filter{App: "app", Realm: "realm", Namespace: &placed.Namespace}, account.ID{}, 10)
	if err != nil || len(page) != 1 || page[0].ID != placed {
		t.Errorf("of a placed namespace: %+v, %v", page, err)
	}
}

func TestAccountsHistoryAndPolicies(t *testing.T) {
	c := newThreeNodes(t, 3)
	key := account.PolicyKey{Namespace: "ns", Name: "daily", Resource: "units"}
	config, created, err := c.nodes["n1"].LoadPolicies(t.Context(), "user:op", account.ConfigID{App: "app", Realm: "realm"}, map[account.PolicyKey]account.Policy{
		key: {Default: 10, Limit: 20, Refill: account.Refill{Units: 1, Interval: 86400}},
	})
	if err != nil || !created {
		t.Fatal(config, created, err)
	}
	ref := &account.PolicyRef{Config: config, Key: key}
	unknown := &account.PolicyRef{Config: config, Key: account.PolicyKey{Namespace: "ns", Name: "none", Resource: "units"}}
	for r := range quota.RangeID(3) {
		id := accountIn(t, r, 3, 0)
		for i, n := range c.running() {
			out := mustApply(t, n, fmt.Sprintf("q%d-%d", r, i), account.Op{Account: id, Policy: ref, Delta: -2})
			if want := int64(8 - 2*i); out.Results[0].New != want {
				t.Errorf("on %s: %+v, want %d", n.cfg.Self, out, want)
			}
			out, err := n.ApplyOps(t.Context(), account.Caller{By: "user:me"}, "", 0, []account.Op{{Account: id, Policy: unknown, Delta: -1}})
			if err != nil || out.Code != account.Failed || out.Results[0].Status != account.UnknownPolicy {
				t.Errorf("of no such policy: %+v, %v", out, err)
			}
		}
		for _, n := range c.running() {
			s, err := n.AccountHistory(t.Context(), id)
			if err != nil || len(s.History) != 3 || s.History[0].RequestID != fmt.Sprintf("q%d-2", r) || s.History[0].By != "user:me" || s.History[2].New != 8 {
				t.Errorf("on %s: %+v, %v", n.cfg.Self, s, err)
			}
			if s.Policy == nil || *s.Policy != *ref || s.Rule == nil || s.Rule.Limit != 20 || s.Balance != 4 {
				t.Errorf("on %s: %+v", n.cfg.Self, s)
			}
		}
	}
}
