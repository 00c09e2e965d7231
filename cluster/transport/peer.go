package transport

import (
	"context"
	"sync"
	"sync/atomic"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// peer is the known state of one other node. Its two links determine that state; every relevant
// change becomes an event.
type peer struct {
	net   *Net
	id    quota.NodeID
	addr  atomic.Pointer[string]
	links [2]*link // control, data

	ctx    context.Context // ends with the Net, or when the peer is removed
	cancel context.CancelFunc

	// hello is that of the newest incarnation that has completed a handshake, whichever side dialed; nil
	// before the first. Replaced under mu.
	hello atomic.Pointer[peerv1.Hello]

	mu          sync.Mutex
	standing    [2]bool // per link
	up          bool    // both links are established, and the peer is not marked dead
	seen        bool    // was up in the known incarnation
	refusing    bool    // Refused was reported and it has not been up since
	dead        bool    // Dead was reported and it has not been up since
	endedBefore quota.Incarnation
	upCh        chan struct{}     // closed while up
	incarnation quota.Incarnation // of the connections that this node dialed
	lastAddr    string            // address of its last connection
	removed     bool              // no more events
	refusal     string            // reason of its last refusal
}

func newPeer(n *Net, id quota.NodeID, addr string) *peer {
	p := &peer{net: n, id: id, upCh: make(chan struct{})}
	p.addr.Store(&addr)
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	p.links[0] = &link{peer: p, slot: 0, lane: peerv1.Lane_LANE_CONTROL, wake: make(chan struct{}, 1)}
	p.links[1] = &link{peer: p, slot: 1, lane: peerv1.Lane_LANE_DATA, wake: make(chan struct{}, 1)}
	return p
}

// link returns the link of a lane, or nil for a lane without one.
func (p *peer) link(lane peerv1.Lane) *link {
	switch lane {
	case peerv1.Lane_LANE_CONTROL:
		return p.links[0]
	case peerv1.Lane_LANE_DATA:
		return p.links[1]
	}
	return nil
}

// linkUp records that a link to the given incarnation of the peer is established, at an address.
// It returns an error if the link must be closed: this incarnation has ended, or the peer has
// been removed.
func (p *peer) linkUp(slot int, incarnation quota.Incarnation, addr string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.removed:
		return errRemoved
	case incarnation < p.incarnation:
		return errRestarted
	}
	p.lastAddr, p.refusal = addr, ""
	if incarnation > p.incarnation {
		p.restarted(slot, incarnation)
	}
	p.standing[slot] = true
	p.setUpIfStanding()
	return nil
}

// restarted ends the earlier incarnation. Its process has certainly ended, and so has the other
// link, whatever the kernel still reports. The caller holds mu.
func (p *peer) restarted(slot int, incarnation quota.Incarnation) {
	p.endedBefore = max(p.endedBefore, incarnation)
	if p.seen {
		p.setDead()
	}
	p.setNotUp()
	p.incarnation, p.seen = incarnation, false
	other := 1 - slot
	p.standing[other] = false
	if c := p.links[other].conn.Load(); c != nil && c.incarnation != incarnation {
		c.close(errRestarted)
	}
}

// linkDown records that a link to the given incarnation of the peer is lost.
func (p *peer) linkDown(slot int, incarnation quota.Incarnation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if incarnation != p.incarnation {
		return // an earlier incarnation, which has already ended
	}
	p.standing[slot] = false
	if p.setNotUp() && !p.removed {
		p.net.notify(p.id, Down)
	}
}

// setNotUp marks the peer as not up, and reports whether it was up. The caller holds mu.
func (p *peer) setNotUp() bool {
	was := p.up
	if was {
		p.up = false
		p.upCh = make(chan struct{})
	}
	return was
}

// refused records that the machine at addr refuses connections because nothing listens there.
// This says something about the peer only at the address of its last connection. It does not
// prove that the process has ended: a proxy or a firewall in front of a live process refuses in
// the same way.
func (p *peer) refused(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seen || addr != p.lastAddr || p.removed {
		return
	}
	p.setNotUp()
	if !p.refusing && !p.dead {
		p.refusing = true
		p.net.notify(p.id, Refused)
	}
}

// setDead reports Dead once. The caller holds mu.
func (p *peer) setDead() {
	p.setNotUp()
	if !p.dead && !p.removed {
		p.dead = true
		p.net.notify(p.id, Dead)
	}
}

// acceptsBeacon reports whether to accept a beacon from that incarnation. It rejects those that an
// earlier incarnation left behind in a connection: its goodbye would be attributed to the current
// process. An incarnation that was
// marked dead but still sends beacons is Up again if both connections to it are established.
// Nothing else would reveal that.
func (p *peer) acceptsBeacon(incarnation quota.Incarnation, leaving bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if incarnation < p.newest() {
		return false
	}
	if !leaving && incarnation == p.incarnation {
		p.setUpIfStanding()
	}
	return true
}

// newest returns the newest incarnation of the peer that has completed a handshake, whichever
// side dialed; 0 before the first.
func (p *peer) newest() quota.Incarnation { return quota.Incarnation(p.hello.Load().GetIncarnation()) }

// setUpIfStanding reports Up when both links are established. The caller holds mu.
func (p *peer) setUpIfStanding() {
	if p.standing[0] && p.standing[1] && !p.up && !p.removed {
		p.up, p.seen, p.refusing, p.dead = true, true, false, false
		close(p.upCh)
		p.net.notify(p.id, Up)
	}
}

// noteHello records the Hello of the newest incarnation that has completed a handshake.
func (p *peer) noteHello(h *peerv1.Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if quota.Incarnation(h.Incarnation) >= p.newest() {
		p.hello.Store(h)
	}
}

func (p *peer) noteRefusal(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusal = text
}

// current returns the known incarnation of the peer, its address, and whether it is up.
func (p *peer) current() (incarnation quota.Incarnation, addr string, up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.incarnation, p.lastAddr, p.up
}

// whenUp returns a channel that is closed once the peer is up.
func (p *peer) whenUp() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upCh
}
