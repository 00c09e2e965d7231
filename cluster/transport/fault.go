package transport

import (
	"errors"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Fault is what happens to frames on their way to a peer. It is for tests, but
// compiled in, so that what is tested is what runs.
type Fault struct {
	// Drop loses every frame silently while the connections stand: a black
	// hole, one way. Answers to the peer's questions are lost as well.
	Drop bool
	// Delay holds every frame back so long before it is written.
	Delay time.Duration
	// Cut ends this node's connections to the peer and lets no new one come
	// about: Down, never Dead. The peer's own connections to this node stand.
	Cut bool
}

var errCut = errors.New("cut by a fault")

// SetFault installs what decides on faults, asked for every frame, dial and
// handshake; nil heals. Connections that the new faults cut end at once.
func (n *Net) SetFault(f func(to quota.NodeID, lane peerv1.Lane) Fault) {
	if f == nil {
		n.fault.Store(nil)
		return
	}
	n.fault.Store(&f)
	for id, p := range *n.peers.Load() {
		for _, l := range p.links {
			if c := l.conn.Load(); c != nil && f(id, l.lane).Cut {
				c.close(errCut)
			}
		}
	}
}

func (n *Net) faultOf(to quota.NodeID, lane peerv1.Lane) Fault {
	if f := n.fault.Load(); f != nil {
		return (*f)(to, lane)
	}
	return Fault{}
}
