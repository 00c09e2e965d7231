package transport

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/subnet"
)

// accept accepts connections until the listener is closed. unauthConns bounds how many may wait
// for their handshake.
func (n *Net) accept() {
	for {
		nc, err := n.cfg.Listener.Accept()
		if err != nil {
			if n.ctx.Err() != nil {
				return
			}
			n.logs.warn(n.log, logAccept, "accept failed", "err", err)
			if backoff.Sleep(n.ctx, 50*time.Millisecond) != nil { // out of file descriptors: do not spin
				return
			}
			continue
		}
		select {
		case n.handshakes <- struct{}{}:
			n.startHandshake(nc)
		case <-n.ctx.Done():
			_ = nc.Close()
		}
	}
}

// startHandshake starts the handshake of an accepted connection, and evicts another one if there
// are too many.
func (n *Net) startHandshake(nc net.Conn) {
	now := time.Now()
	s := &unauthConn{Conn: nc, from: subnet.OfConn(nc.RemoteAddr()), until: now.Add(handshakeLimit)}
	_ = nc.SetWriteDeadline(s.until)
	_ = nc.SetReadDeadline(now.Add(hearLimit))
	if old := n.unauthenticated.add(s); old != nil {
		n.logs.warn(n.log, logEvicted, "too many connections in their handshake; closing one", "from", old.RemoteAddr(), "most", maxUnauthenticated)
		old.evicted.Store(true)
		old.close(nil)
	}
	n.wg.Go(func() { n.serveAccepted(s) })
}

// serveAccepted runs the handshake and then serves the connection according to its lane.
func (n *Net) serveAccepted(s *unauthConn) {
	c := n.authenticate(s)
	<-n.handshakes
	if c == nil {
		return
	}
	defer n.untrack(c)
	if c.lane == peerv1.Lane_LANE_SNAPSHOT {
		n.serveSnapshot(c)
		return
	}
	n.replace(c)
	if p := n.peer(c.peer); p != nil { // it has just shown that it is there
		for _, l := range p.links {
			l.redialNow()
		}
	}
	n.wg.Go(c.writeLoop)
	c.readLoop(func(f *peerv1.Frame) { n.handleAll(c, f) })
	n.forget(c)
}

// authenticate returns the tracked connection of a peer. If the handshake fails, it closes the
// connection and returns nil.
func (n *Net) authenticate(s *unauthConn) *conn {
	defer n.unauthenticated.remove(s)
	if !n.track(s) {
		return nil
	}
	defer n.untrack(s)
	c, err := n.acceptHandshake(s)
	if err != nil {
		n.logRefused(s, err)
		s.close(err)
		return nil
	}
	if !n.track(c) {
		return nil
	}
	return c
}

// logRefused logs why an unauthenticated connection is refused. It logs probes that send nothing,
// and nodes that are not known yet, at debug.
func (n *Net) logRefused(s *unauthConn, err error) {
	var r *refusedError
	var t *tlsError
	kind := logGarbage
	switch {
	case s.evicted.Load() || n.ctx.Err() != nil:
		return
	case errors.As(err, &r):
		kind = logMismatch
	case errors.As(err, &t):
		kind = logTLS
	}
	probe := !s.heard.Load() && (t == nil || !t.own)
	if probe || r != nil && r.logLevel() < slog.LevelError {
		n.log.Debug("connection rejected", "from", s.RemoteAddr(), "err", err)
		return
	}
	n.logs.warn(n.log, kind, "connection rejected", "from", s.RemoteAddr(), "err", cut(err.Error(), maxSentence))
	if t != nil && !t.own {
		s.linger()
	}
}

// replace makes c the only accepted connection of its peer and lane, which bounds their number. A
// peer that dials again has given up on the earlier connection.
func (n *Net) replace(c *conn) {
	n.mu.Lock()
	old := n.accepted[inKey{c.peer, c.lane}]
	n.accepted[inKey{c.peer, c.lane}] = c
	n.mu.Unlock()
	if old != nil {
		old.close(errReplaced)
	}
}

func (n *Net) forget(c *conn) {
	n.mu.Lock()
	if key := (inKey{c.peer, c.lane}); n.accepted[key] == c {
		delete(n.accepted, key)
	}
	n.mu.Unlock()
}

// handleAll handles a frame. On the control lane it holds back answers while more frames are
// buffered, so that answers to heartbeats that arrived together leave together.
func (n *Net) handleAll(c *conn, f *peerv1.Frame) {
	if c.lane == peerv1.Lane_LANE_CONTROL {
		c.q.pause(true)
		defer func() { c.q.pause(c.fr.more()) }()
	}
	n.handle(c, f)
}

// handle passes a frame to Config.Handle, with a function that answers it.
func (n *Net) handle(c *conn, f *peerv1.Frame) {
	if f.Answer {
		return // this side sends no requests on accepted connections
	}
	if b := f.GetBeacon(); b != nil {
		if p := n.peer(c.peer); p == nil || !p.acceptsBeacon(c.incarnation, b.Leaving) {
			return
		}
	}
	if f.Id == 0 {
		n.cfg.Handle(c.peer, f, func(*peerv1.Frame) {})
		return
	}
	var once sync.Once
	id := f.Id
	n.cfg.Handle(c.peer, f, func(a *peerv1.Frame) { once.Do(func() { c.answer(a, id) }) })
}

// answer sends an answer. If even an answer finds no room in the queue, the peer reads nothing:
// closing the connection fails the peer's calls at once instead of by timeout.
func (c *conn) answer(a *peerv1.Frame, id uint64) {
	err := c.send(a, id, true)
	switch {
	case err == nil, errors.Is(err, ErrUnreachable):
	case errors.Is(err, ErrBusy):
		c.close(err)
	default: // the answer cannot be encoded: report that to the caller
		_ = c.send(&peerv1.Frame{Error: err.Error()}, id, true)
	}
}
