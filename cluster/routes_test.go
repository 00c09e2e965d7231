package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestMissing checks that a range counts as missing its leader at once if it never had one, and after
// leaderGrace if it lost one, and that it stops counting with the next leader.
func TestMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs routes
		rs.init(1)
		missing := func(want bool, when string) {
			t.Helper()
			ranges, meta := rs.snapshot()
			if ranges[0].lacksLeader() != want || meta.lacksLeader() != want {
				t.Errorf("%s: range %t, meta group %t; want %t", when, ranges[0].lacksLeader(), meta.lacksLeader(), want)
			}
		}
		elect := func(id quota.NodeID, term quota.Term) {
			rs.set(0, id, term)
			rs.setMeta(id, term, 0, 0)
		}
		missing(true, "before the first leader")
		elect("a", 1)
		missing(false, "with a leader")
		time.Sleep(time.Hour)
		rs.clearNode("a")
		time.Sleep(leaderGrace - 1)
		missing(false, "just lost")
		rs.clearNode("a") // the same news again
		rs.forgetLeader(0, "b")
		time.Sleep(time.Nanosecond)
		missing(true, "lost for long")
		elect("b", 2)
		missing(false, "with the next leader")
		rs.retainLeads("b", nil)
		rs.lostMeta("b")
		missing(false, "just lost again")
	})
}

// TestReadySinceLed checks that a node is ready once all groups had leaders, and stays ready
// whichever leaders are lost: it decides without them.
func TestReadySinceLed(t *testing.T) {
	n := &Node{members: &membership.Service{}}
	n.routes.init(2)
	is := func(want string) {
		t.Helper()
		ranges, meta := n.routes.snapshot()
		st := &quoratev1.GetStatusResponse{}
		for _, r := range ranges {
			if r.lacksLeader() {
				st.Leaderless = leaderless(1, 2, &meta)
			}
		}
		if why := n.undecided(st); why != want {
			t.Errorf("not ready: %q; want %q", why, want)
		}
	}
	is("1 of 2 ranges have no leader")
	n.routes.set(0, "a", 1)
	n.routes.setMeta("a", 1, 0, 0)
	is("1 of 2 ranges have no leader")
	n.routes.clearNode("a")
	n.routes.set(1, "b", 1)
	n.routes.setMeta("b", 2, 0, 0)
	is("the leaders of the ranges are not known yet")
	n.routes.set(0, "b", 2)
	answered := false
	n.routes.answered = func() bool { return answered }
	is("the leaders of the ranges are not known yet")
	answered = true
	is("")
	n.routes.clearNode("b")
	is("")
	n.retired.Store(true)
	is(health.Stopping)
}

// TestReadyWithoutARange checks that a node that starts while one range has no majority becomes ready some seconds after
// it has the limits, since it decides all other ranges, and not before.
func TestReadyWithoutARange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{members: &membership.Service{}}
		n.routes.init(2)
		n.routes.set(0, "a", 1)
		ready := func(want bool) {
			t.Helper()
			if why := n.undecided(&quoratev1.GetStatusResponse{}); (why == "") != want {
				t.Errorf("not ready: %q; want ready %v", why, want)
			}
		}
		ready(false)
		time.Sleep(time.Hour) // without limits it keeps waiting
		ready(false)
		n.routes.setMeta("a", 1, 0, 0)
		ready(false)
		time.Sleep(ledWait - 1)
		ready(false)
		time.Sleep(time.Nanosecond)
		ready(true)
	})
}

// TestReadyThroughHandovers checks that no node reports itself or the cluster as not ready because leaders
// change: all nodes see the change, and a load balancer that asks would have no node left.
func TestReadyThroughHandovers(t *testing.T) {
	testspeed.Full(t)
	const ranges = 8
	c := newThreeNodes(t, ranges)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	moved := make(chan int, 1)
	go func() { moved <- c.handOver(ctx, ranges) }()
	without, asked := 0, 0
	for began := time.Now(); time.Since(began) < 2*time.Second; asked++ {
		st := c.running()[asked%3].Status()
		if !st.Ready || st.Leaderless != "" && time.Since(began) < leaderGrace { // after that the machine may have stalled, and no leader may have come
			t.Fatalf("node %s, asked %d: %s%s", st.Node, asked, st.Reason, st.Leaderless)
		}
		if led(st) != nil {
			without++
		}
		time.Sleep(100 * time.Microsecond) // the polling interval
	}
	stop()
	if times := <-moved; times < 10 || without == 0 {
		t.Fatalf("%d handovers, seen by %d of %d answers", times, without, asked)
	}
	t.Logf("%d of %d answers missed a leader, all were ready", without, asked)
}

// handOver moves leaderships from node to node until ctx ends, and returns how many it moved.
func (c *threeNodes) handOver(ctx context.Context, ranges quota.RangeID) (times int) {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		for _, n := range c.running() {
			for r := range ranges {
				if g := n.host.Group(raftgroup.OfRange(r)); g != nil && g.TransferTo(ctx, c.ids()[times%3]) == nil {
					times++
				}
			}
		}
	}
	return times
}
