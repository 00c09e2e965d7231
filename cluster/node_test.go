package cluster

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/shard"
)

func TestReadyAndSpread(t *testing.T) {
	began := time.Now()
	c := newThreeNodes(t, 6)
	t.Logf("ready after %v", time.Since(began).Round(time.Millisecond))
	plan, err := shard.Plan(c.ids(), c.ranges, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.running() {
		st := n.Status()
		for r, rt := range st.Ranges {
			if quota.NodeID(rt.Leader) != plan[r][0] {
				t.Errorf("%s sees %s lead range %d; planned is %s", st.Node, rt.Leader, r, plan[r][0])
			}
			if rt.Term == 0 || len(rt.Replicas) != 3 {
				t.Errorf("range %d has term %d, replicas %v", r, rt.Term, rt.Replicas)
			}
		}
		for _, node := range st.Nodes {
			if node.Leads != 2 || !node.Connected {
				t.Errorf("%s sees %v; want connected, leading 2", st.Node, node)
			}
		}
		if st.MetaLeader == "" || st.Reason != "" {
			t.Errorf("%s: meta leader %q, reason %q", st.Node, st.MetaLeader, st.Reason)
		}
	}
}

// TestGlobalLimit sends more than the burst to all nodes: together they
// admit one burst.
func TestGlobalLimit(t *testing.T) {
	const burst = 300
	c := newThreeNodes(t, 4)
	soft, hard := limit("soft", burst, quota.Soft), limit("hard", burst, quota.Hard)
	c.apply(soft, hard)
	for _, l := range []quota.Limit{soft, hard} {
		for i := range 3 {
			k := quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(i)}
			var admitted atomic.Int64
			var wg sync.WaitGroup
			late := lateness()
			for _, n := range c.running() {
				wg.Go(func() {
					for range burst {
						if n.Check(k, 1).Allowed {
							admitted.Add(1)
						}
						time.Sleep(3 * time.Millisecond) // the load's rate
					}
				})
			}
			wg.Wait()
			stalled := late()
			// On a slow machine, tokens may not have reached the nodes that asked: they pass now.
			c.eventually(patience, fmt.Sprintf("%v is used up", k), func() error {
				for _, n := range c.running() {
					d := n.Check(k, 1)
					if d.Allowed {
						admitted.Add(1)
						return fmt.Errorf("%s says %+v", n.cfg.Self, d)
					}
					if d.RetryAfter <= 0 {
						t.Errorf("%v: %s refuses with %+v", k, n.cfg.Self, d)
					}
				}
				if got := admitted.Load(); got < burst*98/100 {
					return fmt.Errorf("%d admitted of %d", got, burst)
				}
				return nil
			})
			got := admitted.Load()
			t.Logf("%v: admitted %d of %d, burst %d, stalled for %v", k, got, 3*burst, burst, stalled)
			if l.Ceiling == quota.Hard && got > burst {
				t.Errorf("%v: admitted %d; hard: at most %d", k, got, burst)
			}
			// A soft limit overshoots a little: by the checks, one in 3 ms on every node, that come while
			// a stalled machine delays reports.
			if most := burst*115/100 + int64(stalled/time.Millisecond); got > most {
				t.Errorf("%v: admitted %d; want about %d, at most %d", k, got, burst, most)
			}
		}
	}
}

// TestHardColdKey checks that the first check of a hard limit asks the leader, on every node, and that
// one with decide: local asks nobody.
func TestHardColdKey(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4)
	l, local := limit("hard", 10, quota.Hard), limit("local", 10, quota.Hard)
	local.Decide = quota.Locally
	c.apply(l, local)
	for i, n := range c.running() {
		for j := range 5 {
			k := quota.Key{LimitName: l.LimitName, Key: fmt.Sprintf("%d.%d", i, j)}
			if d := n.Check(k, 1); !d.Allowed || d.Why != quota.WhyLeader {
				t.Errorf("%s: first check of %v: %+v", n.cfg.Self, k, d)
			}
			k.LimitName = local.LimitName
			if d := n.Check(k, 1); d.Allowed || d.Why != quota.WhyNotHeld {
				t.Errorf("%s: first check of %v: %+v", n.cfg.Self, k, d)
			}
		}
	}
}

