package transport

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// MaxPeers is the maximum number of peers of a node: as many as a cluster can have ranges, since a
// node beyond that would lead none. A peer takes four connections, two of them dialed by this node.
const MaxPeers = 256

var errRemoved = errors.New("the peer has been removed")

// peerSet maps ids to the known peers. It is immutable once stored, so readers need no lock.
type peerSet map[quota.NodeID]*peer

// peer returns a peer, or nil if it is unknown.
func (n *Net) peer(id quota.NodeID) *peer { return (*n.peers.Load())[id] }

// checkPeers returns all errors in a set of peers, joined.
func checkPeers(self quota.NodeID, peers map[quota.NodeID]string) error {
	var errs []error
	if len(peers) > MaxPeers {
		errs = append(errs, fmt.Errorf("peers: are %d; at most %d", len(peers), MaxPeers))
	}
	for id, addr := range peers {
		switch {
		case id == self:
			errs = append(errs, errors.New("peers: contain this node itself"))
		case id == "" || addr == "":
			errs = append(errs, fmt.Errorf("peers: %q at %q: both must be set", id, addr))
		}
	}
	return errors.Join(errs...)
}

// Peers returns a copy of the peers and the addresses at which they are dialed.
func (n *Net) Peers() map[quota.NodeID]string {
	peers := map[quota.NodeID]string{}
	for id, p := range *n.peers.Load() {
		peers[id] = p.address()
	}
	return peers
}

// SetPeers replaces the peers: all other nodes, without this one, and the addresses where they
// listen; at most [MaxPeers]. It may be called before and after Start, from any goroutine, and
// does not wait for the network.
//
//   - A new peer is dialed at once and may connect from now on.
//   - A peer whose address has changed is dialed at the new address from now on, at once if it is
//     not connected, even if an attempt at the old address is in progress. Established
//     connections stay.
//   - A missing peer is removed: its connections are closed in both directions, calls that wait
//     for it fail with ErrLost, and WaitConnected fails with ErrUnreachable. Its last event is
//     Removed, so that listeners forget it; its process may or may not have ended.
//
// The error names what is wrong with the set, or is ErrClosed. In either case nothing has
// changed.
func (n *Net) SetPeers(peers map[quota.NodeID]string) error {
	if err := checkPeers(n.cfg.Self, peers); err != nil {
		return fmt.Errorf("transport: %w", err)
	}
	lost, err := n.swapPeers(peers)
	for _, c := range lost {
		c.close(errRemoved)
	}
	return err
}

// swapPeers installs a new peer set and returns the connections of peers that are not in it. It
// holds mu throughout, so a peer that is removed and added again is Removed before it is Up.
func (n *Net) swapPeers(peers map[quota.NodeID]string) ([]*conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil, ErrClosed
	}
	old, now := *n.peers.Load(), peerSet{}
	for id, addr := range peers {
		p := old[id]
		if p == nil {
			p = newPeer(n, id, addr)
			if n.started {
				n.dial(p)
			}
		}
		now[id] = p
	}
	n.peers.Store(&now)
	for id, addr := range peers {
		now[id].move(addr)
	}
	for id, p := range old {
		if now[id] == nil {
			p.remove()
		}
	}
	var lost []*conn
	for c := range n.conns {
		if c, ok := c.(*conn); ok && now[c.peer] == nil {
			lost = append(lost, c)
		}
	}
	return lost, nil
}

// dial starts the links of a peer. The caller holds mu, and the Net is not closed.
func (n *Net) dial(p *peer) {
	for _, l := range p.links {
		n.wg.Go(func() { l.run(p.ctx) })
	}
}

// address returns the address at which the peer is dialed.
func (p *peer) address() string { return *p.addr.Load() }

// move changes the address at which the peer is dialed.
func (p *peer) move(addr string) {
	if p.address() == addr {
		return
	}
	p.addr.Store(&addr)
	for _, l := range p.links {
		l.abortAttempt()
	}
}

// remove ends the links and reports Removed, the peer's last event.
func (p *peer) remove() {
	p.mu.Lock()
	p.setNotUp()
	if !p.removed {
		p.removed = true
		p.net.notify(p.id, Removed)
	}
	p.mu.Unlock()
	p.cancel()
}

// abortAttempt makes an unconnected link retry immediately at the current address. The caller has
// already stored that address, so an attempt either reads the new one or is canceled here.
func (l *link) abortAttempt() {
	if l.conn.Load() != nil {
		return
	}
	if giveUp := l.giveUp.Load(); giveUp != nil {
		(*giveUp)()
	}
	l.redialNow()
}
