package cluster

import (
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// beaconEvery is the interval of beacons. It bounds how long a lost beacon matters.
const beaconEvery = time.Second

// beaconLoop sends a beacon on every change and once a second, and asks peers for the time. It never
// blocks on anything else, so that peers learn of new leaders at once.
func (n *Node) beaconLoop() {
	tick := time.NewTicker(beaconEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.beaconNow:
			n.askClocks(false)
		case <-tick.C:
			n.askClocks(true)
		}
		n.broadcast(n.beacon())
		n.routes.hasMeta(n.Limits().Version) // record it while there is a meta leader, for later callers
	}
}

// announce triggers a beacon. It does not block.
func (n *Node) announce() {
	select {
	case n.beaconNow <- struct{}{}:
	default:
	}
}

func (n *Node) beacon() *peerv1.Beacon {
	b := &peerv1.Beacon{Leads: n.ranges.Leads()}
	if g := n.host.Group(raftgroup.MetaGroup); g != nil {
		switch id, term, serving := g.Leader(); {
		case serving:
			b.Meta, b.MetaTerm = true, term
		case id == "":
			// This node has lost its majority and leads no more. Perhaps no other node
			// is left to report a new leader.
			n.routes.lostMeta(n.cfg.Self)
		}
	}
	b.PoliciesRevision = n.meta.Policies.Load().Revision
	b.SecurityRevision = n.Security().Revision()
	b.MembersRevision = n.meta.Members.Load().Revision()
	clients, _ := n.clients.Count()
	b.Clients = uint32(clients)
	b.Resources, b.Faults = n.load.read(), beaconFaults(n.faults())
	b.LimitsVersion = n.Limits().Version
	// Read the limits after the leader: a serving leader has applied all limits. Until its
	// own table has taken them over, it does not announce itself as the source of the newest limits.
	if b.Meta && b.LimitsVersion < n.meta.Current().Version {
		b.Meta, b.MetaTerm = false, 0
	}
	if b.Meta {
		n.routes.setMeta(n.cfg.Self, quota.Term(b.MetaTerm), b.LimitsVersion, b.MembersRevision)
	}
	return b
}

func (n *Node) broadcast(b *peerv1.Beacon) {
	// Send to peers that do not count as up too: otherwise a wrong state of a peer here would
	// leave it without leaders.
	for _, id := range n.routes.allNodes() {
		// An error means that the peer is not connected; it gets a beacon once it is.
		_ = n.net.Send(id, peerv1.Lane_LANE_CONTROL, &peerv1.Frame{Body: &peerv1.Frame_Beacon{Beacon: b}})
	}
}

func (n *Node) onBeacon(from quota.NodeID, b *peerv1.Beacon) {
	if b.Leaving {
		n.routes.peer(from, func(p *peer) { p.parting = true })
		n.net.MarkDead(from)
		return
	}
	leads, news := make(map[quota.RangeID]bool, len(b.Leads)), map[quota.RangeID]quota.Term{}
	for _, l := range b.Leads {
		r, term := quota.RangeID(l.Range), quota.Term(l.Term)
		if int(r) >= n.cfg.Ranges {
			continue
		}
		leads[r] = true
		if n.routes.set(r, from, term) {
			news[r] = term
		}
	}
	if len(news) > 0 { // on another goroutine: the inbox may be full, and this one reads Raft's frames too
		go n.UseLeader(from, news)
	}
	n.leadersLost(n.routes.retainLeads(from, leads))
	if b.Meta {
		n.routes.setMeta(from, quota.Term(b.MetaTerm), b.LimitsVersion, b.MembersRevision)
	}
	b.Faults = beaconFaults(b.Faults)
	n.routes.peer(from, func(p *peer) { p.beacon = b })
}

// leadersLost reports ranges that have lost their leaders to the aggregator. It may block on the inbox.
func (n *Node) leadersLost(lost []quota.RangeID) {
	for _, r := range lost {
		n.LeaderLost(r)
	}
}

// onPeer handles a change of a peer's state: connected, lost, probably ended, or certainly dead.
func (n *Node) onPeer(id quota.NodeID, e transport.Event) {
	lost := false
	n.routes.peer(id, func(p *peer) {
		if p.up() != (e == transport.Up) {
			p.since = time.Now()
		}
		lost = p.up() && e != transport.Up && !p.parting
		p.state, p.parting = e, p.parting && e != transport.Up
		p.clockKnown = p.clockKnown && p.up()
	})
	if lost && !n.members.IsOut() { // peers refuse a node that is out of the cluster: no warning then
		n.log.Warn("a node is unreachable, and has not announced a stop", "node", id)
	}
	switch e {
	case transport.Up:
		n.announce()
	case transport.Refused, transport.Removed:
		n.leadersLost(n.routes.clearNode(id))
		n.host.PeerDead(id)
		n.ranges.Suspect(id)
	case transport.Dead:
		n.leadersLost(n.routes.clearNode(id))
		n.host.PeerDead(id)
		n.ranges.MemberGone(id, n.net.EndedBefore(id))
	}
}