func TestCheckOdd(t *testing.T) {
	c := newThreeNodes(t, 2)
	c.apply(limit("soft", 3, quota.Soft))
	n := c.running()[0]
	if d := n.Check(key("test", "none", "k"), 1); d.Allowed || d.Why != quota.WhyNoLimit {
		t.Errorf("without a limit: %+v", d)
	}
	if d := n.Check(key("test", "soft", "k"), 4); d.Allowed || d.Why != quota.WhyOverBurst || d.RetryAfter != math.MaxInt64 {
		t.Errorf("beyond the burst: %+v", d)
	}
}

func TestSetLimits(t *testing.T) {
	c := newThreeNodes(t, 2)
	var other *Node
	for _, n := range c.running() {
		if string(n.cfg.Self) != n.Status().MetaLeader {
			other = n
		}
	}
	first := []quota.Limit{limit("a", 10, quota.Soft), limit("b", 20, quota.Hard)}
	began := time.Now()
	version, changed, err := other.SetLimits(t.Context(), first)
	if err != nil || version != 1 || !changed {
		t.Fatalf("first limits: version %d, changed %v, %v", version, changed, err)
	}
	spread := func(began time.Time, what string, check func(n *Node) error) {
		t.Helper()
		took := time.Since(began)
		for _, n := range c.running() {
			err := check(n)
			if err != nil && took < control.SpreadWait { // SetLimits waits that long for the other nodes
				t.Errorf("after %v: %v", took, err)
			}
			c.eventually(patience, what, func() error { return check(n) })
		}
	}
	spread(began, "all have version 1", func(n *Node) error {
		if got := n.Limits(); got.Version != 1 || len(got.All()) != 2 || !got.All()[1].Equal(&first[1]) {
			return fmt.Errorf("%s has version %d: %v", n.cfg.Self, got.Version, got.All())
		}
		return nil
	})
	version, changed, err = other.SetLimits(t.Context(), []quota.Limit{first[1], first[0]})
	if err != nil || version != 1 || changed {
		t.Errorf("the same limits: version %d, changed %v, %v", version, changed, err)
	}
	for name, bad := range map[string][]quota.Limit{
		"twice":    {first[0], first[0]},
		"negative": {limit("a", -1, quota.Soft)},
		"name":     {limit("a b", 1, quota.Soft)},
	} {
		if _, _, err := other.SetLimits(t.Context(), bad); err == nil {
			t.Errorf("bad limits (%s) were taken", name)
		}
	}
	if v := other.Limits().Version; v != 1 {
		t.Errorf("bad limits made version %d", v)
	}
	began = time.Now()
	version, changed, err = other.SetLimits(t.Context(), nil)
	if err != nil || version != 2 || !changed {
		t.Errorf("no limits: version %d, changed %v, %v", version, changed, err)
	}
	spread(began, "nobody knows the limit", func(n *Node) error {
		if d := n.Check(key("test", "a", "k"), 1); d.Why != quota.WhyNoLimit {
			return fmt.Errorf("%s still knows the limit: %+v", n.cfg.Self, d)
		}
		return nil
	})
}

// TestLimitChangeRefillsNothing checks the leader's level across changes of a limit.
func TestLimitChangeRefillsNothing(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4)
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		name := "for_" + ceiling.String()
		c.apply(limit(name, 100, ceiling))
		k := quota.Key{LimitName: limit(name, 100, ceiling).LimitName, Key: "k"}
		for _, n := range c.running() {
			use(t, n, k, 20)
		}
		c.awaitRemaining(k, 40)
		for _, step := range []struct{ burst, left int64 }{{200, 40}, {100, 40}, {50, 40}, {41, 40}, {100, 40}} {
			c.apply(limit(name, step.burst, ceiling))
			time.Sleep(150 * time.Millisecond) // lets the nodes report
			c.awaitRemaining(k, step.left)
		}
		use(t, c.running()[0], k, 40)
		c.awaitRemaining(k, 0)
		extra := 0 // soft: what a member that was idle or holds a token admits before it learns the level
		for _, n := range c.running() {
			d := n.Check(k, 1)
			for ; d.Allowed && ceiling == quota.Soft && extra < 10; d = n.Check(k, 1) {
				extra++
				c.awaitAdmitted(k, 100+int64(extra))
				for end := time.Now().Add(2 * time.Second); n.Check(k, 0).Allowed && time.Now().Before(end); {
					time.Sleep(5 * time.Millisecond) // the answer to the report arrives
				}
			}
			if d.Allowed {
				t.Errorf("%v: %s allows more than is left: %+v", ceiling, n.cfg.Self, d)
			}
		}
		if extra > 6 {
			t.Errorf("%v: %d checks passed beyond the limit", ceiling, extra)
		}
	}
}

