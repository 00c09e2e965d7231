package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

func (c *threeNodes) loadPolicies(n *Node, version string, count int) {
	c.t.Helper()
	id, created, err := n.LoadPolicies(c.t.Context(), "user:ops@example.com", builderConfig(version), builderPolicies(count))
	if err != nil || !created || id != builderConfig(version) {
		c.t.Fatalf("load %s: %v, %v, %v", version, id, created, err)
	}
}

// mustResolve checks that a node finds a policy without delay.
func (c *threeNodes) mustResolve(n *Node, version, name string) {
	c.t.Helper()
	r := builderPolicy(version, name)
	got, err := n.Resolve(c.t.Context(), []account.PolicyRef{r})
	if err != nil {
		c.t.Fatalf("%s: resolve %v: %v", n.cfg.Self, r, err)
	}
	if want := builderPolicies(20)[r.Key]; got[0] == nil || *got[0] != want {
		c.t.Fatalf("%s: %v is %+v; want %+v", n.cfg.Self, r, got[0], want)
	}
}

// TestPoliciesAtOnce checks, repeatedly, that a config loaded through one node works on all others with
// the next call.
func TestPoliciesAtOnce(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2)
	nodes := c.running()
	for i := range 30 {
		v := "#" + strconv.Itoa(i)
		c.loadPolicies(nodes[i%3], v, 3)
		var wg sync.WaitGroup
		for _, n := range nodes {
			for range 5 { // concurrent callers share one query
				wg.Go(func() {
					got, err := n.Resolve(t.Context(), []account.PolicyRef{builderPolicy(v, "p1"), builderPolicy(v, "p9")})
					if err != nil || got[0] == nil || got[0].Limit != 11 || got[1] != nil {
						t.Errorf("%s: %s: %v, %v", n.cfg.Self, v, got, err)
					}
				})
			}
		}
		wg.Wait()
	}
	for _, n := range nodes {
		list, err := n.ListPolicies(t.Context(), "builds", "project:test", "", 100)
		if err != nil || len(list) != 30 {
			t.Errorf("%s lists %d configs, %v", n.cfg.Self, len(list), err)
		}
		got, err := n.Policies(t.Context(), builderConfig("#29"))
		if err != nil || got == nil || !reflect.DeepEqual(got.Policies, builderPolicies(3)) || got.By != "user:ops@example.com" || got.At == 0 {
			t.Errorf("%s has %+v, %v", n.cfg.Self, got, err)
		}
		if got, err := n.Policies(t.Context(), builderConfig("#none")); got != nil || err != nil {
			t.Errorf("%s has %+v, %v", n.cfg.Self, got, err)
		}
		id, created, err := n.LoadPolicies(t.Context(), "", builderConfig("#7"), builderPolicies(1))
		if id != builderConfig("#7") || created || err != nil {
			t.Errorf("%s: loaded again: %v, %v, %v", n.cfg.Self, id, created, err)
		}
	}
	hash := account.HashPolicies(builderPolicies(4))
	for i, n := range nodes { // the first one stores it, under its hash
		id, created, err := n.LoadPolicies(t.Context(), "", builderConfig(""), builderPolicies(4))
		if id != builderConfig(hash) || created != (i == 0) || err != nil {
			t.Errorf("%s: loaded without a version: %v, %v, %v; want %s", n.cfg.Self, id, created, err, hash)
		}
	}
	c.purgeAndLook(nodes)
}

// purgeAndLook purges configs, and checks that no node has a config once its purge has been answered.
func (c *threeNodes) purgeAndLook(nodes []*Node) {
	c.t.Helper()
	for i := range 20 {
		id := builderConfig("#" + strconv.Itoa(i))
		began := time.Now()
		was, err := nodes[i%3].PurgePolicies(c.t.Context(), id)
		inTime := time.Since(began) < min(peercall.Limit, control.SpreadWait) // otherwise an answer was lost, or given before the others had the change
		if err != nil || !was && inTime {
			c.t.Fatalf("purge %v: %v, %v", id, was, err)
		}
		for _, n := range nodes {
			if inTime && n.meta.Policies.Load().Find(id) != nil {
				c.t.Errorf("%s still has %v", n.cfg.Self, id)
			}
		}
	}
	if was, err := nodes[0].PurgePolicies(c.t.Context(), builderConfig("#1")); was || err != nil {
		c.t.Errorf("purged twice: %v, %v", was, err)
	}
}

