package cluster

import (
	"context"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// checkpointEvery, with the time that reports and the log take, is how much of
// what was counted a full restart may forget: about a second.
const checkpointEvery = 750 * time.Millisecond

// beaconEvery bounds how long a lost beacon matters.
const beaconEvery = time.Second

// herald sends beacons: on every change and once a second. It waits for
// nothing else, so that new leaders are known at once.
func (n *Node) herald() {
	defer n.done.Done()
	tick := time.NewTicker(beaconEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-n.beaconNow:
		case <-tick.C:
		}
		n.broadcast(n.beacon())
		n.routes.hasMeta(n.Limits().Version) // noted while there is a meta leader, whoever asks later
	}
}

// turns is in how many parts the ranges are swept and checkpointed, one after another:
// all at once would keep callers waiting.
const turns = 8

// keeper sweeps and checkpoints each range once in checkpointEvery.
func (n *Node) keeper() {
	defer n.done.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-n.stop
		cancel()
	}()
	tick := time.NewTicker(checkpointEvery / turns)
	defer tick.Stop()
	due := schedule{}
	for turn := 0; ; turn = (turn + 1) % turns {
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
		if turn == 0 {
			n.compareClocks()
			n.clock.steer()
			n.expire(n.clock.now())
		}
		now := time.Now()
		n.tend(ctx, func(s *seat) bool { return due.take(now, s.id) })
	}
}

// schedule says when each range is tended next.
type schedule map[quota.RangeID]time.Time

// take reports whether a range is due, and then puts it off by checkpointEvery. Ranges
// whose turn has passed, because the disk took its time, are due together.
func (d schedule) take(now time.Time, r quota.RangeID) bool {
	at, known := d[r]
	if !known {
		at = now.Add(checkpointEvery / turns * time.Duration(r%turns))
		d[r] = at
	}
	if now.Before(at) {
		return false
	}
	if d[r] = at.Add(checkpointEvery); d[r].Before(now) {
		d[r] = now.Add(checkpointEvery)
	}
	return true
}

// tend sweeps and checkpoints those of the ranges led here. Checkpoints of different
// ranges go to different logs: they wait for the disk together.
func (n *Node) tend(ctx context.Context, which func(*seat) bool) {
	slots := make(chan struct{}, 8)
	for _, s := range n.seats {
		if !which(s) || !s.with(func(l *leader.Ledger, now quota.Time) { n.suspectAll(l, now); l.Sweep(now) }) {
			continue
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			s.checkpoint(ctx, true)
		}()
	}
	for range cap(slots) { // wait for the last ones
		slots <- struct{}{}
	}
}

// saver writes checkpoints of what members wait for, as soon as they are wanted.
// What else is wanted meanwhile is in the next one.
func (n *Node) saver() {
	defer n.done.Done()
	ctx, cancel := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	defer busy.Wait()
	defer cancel()
	slots := make(chan struct{}, 8)
	for {
		select {
		case <-n.stop:
			return
		case s := <-n.hasty:
			slots <- struct{}{}
			s.hasty.Store(false)
			busy.Go(func() {
				s.checkpoint(ctx, false)
				<-slots
			})
		}
	}
}

// hand gives grants to their members that do not answer a report.
func (n *Node) hand(grants []quota.Grant) {
	frames := map[quota.NodeID][]*quota.Grant{}
	for i := range grants {
		g := &grants[i]
		if g.To == n.cfg.Self {
			n.post(func(now quota.Time) { n.apply(now, g) })
			continue
		}
		frames[g.To] = append(frames[g.To], g)
	}
	for to, list := range frames {
		n.stats.grants.Add(float64(len(list)))
		n.sendGrants(to, list) // where one is lost the member reports that it holds too little
	}
}

// announce asks for a beacon now.
func (n *Node) announce() {
	select {
	case n.beaconNow <- struct{}{}:
	default:
	}
}

