package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// others returns the nodes that do not lead the meta group.
func (c *threeNodes) others() []*Node {
	return slices.DeleteFunc(c.running(), func(n *Node) bool { return string(n.cfg.Self) == n.Status().MetaLeader })
}

// TestCompareAndSwap runs writers on all nodes that each raise a burst by one, based on the version
// that they have read. The history has exactly the changes that succeeded.
func TestCompareAndSwap(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2)
	c.apply(limit("counter", 0, quota.Soft))
	const writers, each = 6, 5
	var mu sync.Mutex
	made := map[uint64]string{} // the writer of each version
	conflicts := 0
	var wg sync.WaitGroup
	for w := range writers {
		n := c.running()[w%3]
		wg.Go(func() {
			for i := 0; i < each; {
				by := fmt.Sprintf("writer %d, change %d", w, i)
				limits := n.Limits()
				l := limits.All()[0]
				l.Burst++
				v, changed, err := n.ChangeLimits(t.Context(), quota.Change{Limits: []quota.Limit{l}, Expect: int64(limits.Version), By: by})
				var conflict *quota.ConflictError
				mu.Lock()
				switch {
				case errors.As(err, &conflict):
					conflicts++
					if conflict.Expected != int64(limits.Version) || conflict.Current <= limits.Version {
						t.Errorf("%s: %+v; expected was %d", by, conflict, limits.Version)
					}
				case err != nil || !changed || v.By != by || v.Number != limits.Version+1:
					t.Errorf("%s on %d: %+v, %v, %v", by, limits.Version, v, changed, err)
					i++
				default:
					made[v.Number] = by
					i++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d changes, %d conflicts", len(made), conflicts)
	if conflicts == 0 {
		t.Error("no writer was ever late: nothing was tested")
	}
	c.checkHistory(made, writers*each)
}

// checkHistory compares the history of all nodes with the answers that the writers
// got. The first version is the test's own.
func (c *threeNodes) checkHistory(made map[uint64]string, want int) {
	c.t.Helper()
	for _, n := range c.running() {
		c.eventually(5*time.Second, "the node has the newest version", func() error {
			if v := n.Limits().Version; v != uint64(want)+1 {
				return fmt.Errorf("%s has %d; want %d", n.cfg.Self, v, want+1)
			}
			return nil
		})
		if b := n.Limits().All()[0].Burst; b != int64(want) {
			c.t.Errorf("%s: the burst was raised %d times, and is %d", n.cfg.Self, want, b)
		}
		versions, err := n.LimitVersions(c.t.Context(), 0, 1000)
		if err != nil || len(versions) != want+1 {
			c.t.Errorf("%s: %d versions, %v", n.cfg.Self, len(versions), err)
		}
		for _, v := range versions[:len(versions)-1] {
			if made[v.Number] != v.By {
				c.t.Errorf("%s: version %d is by %q; told was %q", n.cfg.Self, v.Number, v.By, made[v.Number])
			}
			_, list, err := n.LimitsAt(c.t.Context(), v.Number)
			if err != nil || list[0].Burst != int64(v.Number)-1 {
				c.t.Errorf("%s: version %d: %v, %v", n.cfg.Self, v.Number, list, err)
			}
		}
	}
}

// TestChangeMeetsElections makes conditional changes while the leadership
// of the meta group moves. A change whose answer is lost or whose proposal is
// repeated must neither conflict with itself nor be made twice.
func TestChangeMeetsElections(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	c.apply(limit("counter", 0, quota.Soft))
	moved, stop := c.moveMetaLeader(30 * time.Millisecond)
	made := map[uint64]string{}
	const least, most = 40, 400
	changes := 0
	for ; changes < least || moved.Load() == 0 && changes < most; changes++ {
		i := changes
		n := c.running()[i%3]
		by := strconv.Itoa(i)
		l := limit("counter", int64(i+1), quota.Soft)
		v, changed, err := n.ChangeLimits(t.Context(), quota.Change{Limits: []quota.Limit{l}, Expect: int64(i + 1), By: by})
		if err != nil || !changed || v.Number != uint64(i+2) {
			t.Errorf("change %d: %+v, %v, %v", i, v, changed, err)
		}
		made[v.Number] = v.By
	}
	stop()
	t.Logf("%d changes", changes)
	c.checkHistory(made, changes)
}

// TestChangeAfterKill kills the leader of the meta group while others propose.
func TestChangeAfterKill(t *testing.T) {
	c := newThreeNodes(t, 2, quick)
	c.apply(limit("counter", 0, quota.Soft))
	survivors := c.others()
	victim := quota.NodeID(survivors[0].Status().MetaLeader)
	killed := make(chan struct{})
	made := map[uint64]string{}
	for i := range 20 {
		if i == 5 {
			go func() {
				c.kill(victim)
				close(killed)
			}()
		}
		by := strconv.Itoa(i)
		v, changed, err := survivors[i%2].ChangeLimits(t.Context(), quota.Change{
			Limits: []quota.Limit{limit("counter", int64(i+1), quota.Soft)}, Expect: int64(i + 1), By: by,
		})
		if err != nil || !changed || v.By != by {
			t.Errorf("change %d: %+v, %v, %v", i, v, changed, err)
		}
		made[v.Number] = by
	}
	<-killed
	c.start(victim, nil)
	c.awaitReady(15 * time.Second)
	c.checkHistory(made, 20)
}

// sameVersion waits until all nodes have the same version of the limits.
func (c *threeNodes) sameVersion() (version uint64) {
	c.t.Helper()
	c.eventually(patience, "all have the same version of the limits", func() error {
		version = c.running()[0].Limits().Version
		for _, n := range c.running() {
			if v := n.Limits().Version; v != version {
				return fmt.Errorf("%s has %d, another %d", n.cfg.Self, v, version)
			}
		}
		return nil
	})
	return version
}

// TestChangeErrorsOverTheWire checks that errors are the same on a node that forwards the
// change.
func TestChangeErrorsOverTheWire(t *testing.T) {
	c := newThreeNodes(t, 2)
	a, b := limit("a", 1, quota.Soft), limit("b", 2, quota.Soft)
	for _, n := range []*Node{c.others()[0], c.nodes[quota.NodeID(c.running()[0].Status().MetaLeader)]} {
		before := c.sameVersion()
		v, changed, err := n.ChangeLimits(t.Context(), quota.Change{Limits: []quota.Limit{a}, Expect: int64(before), By: "ann", Comment: "first"})
		if err != nil || !changed || v.Number != before+1 || v.By != "ann" || v.Comment != "first" || v.Limits != 1 || v.Added != 1 ||
			time.Since(time.Unix(0, int64(v.At))).Abs() > time.Minute {
			t.Errorf("%s: %+v, %v, %v", n.cfg.Self, v, changed, err)
		}
		_, _, err = n.ChangeLimits(t.Context(), quota.Change{Limits: []quota.Limit{b}, Expect: int64(before), By: "bob"})
		if got := (*quota.ConflictError)(nil); !errors.As(err, &got) || *got != (quota.ConflictError{Expected: int64(before), Current: before + 1, By: "ann"}) {
			t.Errorf("%s: %v", n.cfg.Self, err)
		}
		_, _, err = n.ChangeLimits(t.Context(), quota.Change{Expect: quota.AnyVersion, RollbackTo: 99})
		if got := (*quota.UnknownVersionError)(nil); !errors.As(err, &got) || *got != (quota.UnknownVersionError{Version: 99, Oldest: 1, Newest: before + 1}) {
			t.Errorf("%s: %v", n.cfg.Self, err)
		}
		for name, bad := range map[string]quota.Change{
			"by":       {By: string(make([]byte, quota.MaxNameLen+1))},
			"comment":  {Comment: "\xff"},
			"expected": {Expect: -2},
			"parent":   {Limits: []quota.Limit{{LimitName: a.LimitName, Rate: a.Rate, Parent: "none"}}},
		} {
			if _, _, err := n.ChangeLimits(t.Context(), bad); err == nil {
				t.Errorf("%s: a bad %s was taken", n.cfg.Self, name)
			}
		}
		if v, _, err := n.ChangeLimits(t.Context(), quota.Change{Expect: int64(before + 1), RollbackTo: before + 1}); err != nil || v.Number != before+1 {
			t.Errorf("%s: back to what is in force: %+v, %v", n.cfg.Self, v, err)
		}
		if v, changed, err := n.ChangeLimits(t.Context(), quota.Change{Expect: int64(before + 1)}); err != nil || !changed || v.Removed != 1 {
			t.Errorf("%s: no limits: %+v, %v, %v", n.cfg.Self, v, changed, err)
		}
	}
}

func TestOverridesOnNodes(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2)
	windows := limit("windows", 10, quota.Soft)
	windows.SetFirst(quota.Window(quota.FixedWindow, 10, time.Minute))
	c.apply(limit("a", 10, quota.Soft), windows)
	n := c.others()[0]
	good := quota.Override{Key: key("test", "a", "k"), Burst: 100, By: "ann", Comment: "until Friday"}
	for name, bad := range map[string]quota.Override{
		"no such limit": {Key: key("test", "none", "k"), Burst: 1},
		"does not fit":  {Key: key("test", "windows", "k"), Burst: -1, Rate: quota.Rate{Tokens: 1, Per: time.Second}},
		"has expired":   {Key: key("test", "a", "m"), Burst: 1, Expires: quota.Time(time.Now().Add(-time.Second).UnixNano())},
		"says nothing":  {Key: key("test", "a", "m"), Burst: -1},
		"is there":      good, // twice
		"by":            {Key: key("test", "a", "m"), Burst: 1, By: "\xff"},
	} {
		if err := n.SetOverrides(t.Context(), []quota.Override{good, bad}); err == nil {
			t.Errorf("one that %q was taken", name)
		}
	}
	if o := n.Override(good.Key); o != nil {
		t.Errorf("set beside a bad one: %+v", o)
	}
	if err := n.SetOverrides(t.Context(), make([]quota.Override, control.MaxOverridesCall+1)); err == nil {
		t.Error("too many in one call were taken")
	}
	brief := quota.Override{Key: key("test", "a", "brief"), Burst: 1}
	list := []quota.Override{good}
	for i := range 2500 {
		list = append(list, quota.Override{Key: key("test", "windows", strconv.Itoa(i)), Burst: int64(i)})
	}
	if err := n.SetOverrides(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if o := n.Override(good.Key); o == nil || o.Burst != 100 || o.By != "ann" || o.Comment != "until Friday" || o.At == 0 {
		t.Errorf("the node that set it has %+v", o) // SetOverrides must have waited for it
	}
	if page, total := n.ListOverrides(windows.LimitName, key("test", "windows", "1000"), 2); total != 2500 || len(page) != 2 ||
		page[0].Key.Key != "1001" || page[1].Key.Key != "1002" {
		t.Errorf("listed %v of %d", page, total)
	}
	late := time.Duration(-1)
	for try := time.Duration(1); (late < 0 || late > 2*time.Second) && try <= 10; try++ { // a busy machine may be late by itself
		brief.Expires = quota.Time(time.Now().Add(try * time.Second).UnixNano())
		if err := n.SetOverrides(t.Context(), []quota.Override{brief}); err != nil {
			t.Log(err) // it expired on the way
			continue
		}
		late = c.awaitExpiry(brief, 2501)
	}
	if late < 0 || late > 2*time.Second {
		t.Errorf("gone %v after it expired; at most 2s", late)
	}
	if count, err := n.DeleteOverrides(t.Context(), []quota.Key{good.Key, key("test", "a", "none")}); err != nil || count != 1 || n.Override(good.Key) != nil {
		t.Errorf("deleted %d, %v", count, err)
	}
	c.apply(limit("a", 10, quota.Soft)) // removes the other limit; its overrides stay
	if _, total := n.ListOverrides(windows.LimitName, quota.Key{}, 1); total != 2500 {
		t.Errorf("%d overrides are left of a limit that is gone", total)
	}
}

// awaitExpiry waits until an override is gone from all nodes and the expected number is left. It
// returns how late that was.
func (c *threeNodes) awaitExpiry(o quota.Override, left int) time.Duration {
	c.t.Helper()
	for _, n := range c.running() {
		c.eventually(30*time.Second, "it is gone everywhere, the others are there", func() error {
			_, total := n.ListOverrides(quota.LimitName{}, quota.Key{}, 0)
			if n.Override(o.Key) != nil || total != left {
				return fmt.Errorf("%s has %d; want %d", n.cfg.Self, total, left)
			}
			return nil
		})
	}
	return time.Since(time.Unix(0, int64(o.Expires)))
}

func TestOverridesWithoutQuorum(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	c.apply(limit("a", 10, quota.Soft))
	c.kill("n2")
	c.kill("n3")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := c.nodes["n1"].SetOverrides(ctx, []quota.Override{{Key: key("test", "a", "k"), Burst: 1}})
	if !withoutLeader(err) {
		t.Errorf("got %v; want a NoLeaderError or UnknownOutcomeError", err)
	}
}