// TestPoliciesOutliveLeaders loads configs while leaders of the meta group
// are killed. Every acknowledged config persists, also after a restart of all nodes.
func TestPoliciesOutliveLeaders(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	loaded := 0
	for round := range 3 {
		victim := quota.NodeID(c.running()[0].Status().MetaLeader)
		c.loadPolicies(c.others()[0], "#"+strconv.Itoa(loaded), 3)
		loaded++
		c.kill(victim)
		c.loadPolicies(c.running()[round%2], "#"+strconv.Itoa(loaded), 3) // during the election
		loaded++
		for _, n := range c.running() {
			for i := range loaded {
				c.mustResolve(n, "#"+strconv.Itoa(i), "p2")
			}
		}
		c.start(victim, nil)
		c.awaitReady(15 * time.Second)
		c.mustResolve(c.nodes[victim], "#"+strconv.Itoa(loaded-1), "p2")
	}
	for _, id := range c.ids() {
		c.kill(id)
	}
	for _, id := range c.ids() {
		c.start(id, nil)
	}
	c.awaitReady(15 * time.Second)
	for _, n := range c.running() {
		for i := range loaded {
			c.mustResolve(n, "#"+strconv.Itoa(i), "p1")
		}
	}
}

// TestLoadMeetsElections makes all nodes load the same version, each with different policies, while
// the leadership of the meta group moves. One node creates the version, and all nodes find
// that node's policies at once.
func TestLoadMeetsElections(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	moved, stop := c.moveMetaLeader(50 * time.Millisecond)
	const least, most = 25, 250
	for i := 0; i < least || moved.Load() == 0 && i < most; i++ {
		c.race("#" + strconv.Itoa(i))
	}
	stop()
}

// race loads a version through all nodes at the same time.
func (c *threeNodes) race(version string) {
	c.t.Helper()
	nodes := c.running()
	made := make([]bool, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			var err error
			mine := map[account.PolicyKey]account.Policy{builderPolicy("", "p").Key: {Limit: int64(i)}}
			if _, made[i], err = n.LoadPolicies(c.t.Context(), "", builderConfig(version), mine); err != nil {
				c.t.Errorf("%s: load %s: %v", n.cfg.Self, version, err)
			}
			got, err := n.Resolve(c.t.Context(), []account.PolicyRef{builderPolicy(version, "p")})
			if err != nil || got[0] == nil || made[i] && got[0].Limit != int64(i) {
				c.t.Errorf("%s: %s right after the load: %v, %v", n.cfg.Self, version, got, err)
			}
		})
	}
	wg.Wait()
	winner := slices.Index(made, true)
	if winner < 0 || slices.Contains(made[winner+1:], true) {
		c.t.Fatalf("%s: created by %v; want one", version, made)
	}
	for _, n := range nodes {
		got, err := n.Resolve(c.t.Context(), []account.PolicyRef{builderPolicy(version, "p")})
		if err != nil || got[0] == nil || got[0].Limit != int64(winner) {
			c.t.Errorf("%s: %s is %v, %v; want that of node %d", n.cfg.Self, version, got, err, winner)
		}
	}
}

// TestPoliciesRestored checks that a node that was down while the log was truncated gets the
// configs from a snapshot.
func TestPoliciesRestored(t *testing.T) {
	c := newThreeNodes(t, 2, quick)
	c.loadPolicies(c.running()[0], "#old", 3)
	away := c.others()[0].cfg.Self
	c.kill(away)
	c.loadPolicies(c.running()[0], "#new", 20)
	if was, err := c.running()[1].PurgePolicies(t.Context(), builderConfig("#old")); !was || err != nil {
		t.Fatalf("purge: %v, %v", was, err)
	}
	for _, n := range c.running() {
		if err := n.host.Group(raftgroup.MetaGroup).Snapshot(t.Context()); err != nil {
			t.Fatalf("snapshot: %v", err)
		}
	}
	c.start(away, nil)
	c.awaitReady(15 * time.Second)
	c.mustResolve(c.nodes[away], "#new", "p19")
	c.eventually(5*time.Second, "the purge has reached the node", func() error {
		if c.nodes[away].meta.Policies.Load().Find(builderConfig("#old")) != nil {
			return errors.New("it has #old")
		}
		return nil
	})
}

