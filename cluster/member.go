package cluster

import (
	"time"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// memberLoop drives the aggregator: the only goroutine that may.
func (n *Node) memberLoop() {
	defer n.done.Done()
	timer := time.NewTimer(n.cfg.Sync)
	defer timer.Stop()
	sweep := n.clock.Now()
	var last gathering
	var room aggregator.Room
	for {
		select {
		case <-n.stop:
			return
		case f := <-n.inbox:
			n.work(f)
			n.clients.Collected()
		case <-n.wake:
		case <-timer.C:
		}
		now := n.clock.Now()
		if more := last.left(now, n.wait.Any()); more > 0 {
			timer.Reset(more)
			continue
		}
		n.send(n.agg.CollectInto(now, &room))
		n.Recorder.Tick(now)
		if now.Sub(sweep) >= time.Second {
			sweep = now
			n.agg.Sweep(now)
		}
		timer.Reset(max(n.agg.NextWake().Sub(n.clock.Now()), 200*time.Microsecond))
	}
}

// gather is how long keys that are to be reported at once wait for each other, where no
// caller waits for the answer. Under load many come in it: one frame for each leader
// instead of one for each key.
const gather = time.Millisecond

// gathering is when keys were last gathered.
type gathering struct{ last quota.Time }

// left returns how long others may still join what is to be sent now; 0 says that it
// goes now.
func (g *gathering) left(now quota.Time, waited bool) time.Duration {
	if more := g.last.Add(gather).Sub(now); more > 0 && g.last > 0 && !waited {
		return more
	}
	g.last = now
	return 0
}

// work runs f and whatever else is in the inbox.
func (n *Node) work(f func(quota.Time)) {
	f(n.clock.Now())
	for range inboxSize {
		select {
		case f = <-n.inbox:
			f(n.clock.Now())
		default:
			return
		}
	}
}

// post hands work to the member loop, waiting for room.
func (n *Node) post(f func(now quota.Time)) {
	select {
	case n.inbox <- f:
	case <-n.stop:
	}
}

// poke wakes the member loop.
func (n *Node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// send delivers reports: those of ranges led here are booked at once, the
// others leave in one frame for each leader.
func (n *Node) send(reports []quota.Report) {
	var byNode map[quota.NodeID][]*quota.Report
	for i := range reports {
		r := &reports[i]
		to, _ := n.agg.Leader(r.Range)
		n.stats.reports.Inc()
		n.stats.reportedKeys.Add(float64(len(r.Entries)))
		if to == n.cfg.Self {
			n.bookOwn(r)
			continue
		}
		n.slow.sent(n, to, r)
		if byNode == nil {
			byNode = map[quota.NodeID][]*quota.Report{}
		}
		byNode[to] = append(byNode[to], r)
	}
	for to, list := range byNode {
		n.sendReports(to, list)
	}
}

func (n *Node) bookOwn(r *quota.Report) {
	if g, ok := n.ranges.BookOwn(r); ok {
		n.apply(n.clock.Now(), &g)
	}
}

// sendReports sends reports to a leader, as many in a frame as it takes. If one is lost
// its keys are reported again: counters are cumulative.
func (n *Node) sendReports(to quota.NodeID, list []*quota.Report) {
	peerproto.InFrames(list, func(r *quota.Report) int { return len(r.Entries) }, func(part []*quota.Report) { n.sendReportsFrame(to, part) })
}

func (n *Node) sendFrame(to quota.NodeID, f *peerv1.Frame) {
	if err := n.net.Send(to, peerv1.Lane_LANE_DATA, f); err != nil {
		n.stats.unsent.Inc()
	}
}

// toMember has the member loop take grants. When its inbox is full they are
// dropped: the reports are not answered then, and sent again.
func (n *Node) toMember(f func(now quota.Time)) {
	select {
	case n.inbox <- f:
	default:
		n.stats.droppedGrants.Inc()
	}
}

func (n *Node) apply(now quota.Time, g *quota.Grant) {
	n.slow.answered(n, g)
	n.agg.Apply(now, *g)
	n.wait.Notify(g)
}
