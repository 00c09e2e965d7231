package transport

import (
	"errors"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Fault describes what happens to frames on their way to a peer. It is for tests, but compiled
// into the product so that the tested code is the code that runs.
type Fault struct {
	// Drop silently loses every frame while the connections stay established: a one-way black
	// hole. It also loses answers to the peer's requests.
	Drop bool
	// Delay holds back every frame for this long before it is written.
	Delay time.Duration
	// Cut ends this node's connections to the peer and prevents new ones: Down, never Dead. The
	// peer's own connections to this node stay established.
	Cut bool
}

var errCut = errors.New("cut by a fault")

// SetFault installs a function that decides on faults, called for every frame, dial and
// handshake; nil removes all faults. Connections that the new faults cut end at once.
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