// TestLimitsMeetElections changes limits while leaderships move: a ledger that
// is created just then must not keep the old limits.
func TestLimitsMeetElections(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4, quick)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, n := range c.running() {
				for r := range c.ranges {
					if g := n.host.Group(raftgroup.OfRange(quota.RangeID(r))); g != nil {
						_ = g.TransferTo(t.Context(), c.ids()[(i+r)%3])
					}
				}
			}
		}
	})
	var version uint64
	for i := range 20 {
		v, changed, err := c.running()[i%3].SetLimits(t.Context(), []quota.Limit{limit("a", int64(100+i), quota.Soft)})
		if err != nil {
			t.Fatal(err)
		}
		if v < version {
			t.Errorf("version fell from %d to %d (changed %v)", version, v, changed)
		}
		version = v
	}
	close(stop)
	wg.Wait()
	c.awaitReady(5 * time.Second)
	k := quota.Key{LimitName: limit("a", 1, quota.Soft).LimitName}
	for i := range 4 * c.ranges {
		k.Key = strconv.Itoa(i)
		use(t, c.running()[i%3], k, 1)
	}
	for i := range 4 * c.ranges {
		k.Key = strconv.Itoa(i)
		c.eventually(5*time.Second, "the leader has the newest limit", func() error {
			r, err := c.rate(k)
			if err == nil && r.Rule.Burst != 119 {
				err = fmt.Errorf("%v has burst %d", k, r.Rule.Burst)
			}
			return err
		})
	}
}

func TestTopRates(t *testing.T) {
	c := newThreeNodes(t, 6)
	a, b := limit("a", 100, quota.Soft), limit("b", 100, quota.Soft)
	c.apply(a, b)
	const keys = 30
	for i := range keys {
		for j, n := range c.running() {
			use(t, n, quota.Key{LimitName: a.LimitName, Key: strconv.Itoa(i)}, 1+j)
		}
	}
	use(t, c.running()[0], quota.Key{LimitName: b.LimitName, Key: "other"}, 50)
	for _, n := range c.running() {
		c.eventually(time.Minute, "all keys are counted", func() error {
			res, err := n.TopRates(t.Context(), &quoratev1.TopRatesRequest{Top: apiproto.MaxTop, Namespace: "test", Limit: "a"})
			if err != nil {
				return err
			}
			if res.RangesCovered != 6 || res.RangesTotal != 6 || len(res.Keys) != keys {
				return fmt.Errorf("%d keys, %d of %d ranges", len(res.Keys), res.RangesCovered, res.RangesTotal)
			}
			leaders := map[string]bool{}
			for _, k := range res.Keys {
				if k.Admitted != 6 || k.Attempted != 6 || k.Refused != 0 || k.Remaining != 94 || k.Members != 3 {
					return fmt.Errorf("%v", k)
				}
				if want := shard.Of(key(k.Namespace, k.Limit, k.Key), 6); quota.RangeID(k.Range) != want {
					return fmt.Errorf("%v: want range %d", k, want)
				}
				leaders[k.Leader] = true
			}
			if len(leaders) != 3 {
				return fmt.Errorf("only leaders %v answered", leaders)
			}
			return nil
		})
		res, err := n.TopRates(t.Context(), &quoratev1.TopRatesRequest{Top: 3})
		if err != nil || len(res.Keys) != 3 {
			t.Errorf("top 3: %v, %v", res, err)
		}
		if res.Keys[0].Demand < res.Keys[1].Demand || res.Keys[1].Demand < res.Keys[2].Demand {
			t.Errorf("not by demand: %v", res.Keys)
		}
	}
}

func TestSetLimitsWithoutQuorum(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	c.kill("n2")
	c.kill("n3")
	n := c.nodes["n1"]
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _, err := n.SetLimits(ctx, []quota.Limit{limit("a", 1, quota.Soft)})
	if !withoutLeader(err) {
		t.Errorf("got %v; want a NoLeaderError or UnknownOutcomeError", err)
	}
	c.eventually(patience, "it says that nobody leads", func() error {
		if st := n.Status(); !st.Ready || st.Leaderless == "" {
			return fmt.Errorf("%v", st)
		}
		return nil
	})
	c.kill("n1")
	c.start("n1", nil) // it cannot know the changes made since
	if st := c.nodes["n1"].Status(); st.Ready || st.Reason == "" {
		t.Errorf("alone since its start: ready %t %q", st.Ready, st.Reason)
	}
}
