package cluster

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/clock"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestClockOfOneAhead checks that a node whose wall clock is hours ahead of the others' uses their
// time from its start, says so, and moves no log ahead: repeated requests are not applied again, and
// refills go on.
func TestClockOfOneAhead(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			c := newThreeNodes(t, 2)
			c.kill("n1")
			c.change = append(c.change, func(cfg *Config) {
				if cfg.Self == "n1" {
					cfg.wall = func() time.Time { return time.Now().Add(ahead) }
				}
			})
			c.start("n1", nil)
			c.awaitReady(patience)
			n := c.nodes["n1"]
			if off := time.Duration(n.clock.Now() - quota.Time(time.Now().UnixNano())); off.Abs() > time.Second {
				t.Errorf("its clock is %v ahead; want that of the others", off)
			}
			l := limit("a", 10, quota.Hard)
			if _, _, err := n.SetLimits(t.Context(), []quota.Limit{l}); err != nil {
				t.Fatal(err)
			}
			use(t, n, quota.Key{LimitName: l.LimitName, Key: "k"}, 5)
			use(t, c.nodes["n3"], quota.Key{LimitName: l.LimitName, Key: "k"}, 5)
			id := accountIn(t, 0, 2, 0)
			mustApply(t, c.nodes["n2"], "", create(id, 7))
			if out := mustApply(t, c.nodes["n2"], "a request", deposit(id, 5)); out.Code != account.Done {
				t.Fatalf("%+v", out)
			}
			c.haveLead("n1")
			mustApply(t, n, "", deposit(id, 1))
			if out := mustApply(t, n, "a request", deposit(id, 5)); out.Code != account.Repeated {
				t.Errorf("a repetition: code %d, balance %v", out.Code, balances(t, n, false, id))
			}
			c.eventually(patience, "the clock is among its faults", func() error {
				faults := strings.Join(n.faults(), "; ")
				if !strings.Contains(faults, "the wall clock is 3h0m0s") || !strings.Contains(faults, "most nodes") {
					return fmt.Errorf("its faults are %q", faults)
				}
				return nil
			})
			c.eventually(patience, "the others see it", func() error {
				for _, other := range []quota.NodeID{"n2", "n3"} {
					if faults := c.nodes[other].clock.Faults(); len(faults) > 0 {
						return fmt.Errorf("%s says of itself %q", other, faults)
					}
					if d := find(c.nodes[other].Status(), "n1").ClockOffset.AsDuration(); (d - ahead).Abs() > time.Second {
						return fmt.Errorf("%s says it is %v ahead", other, d)
					}
				}
				return nil
			})
		})
	}
}

// haveLead transfers the leadership of all ranges to a node.
func (c *threeNodes) haveLead(id quota.NodeID) {
	c.t.Helper()
	for r := range quota.RangeID(c.ranges) {
		c.eventually(patience, fmt.Sprintf("%s leads range %d", id, r), func() error {
			got := c.nodes[id].routes.leader(r)
			if got == id {
				return nil
			}
			if from := c.nodes[got]; from != nil {
				_ = from.host.Group(raftgroup.OfRange(r)).TransferTo(c.t.Context(), id)
			}
			return fmt.Errorf("%q does", got)
		})
	}
}

// noneLeads waits until a node leads no range.
func (c *threeNodes) noneLeads(id quota.NodeID) {
	c.t.Helper()
	c.eventually(patience, fmt.Sprintf("%s leads nothing, and others lead", id), func() error {
		for _, n := range c.running() {
			for r := range quota.RangeID(c.ranges) {
				if got := n.routes.leader(r); got == id || got == "" {
					return fmt.Errorf("%s says that %q leads range %d", n.cfg.Self, got, r)
				}
			}
		}
		return nil
	})
}