func (n *Node) beacon() *peerv1.Beacon {
	b := &peerv1.Beacon{}
	for _, s := range n.seats {
		if term := s.leads.Load(); term > 0 { // without its lock: a range that is busy holds up no beacon
			b.Leads = append(b.Leads, &peerv1.Lead{Range: uint32(s.id), Term: term})
		}
	}
	if g := n.host.Group(metaGroup); g != nil {
		switch id, term, serving := g.Leader(); {
		case serving:
			b.Meta, b.MetaTerm = true, term
		case id == "":
			n.routes.lostMeta(n.cfg.Self) // without its majority this node leads no more, and nobody else may be there to say who does
		}
	}
	b.PoliciesRevision = n.meta.Policies.Load().Revision
	b.SecurityRevision = n.Security().Revision()
	b.MembersRevision = n.meta.Members.Load().Revision()
	clients, _ := n.clients.count()
	b.Clients = uint32(clients)
	b.LimitsVersion, b.WallUnixNanos = n.Limits().Version, n.clock.wall().UnixNano()
	// After asking who serves: a leader's limits are complete. While its own table is still to take
	// them over it is no leader to anybody who asks for the newest.
	if b.Meta && b.LimitsVersion < n.meta.Current().Version {
		b.Meta, b.MetaTerm = false, 0
	}
	if b.Meta {
		n.routes.setMeta(n.cfg.Self, quota.Term(b.MetaTerm), b.LimitsVersion, b.MembersRevision)
	}
	return b
}

func (n *Node) broadcast(b *peerv1.Beacon) {
	// Also to those that do not count as up: who leads what must reach whoever can be
	// reached, or a wrong word about a peer would leave it without leaders.
	for _, id := range n.routes.allNodes() {
		// An error means that the peer is not connected: it gets one when it is.
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
	if len(news) > 0 { // not here, where the inbox may be full: this goroutine reads Raft's frames too
		go n.post(func(quota.Time) {
			for r, term := range news {
				n.agg.SetLeader(r, from, term)
			}
		})
	}
	n.tellLost(n.routes.keepOnly(from, leads))
	if b.Meta {
		n.routes.setMeta(from, quota.Term(b.MetaTerm), b.LimitsVersion, b.MembersRevision)
	}
	n.wallOf(from, b.WallUnixNanos)
	n.routes.peer(from, func(p *peer) {
		p.version, p.policies, p.security = b.LimitsVersion, b.PoliciesRevision, b.SecurityRevision
		p.members, p.clients = b.MembersRevision, b.Clients
	})
}

// tellLost tells the aggregator which ranges have lost their leaders.
func (n *Node) tellLost(lost []quota.RangeID) {
	for _, r := range lost {
		n.agg.LeaderLost(n.clock.now(), r)
	}
}

// suspectAll tells a ledger which members have probably ended. It is told again and again,
// because a report that was on its way clears a suspicion.
func (n *Node) suspectAll(l *leader.Ledger, now quota.Time) {
	for _, id := range n.routes.refusedNodes() {
		l.Suspect(now, id)
	}
}

// onPeer is told when a peer comes, is lost, has probably ended, or is definitely dead.
func (n *Node) onPeer(id quota.NodeID, e transport.Event) {
	lost := false
	n.routes.peer(id, func(p *peer) {
		if p.up != (e == transport.Up) {
			p.since = time.Now()
		}
		lost = p.up && e != transport.Up && !p.parting
		p.up, p.refused, p.dead, p.parting = e == transport.Up, e == transport.Refused, e == transport.Dead, p.parting && e != transport.Up
	})
	if lost && !n.members.IsOut() { // nobody lets in who is out of the cluster
		n.log.Warn("a node is out of reach, and has not said that it stops", "node", id)
	}
	switch e {
	case transport.Up:
		n.announce()
	case transport.Refused, transport.Removed:
		n.tellLost(n.routes.lost(id))
		n.host.PeerDead(id)
		for _, s := range n.seats {
			s.with(func(l *leader.Ledger, now quota.Time) { l.Suspect(now, id) })
		}
	case transport.Dead:
		n.tellLost(n.routes.lost(id))
		n.host.PeerDead(id)
		before := n.net.EndedBefore(id)
		for _, s := range n.seats {
			s.with(func(l *leader.Ledger, now quota.Time) { l.MemberGone(now, id, before) })
		}
	}
}

// limitsChanged applies limits that the meta group has committed. Nobody is told that they are in
// force before this node decides by them: a request that is sent then would find no limit.
func (n *Node) limitsChanged(limits *quota.Limits) {
	for _, s := range n.seats {
		s.with(func(l *leader.Ledger, now quota.Time) { l.SetLimits(now, limits) })
	}
	n.post(func(now quota.Time) {
		n.agg.SetLimits(now, limits)
		n.active.Store(limits)
		n.log.Info("limits in force", "version", limits.Version, "limits", len(limits.All()))
		n.hub.Publish(quota.Event{At: now, Kind: quota.EventLimitsChanged})
		n.announce()
	})
	n.clients.limitsChanged()
}
