package cluster

import (
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// memberLoop drives the aggregator: the only goroutine that may.
func (n *Node) memberLoop() {
	defer n.done.Done()
	timer := time.NewTimer(n.cfg.Sync)
	defer timer.Stop()
	sweep := n.clock.now()
	for {
		select {
		case <-n.stop:
			return
		case f := <-n.inbox:
			n.work(f)
			n.clients.collected()
		case <-n.wake:
		case <-timer.C:
		}
		now := n.clock.now()
		n.send(n.agg.Collect(now))
		if now.Sub(sweep) >= time.Second {
			sweep = now
			n.agg.Sweep(now)
		}
		timer.Reset(max(n.agg.NextWake().Sub(n.clock.now()), 200*time.Microsecond))
	}
}

// work runs f and whatever else is in the inbox.
func (n *Node) work(f func(quota.Time)) {
	for range inboxSize {
		f(n.clock.now())
		select {
		case f = <-n.inbox:
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

// maxFrameEntries bounds one frame of reports.
const maxFrameEntries = 16384

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
	s := n.seats[r.Range]
	if s == nil {
		return
	}
	if g, ok := s.report(r); ok {
		n.apply(n.clock.now(), &g)
	}
}

// push sends grants that answer no report. One that does not arrive is made
// again.
func (n *Node) push(grants []quota.Grant) {
	for i := range grants {
		g := &grants[i]
		msg := &peerv1.Grants{Grants: []*peerv1.Grant{peerproto.EncodeGrant(g)}}
		if g.To == n.cfg.Self {
			n.onGrants(n.cfg.Self, msg)
			continue
		}
		if err := n.net.Send(g.To, peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Grants{Grants: msg}}); err != nil {
			n.stats.unsent.Inc()
		}
	}
}

func (n *Node) sendReports(to quota.NodeID, list []*quota.Report) {
	msg := &peerv1.Reports{}
	entries := 0
	flush := func() {
		if len(msg.Reports) == 0 {
			return
		}
		if err := n.net.Send(to, peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Reports{Reports: msg}}); err != nil {
			n.stats.unsent.Inc() // the keys are reported again: counters are cumulative
		}
		msg, entries = &peerv1.Reports{}, 0
	}
	for _, r := range list {
		if entries+len(r.Entries) > maxFrameEntries {
			flush()
		}
		msg.Reports = append(msg.Reports, peerproto.EncodeReport(r))
		entries += len(r.Entries)
	}
	flush()
}

// onReports books reports of another member and answers with one frame.
func (n *Node) onReports(from quota.NodeID, msg *peerv1.Reports) {
	out := &peerv1.Grants{}
	for _, pr := range msg.Reports {
		r := peerproto.DecodeReport(from, pr)
		s := n.seats[r.Range]
		if s == nil {
			continue
		}
		if g, ok := s.report(&r); ok {
			out.Grants = append(out.Grants, peerproto.EncodeGrant(&g))
		}
	}
	if len(out.Grants) == 0 {
		return
	}
	n.stats.grants.Add(float64(len(out.Grants)))
	if err := n.net.Send(from, peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Grants{Grants: out}}); err != nil {
		n.stats.unsent.Inc()
	}
}

// onGrants passes grants to the member loop. When its inbox is full they are
// dropped: the reports are not answered then, and sent again.
func (n *Node) onGrants(from quota.NodeID, msg *peerv1.Grants) {
	select {
	case n.inbox <- func(now quota.Time) {
		for _, pg := range msg.Grants {
			g := peerproto.DecodeGrant(from, n.cfg.Self, pg)
			n.apply(now, &g)
		}
	}:
	default:
		n.stats.droppedGrants.Inc()
	}
}

func (n *Node) apply(now quota.Time, g *quota.Grant) {
	n.agg.Apply(now, *g)
	n.wait.Notify(g)
}
