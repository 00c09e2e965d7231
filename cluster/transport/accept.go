package transport

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
)

// accept takes connections until the listener is closed. How many may wait for
// their handshake is bounded: see strangers.
func (n *Net) accept() {
	for {
		nc, err := n.cfg.Listener.Accept()
		if err != nil {
			if n.ctx.Err() != nil {
				return
			}
			n.logs.warn(n.log, logAccept, "accept failed", "err", err)
			select { // out of files: do not spin
			case <-time.After(50 * time.Millisecond):
			case <-n.ctx.Done():
				return
			}
			continue
		}
		select {
		case n.admitting <- struct{}{}:
			n.take(nc)
		case <-n.ctx.Done():
			_ = nc.Close()
		}
	}
}

// take makes a connection a stranger, and evicts another if there is need.
func (n *Net) take(nc net.Conn) {
	s := newStranger(nc, time.Now())
	if old := n.strangers.add(s); old != nil {
		n.logs.warn(n.log, logEvicted, "too many connections in their handshake; closing one", "from", old.RemoteAddr(), "most", maxStrangers)
		old.evicted.Store(true)
		old.close(nil)
	}
	n.wg.Go(func() { n.admit(s) })
}

// admit does the handshake and serves what the connection is for.
func (n *Net) admit(s *stranger) {
	c := n.introduce(s)
	<-n.admitting
	if c == nil {
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
	c.readLoop(func(f *peerv1.Frame) { n.handleAll(c, f) })
	n.retire(c)
}

// introduce makes a tracked connection of a stranger, nil when it is none of a
// peer. It is closed then.
func (n *Net) introduce(s *stranger) *conn {
	defer n.strangers.remove(s)
	if !n.track(s) {
		return nil
	}
	defer n.untrack(s)
	c, err := n.receive(s)
	if err != nil {
		n.turnedAway(s, err)
		s.close(err)
		return nil
	}
	if !n.track(c) {
		return nil
	}
	return c
}

// turnedAway logs why a stranger is not taken. Who says nothing, as probes do,
// or is not known yet, is no news.
func (n *Net) turnedAway(s *stranger, err error) {
	var r *refusedError
	var t *tlsError
	kind := logGarbage
	switch {
	case s.evicted.Load() || n.ctx.Err() != nil:
		return
	case errors.As(err, &r):
		kind = logMisfit
	case errors.As(err, &t):
		kind = logTLS
	}
	probe := !s.heard.Load() && (t == nil || !t.own)
	if probe || r != nil && r.logLevel() < slog.LevelError {
		n.log.Debug("connection not taken", "from", s.RemoteAddr(), "err", err)
		return
	}
	n.logs.warn(n.log, kind, "connection not taken", "from", s.RemoteAddr(), "err", cut(err.Error(), maxSentence))
	if t != nil && !t.own {
		s.linger()
	}
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

// handleAll handles a frame. Answers to heartbeats that came together leave together.
func (n *Net) handleAll(c *conn, f *peerv1.Frame) {
	if c.lane == peerv1.Lane_LANE_CONTROL {
		c.q.hold(true)
		defer func() { c.q.hold(c.fr.more()) }()
	}
	n.handle(c, f)
}

// handle passes a frame on, with the means to answer it.
func (n *Net) handle(c *conn, f *peerv1.Frame) {
	if f.Answer {
		return // this side asked nothing here
	}
	if b := f.GetBeacon(); b != nil && !n.heed(c, b.Leaving) {
		return
	}
	if f.Id == 0 {
		n.cfg.Handle(c.peer, f, func(*peerv1.Frame) {})
		return
	}
	var once sync.Once
	id := f.Id
	n.cfg.Handle(c.peer, f, func(a *peerv1.Frame) { once.Do(func() { c.answer(a, id) }) })
}

// heed says whether a beacon counts. What an earlier life of the peer has left behind in a
// connection does not: its goodbye would be taken for that of the process which is here now.
func (n *Net) heed(c *conn, leaving bool) bool {
	p := n.peer(c.peer)
	return p != nil && p.heed(c.incarnation, leaving)
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