// TestMissingNeedsALeader checks that without a leader no policy is reported as missing.
func TestMissingNeedsALeader(t *testing.T) {
	c := newThreeNodes(t, 2, quick)
	c.loadPolicies(c.running()[0], "#1", 3)
	alone := c.running()[0]
	c.mustResolve(alone, "#1", "p0")
	for _, n := range c.running()[1:] {
		c.kill(n.cfg.Self)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	got, err := alone.Resolve(ctx, []account.PolicyRef{builderPolicy("#1", "p0"), builderPolicy("#2", "p0")})
	if no := (*quota.NoLeaderError)(nil); !errors.As(err, &no) {
		t.Errorf("cut off: %v, %v; want a NoLeaderError", got, err)
	}
	if got, err := alone.Policies(ctx, builderConfig("#2")); got != nil || err == nil {
		t.Errorf("cut off: %v, %v; want an error", got, err)
	}
	c.mustResolve(alone, "#1", "p0") // a policy that is here works
}

// TestMissingIsCheap checks that repeated queries for missing policies add nothing to
// the log.
func TestMissingIsCheap(t *testing.T) {
	c := newThreeNodes(t, 2)
	c.loadPolicies(c.running()[0], "#1", 3)
	newest := func() uint64 {
		index, _ := c.nodes[quota.NodeID(c.running()[0].Status().MetaLeader)].host.Group(raftgroup.MetaGroup).Progress()
		return index
	}
	// Retry while the entry that spreads the commit, or another entry of the cluster itself, is in flight.
	c.eventually(patience, "questions leave the log alone", func() error {
		before := newest()
		for i := range 90 {
			n := c.running()[i%3]
			if got, err := n.Resolve(t.Context(), []account.PolicyRef{builderPolicy("#2", "p0")}); err != nil || got[0] != nil {
				t.Fatalf("%s: %v, %v", n.cfg.Self, got, err)
			}
		}
		if grown := newest() - before; grown > 2 {
			return fmt.Errorf("90 questions made %d entries", grown)
		}
		return nil
	})
}

// TestLostAnswer checks that a load whose answer is lost, and that this node has applied,
// waits for the leader.
func TestLostAnswer(t *testing.T) {
	c := newThreeNodes(t, 2)
	for _, n := range c.running() {
		c.loadPolicies(n, "#"+string(n.cfg.Self), 3)
		if err := n.LeaderHas(t.Context(), n.meta.Policies.Load().Revision); err != nil {
			t.Errorf("%s: %v", n.cfg.Self, err)
		}
	}
	n := c.others()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.LeaderHas(ctx, 99); err == nil {
		t.Error("the leader is said to have what nobody has")
	}
}

// TestLargeConfig checks that a config with the maximum number of policies passes the log and the link
// to the leader.
func TestLargeConfig(t *testing.T) {
	c := newThreeNodes(t, 2)
	large := map[account.PolicyKey]account.Policy{}
	for i := range account.MaxPolicies {
		text := fmt.Sprintf("%030d", i)
		large[account.PolicyKey{Namespace: text, Name: text, Resource: text}] = account.Policy{Limit: account.Most, Default: account.Most}
	}
	if _, created, err := c.others()[0].LoadPolicies(t.Context(), "x", builderConfig("#large"), large); !created || err != nil {
		t.Fatalf("%v, %v", created, err)
	}
	for _, n := range c.running() {
		got, err := n.Policies(t.Context(), builderConfig("#large"))
		if err != nil || got == nil || !reflect.DeepEqual(got.Policies, large) {
			t.Errorf("%s: not what was loaded: %v", n.cfg.Self, err)
		}
	}
	size := c.running()[0].meta.Policies.Load().Bytes
	t.Logf("a config of %d policies counts as %d bytes; room for %d such", len(large), size, control.MaxPolicyBytes/size)
}

// builderConfig returns the id of a config in the tests' realm.
func builderConfig(version string) account.ConfigID {
	return account.ConfigID{App: "builds", Realm: "project:test", Version: version}
}

// builderPolicies returns count different policies.
func builderPolicies(count int) map[account.PolicyKey]account.Policy {
	out := map[account.PolicyKey]account.Policy{}
	for i := range count {
		out[account.PolicyKey{Namespace: "ns", Name: "p" + strconv.Itoa(i), Resource: "builds"}] = account.Policy{
			Default: int64(i), Limit: int64(i) + 10, Refill: account.Refill{Units: -int64(i), Interval: 3600, Offset: 60},
			Options: account.AbsoluteResource, Lifetime: time.Duration(i) * time.Hour,
		}
	}
	return out
}

func builderPolicy(version, name string) account.PolicyRef {
	return account.PolicyRef{Config: builderConfig(version), Key: account.PolicyKey{Namespace: "ns", Name: name, Resource: "builds"}}
}
