package cluster

import (
	"context"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// askClocks asks connected peers for their wall clocks; unless all is set, only those that have not answered since they
// connected. A peer that has not answered yet is not asked again.
func (n *Node) askClocks(all bool) {
	for _, id := range n.routes.clocksToAsk(all) {
		n.done.Go(func() { n.askClock(id) })
	}
}

// askClock asks a peer for its wall clock. The answer is as old as half of the time that it took, give or take as much:
// a beacon, which answers nothing, may have waited for any time on a busy machine.
func (n *Node) askClock(id quota.NodeID) {
	ctx, cancel := context.WithTimeout(context.Background(), beaconEvery)
	defer cancel()
	began := n.clock.Mono()
	f, err := n.net.Call(ctx, id, peerv1.Lane_LANE_CONTROL, &peerv1.Frame{Body: &peerv1.Frame_Clock{Clock: &peerv1.Clock{}}})
	wall := f.GetClock().GetWallUnixNanos()
	if err == nil && wall != 0 {
		n.clock.Peer(id, quota.Time(wall), n.clock.Mono()-began)
	}
	n.routes.peer(id, func(p *peer) { p.clockAsked, p.clockKnown = false, err == nil })
}

// clocksToAsk returns the connected peers to ask, and marks them as asked.
func (t *routes) clocksToAsk(all bool) (ids []quota.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, p := range t.peers {
		if p.up() && !p.clockAsked && (all || !p.clockKnown) {
			p.clockAsked = true
			ids = append(ids, id)
		}
	}
	return ids
}

func (n *Node) clockFrame() *peerv1.Frame {
	return &peerv1.Frame{Body: &peerv1.Frame_Clock{Clock: &peerv1.Clock{WallUnixNanos: n.clock.Wall().UnixNano()}}}
}
