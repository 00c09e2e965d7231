package wire

import (
	"errors"
	"net"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
)

// rawConn is an accepted connection before its handshake, for Close to end.
type rawConn struct{ net.Conn }

func (r rawConn) close(error) { _ = r.Close() }

// accept takes connections until the listener is closed. How many may wait for
// their handshake is bounded; what exceeds it is closed at once, and the other
// side tries again.
func (n *Net) accept() {
	for {
		nc, err := n.cfg.Listener.Accept()
		if err != nil {
			if n.ctx.Err() != nil {
				return
			}
			n.log.Warn("accept failed", "error", err)
			select { // out of files: do not spin
			case <-time.After(50 * time.Millisecond):
			case <-n.ctx.Done():
				return
			}
			continue
		}
		select {
		case n.strangers <- struct{}{}:
			n.wg.Go(func() { n.admit(nc) })
		default:
			n.log.Warn("too many connections in their handshake; closing one", "from", nc.RemoteAddr())
			_ = nc.Close()
		}
	}
}

// admit does the handshake and serves what the connection is for.
func (n *Net) admit(nc net.Conn) {
	raw := rawConn{nc}
	if !n.track(raw) {
		<-n.strangers
		return
	}
	c, err := n.receive(nc)
	<-n.strangers
	ok := err == nil && n.track(c)
	n.untrack(raw)
	if !ok {
		n.log.Debug("handshake failed", "from", nc.RemoteAddr(), "error", err)
		_ = nc.Close()
		return
	}
	defer n.untrack(c)
	if c.lane == peerv1.Lane_LANE_SNAPSHOT {
		n.admitSnapshot(c)
		return
	}
	n.replace(c)
	if p := n.peer(c.peer); p != nil {
		p.hurry()
	}
	n.wg.Go(c.writeLoop)
	c.readLoop(func(f *peerv1.Frame) { n.handle(c, f) })
	n.retire(c)
}

// replace makes c the one accepted connection of its peer and lane: a peer that
// dials again has given up on the earlier one. That bounds their number.
func (n *Net) replace(c *conn) {
	n.mu.Lock()
	old := n.accepted[inKey{c.peer, c.lane}]
	n.accepted[inKey{c.peer, c.lane}] = c
	n.mu.Unlock()
	if old != nil {
		old.close(errReplaced)
	}
}

func (n *Net) retire(c *conn) {
	n.mu.Lock()
	if key := (inKey{c.peer, c.lane}); n.accepted[key] == c {
		delete(n.accepted, key)
	}
	n.mu.Unlock()
}

// handle passes a frame on, with the means to answer it.
func (n *Net) handle(c *conn, f *peerv1.Frame) {
	if f.Answer {
		return // this side asked nothing here
	}
	if f.Id == 0 {
		n.cfg.Handle(c.peer, f, func(*peerv1.Frame) {})
		return
	}
	var once sync.Once
	id := f.Id
	n.cfg.Handle(c.peer, f, func(a *peerv1.Frame) { once.Do(func() { c.answer(a, id) }) })
}

// answer sends an answer. When even that finds no room, the peer reads nothing:
// ending the connection fails its calls at once instead of by timeout.
func (c *conn) answer(a *peerv1.Frame, id uint64) {
	err := c.send(a, id, true)
	switch {
	case err == nil, errors.Is(err, ErrUnreachable):
	case errors.Is(err, ErrBusy):
		c.close(err)
	default: // cannot be encoded: the caller must know
		_ = c.send(&peerv1.Frame{Error: err.Error()}, id, true)
	}
}
