package cluster

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// historyLoad records what a test has asked for.
type historyLoad struct {
	attempted, admitted quota.Units
	from                history.Second
	killed              []history.Process // may be missing, because they did not report everything
}

// ask sends each checks to every running node, a few at a time.
func (h *historyLoad) ask(c *threeNodes, l quota.LimitName, each int) {
	for i := range each {
		for _, n := range c.running() {
			h.attempted += quota.Token
			if n.Check(quota.Key{LimitName: l, Key: fmt.Sprint("k", i%7)}, 1).Allowed {
				h.admitted += quota.Token
			}
		}
		time.Sleep(2 * time.Millisecond) // the load's rate
	}
}

// recorded returns the sum of a node's history since the start of the load.
func (h *historyLoad) recorded(c *threeNodes, n *Node, l quota.LimitName, step int) (history.Point, error) {
	a, err := n.History(c.t.Context(), history.Query{Limit: l, From: h.from, End: recorder.Second(n.clock.Now()) + 20, Step: step})
	if err != nil {
		return history.Point{}, err
	}
	sum := history.Point{Complete: true}
	for i := range a.Points {
		p := &a.Points[i]
		sum.Add(&p.Counts)
		excused := len(p.Missing) > 0 && !slices.ContainsFunc(p.Missing, func(m history.Process) bool { return !slices.Contains(h.killed, m) })
		if !p.Complete && p.Counts != (history.Counts{}) && !excused {
			sum.Complete, sum.Missing = false, p.Missing
		}
	}
	return sum, nil
}

// await waits until the history of every node has exactly what was asked.
func (h *historyLoad) await(c *threeNodes, l quota.LimitName, what string) {
	c.t.Helper()
	c.eventually(patience, what, func() error {
		for _, n := range c.running() {
			p, err := h.recorded(c, n, l, 1)
			if err != nil {
				return err
			}
			if p.Attempted != h.attempted || p.Admitted != h.admitted || !p.Complete {
				return fmt.Errorf("%s tells %d attempted, %d admitted, complete %v, missing %v; asked were %d, %d", n.cfg.Self, p.Attempted, p.Admitted, p.Complete, p.Missing, h.attempted, h.admitted)
			}
		}
		return nil
	})
}

// list makes all leaders list their keys now.
func (c *threeNodes) list() {
	c.t.Helper()
	for _, n := range c.running() {
		for id := range quota.RangeID(c.ranges) {
			r := n.ranges.Of(id).Machine.History
			m := recorder.Second(n.clock.Now()).Slot().Minute()
			r.Mu.Lock()
			r.Listed = m - 3
			r.Mu.Unlock()
		}
	}
	c.eventually(patience, "keys are listed", func() error {
		for _, n := range c.running() {
			for id := range quota.RangeID(c.ranges) {
				r := n.ranges.Of(id).Machine.History
				r.Mu.Lock()
				waits := r.Collector != nil && (len(r.Lists) > 0 || r.Listed < recorder.Second(n.clock.Now()).Slot().Minute()-2)
				r.Mu.Unlock()
				if waits {
					return fmt.Errorf("range %d has not", id)
				}
			}
		}
		return nil
	})
}

// keys returns the total of the listed keys, and an upper bound of what is attributed to no key: a leader
// elected meanwhile does not know what its predecessor had not listed. All nodes must agree.
func (h *historyLoad) keys(c *threeNodes, l quota.LimitName) (listed, unattributed quota.Units) {
	c.t.Helper()
	type answer struct{ listed, unattributed quota.Units }
	said := map[answer]bool{}
	for _, n := range c.running() {
		a, err := n.HistoryKeys(c.t.Context(), history.KeysQuery{Limit: l, From: h.from - 120, End: h.from + 300, Top: 10})
		if err != nil || a.Unattributed == 0 && len(a.Keys) != 7 || a.Rest != 0 || a.RangesCovered != 4 {
			c.t.Fatalf("%s: %+v, %v", n.cfg.Self, a, err)
		}
		sum, peaked := quota.Units(0), len(a.Keys) == 0
		for _, k := range a.Keys {
			sum += k.Attempted + k.Error
			peaked = peaked || k.Key == a.Peak.Key && a.Peak.Attempted > 0 && a.Peak.Attempted <= k.Attempted && a.Peak.Seconds >= 60
		}
		if !peaked {
			c.t.Fatalf("%s: peak %+v of %+v", n.cfg.Self, a.Peak, a.Keys)
		}
		said[answer{sum, a.Unattributed}] = true
	}
	if len(said) != 1 {
		c.t.Fatalf("nodes say %v", said)
	}
	for a := range said {
		return a.listed, a.unattributed
	}
	return 0, 0
}

// TestHistory checks that the history has the decisions of three nodes exactly once: after a stop in order,
// which leaves nothing incomplete, after the leader was killed, and after all nodes were stopped.
func TestHistory(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("waits for blocks of ten seconds")
	}
	t.Parallel() // it waits most of the time
	c := newThreeNodes(t, 4, quick)
	l := limit("told", 500, quota.Soft)
	c.apply(l)
	h := &historyLoad{from: recorder.Second(c.nodes["n1"].clock.Now()) - 1}
	h.ask(c, l.LimitName, 400) // more than the limit has, so some checks are refused
	h.await(c, l.LimitName, "what was asked is told")
	c.list()
	if got, more := h.keys(c, l.LimitName); got > h.attempted || got+more < h.attempted {
		t.Errorf("of %d the lists of keys have %d, and at most %d are of no key", h.attempted, got, more)
	}
	h.ask(c, l.LimitName, 10)
	p := newProcess(t, "svc") // a process refuses by itself what exceeds the limit's burst
	if err := p.attach(c.nodes["n2"]); err != nil {
		t.Fatal(err)
	}
	p.at.session.Refused(l.LimitName, quota.FromTokens(9001))
	p.at.session.Refused(quota.LimitName{Namespace: "no", Limit: "such"}, quota.Most)
	p.leave()
	h.attempted += quota.FromTokens(9001)
	closed := c.nodes["n1"]
	delete(c.nodes, "n1")
	if err := closed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.ask(c, l.LimitName, 50)
	c.start("n1", nil)
	c.awaitReady(patience)
	h.await(c, l.LimitName, "what was asked is told, and that of a node that stopped")

	home := c.nodes["n2"].routes.leader(recorder.OwnerRange(l.LimitName, 4))
	h.killed = append(h.killed, history.Process{Node: home, Incarnation: c.nodes[home].inc})
	c.kill(home)
	c.start(home, nil)
	c.awaitReady(patience)
	h.await(c, l.LimitName, "another leader tells the same")

	h.ask(c, l.LimitName, 30)
	var wg sync.WaitGroup
	for _, n := range c.running() {
		wg.Go(func() {
			if err := n.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	clear(c.nodes)
	for _, id := range c.ids() {
		c.start(id, nil)
	}
	c.awaitReady(patience)
	h.await(c, l.LimitName, "all that was counted before all nodes stopped is there")
}

// TestHistoryGoodbye checks that a stopping node waits for the logs of all ranges concurrently, however many
// there are, so that no range waits a second for others.
func TestHistoryGoodbye(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 32, quick)
	for _, id := range c.ids() { // on a busy machine the CPU or disk may delay one node
		n := c.nodes[id]
		n.Recorder.Uploader.Finish(t.Context())
		if !n.Recorder.Uploader.Behind() {
			return
		}
		t.Logf("%s: not all ranges have all after %v", id, recorder.FinishLimit)
	}
	t.Error("no node was done in time")
}