// TestClockOfTheFirstAhead stops all nodes, and first starts one with a clock that is
// hours ahead or behind. While no majority agrees on the time, that node leads and applies no request
// again. Once the third node is up, it hands over its leaderships and takes none.
func TestClockOfTheFirstAhead(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			if ahead < 0 {
				testspeed.Full(t)
			}
			c := newThreeNodes(t, 2, quick)
			id := accountIn(t, 0, 2, 0)
			mustApply(t, c.nodes["n2"], "", create(id, 7))
			if out := mustApply(t, c.nodes["n2"], "a request", deposit(id, 5)); out.Code != account.Done {
				t.Fatalf("%+v", out)
			}
			for _, id := range c.ids() {
				c.kill(id)
			}
			c.change = append(c.change, func(cfg *Config) {
				if cfg.Self == "n1" {
					cfg.wall = func() time.Time { return time.Now().Add(ahead) }
				}
			})
			c.start("n1", nil) // it waits in vain for the clocks of others
			c.start("n2", nil)
			c.awaitReady(patience)
			c.haveLead("n1")
			n := c.nodes["n1"]
			mustApply(t, n, "", deposit(id, 1))
			if out := mustApply(t, n, "a request", deposit(id, 5)); out.Code != account.Repeated {
				t.Errorf("a repetition: code %d, balance %v", out.Code, balances(t, n, false, id))
			}
			c.start("n3", nil)
			c.noneLeads("n1")
			if faults := strings.Join(n.faults(), "; "); !strings.Contains(faults, "this process's clock is 3h0m0") && !strings.Contains(faults, "this process's clock is 2h59m59") {
				t.Errorf("its faults are %q", faults)
			}
			for r := range quota.RangeID(2) {
				from := c.nodes[c.nodes["n2"].routes.leader(r)]
				if err := from.host.Group(raftgroup.OfRange(r)).TransferTo(t.Context(), "n1"); err == nil {
					t.Errorf("it is given range %d", r)
				}
			}
			mustApply(t, n, "", deposit(id, 1))
			if out := mustApply(t, n, "a request", deposit(id, 5)); out.Code != account.Repeated {
				t.Errorf("a repetition later: code %d, balance %v", out.Code, balances(t, n, false, id))
			}
		})
	}
}

// TestClockSteps steps the wall clock of the node that leads everything by hours, and back, while it
// runs. The node keeps leading by the time of the others, applies no request again, grants a window
// once, and reports the fault for as long as it lasts.
func TestClockSteps(t *testing.T) {
	var step atomic.Int64
	c := newThreeNodes(t, 2, func(cfg *Config) {
		if cfg.Self == "n1" {
			cfg.wall = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
		}
	})
	c.haveLead("n1")
	n := c.nodes["n1"]
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: "w"}, Kind: quota.FixedWindow, Burst: 10,
		Rate: quota.Rate{Tokens: 10, Per: 2 * time.Hour}, Ceiling: quota.Hard,
	}
	c.apply(l)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	use(t, n, k, 10)
	id := accountIn(t, 0, 2, 0)
	mustApply(t, n, "", create(id, 7))
	mustApply(t, n, "a request", deposit(id, 5))
	for _, by := range []time.Duration{3 * time.Hour, -3 * time.Hour, 0} {
		step.Store(int64(by))
		if n.clock.TooFarOff() { // at once: the node compares the peers' last times with the time elapsed since
			t.Errorf("a clock that steps to %v: the node is to lead nothing", by)
		}
		repeated := func() {
			t.Helper()
			mustApply(t, n, "", deposit(id, 1))
			if out := mustApply(t, n, "a request", deposit(id, 5)); out.Code != account.Repeated {
				t.Errorf("a clock that steps to %v: code %d, balance %v", by, out.Code, balances(t, n, false, id))
			}
			for _, m := range c.running() {
				if d := m.Check(k, 1); d.Allowed {
					t.Errorf("a clock that steps to %v: %s gives the window out again", by, m.cfg.Self)
				}
			}
		}
		repeated()
		c.eventually(patience, "it says so", func() error {
			if faults := n.faults(); strings.Contains(strings.Join(faults, "; "), "the wall clock is 3h0m0s") != (by != 0) {
				return fmt.Errorf("stepped to %v, its faults are %q", by, faults)
			}
			return nil
		})
		repeated()
		if off := time.Duration(n.clock.Now() - quota.Time(time.Now().UnixNano())); off.Abs() > clock.Bound {
			t.Errorf("a clock that steps to %v: the node's is %v ahead", by, off)
		}
		if n.clock.TooFarOff() {
			t.Errorf("a clock that steps to %v: the node is to lead nothing", by)
		}
	}
}
