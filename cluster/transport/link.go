package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/sockerr"
)

var errRestarted = errors.New("the peer has restarted")

// link keeps one connection to a peer established: it dials, runs the handshake, serves the
// connection and starts again.
type link struct {
	peer *peer
	slot int
	lane peerv1.Lane
	conn atomic.Pointer[conn] // nil while not connected
	wake chan struct{}        // retry now

	giveUp atomic.Pointer[context.CancelFunc] // cancels the current attempt

	logged       map[string]bool // refusals already logged
	unknownSince time.Time       // when the peer first did not know this node; zero if it does
	logs         logLimit
}

// run dials until the context ends. The first redial after a loss is immediate: it distinguishes
// a process that has probably ended (refused) from a broken path (timeout). A peer that accepts
// connections and drops them at once is retried more and more slowly.
func (l *link) run(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if attempt > 0 && !l.wait(ctx, attempt-1) {
			return
		}
		addr, c, err := l.connect(ctx)
		if err != nil {
			l.failed(addr, err)
			continue
		}
		start := time.Now()
		l.serve(c, addr)
		if time.Since(start) >= settledAfter {
			attempt, l.logged = -1, nil
		}
	}
}

// wait sleeps for a random time up to a bound that doubles with every attempt. It returns false
// if the context ends.
func (l *link) wait(ctx context.Context, attempt int) bool {
	bound := min(maxBackoff, minBackoff<<min(attempt, 10))
	t := time.NewTimer(rand.N(bound) + time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// connect makes one attempt, and also returns the address that it dialed.
func (l *link) connect(ctx context.Context) (addr string, c *conn, err error) {
	n := l.peer.net
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	l.giveUp.Store(&cancel) // see abortAttempt
	addr = l.peer.address()
	if n.faultOf(l.peer.id, l.lane).Cut {
		return addr, nil, errCut
	}
	nc, err := n.cfg.Dial(ctx, addr)
	if err != nil {
		return addr, nil, err
	}
	// The handshake must end with the attempt, not only at its own deadline.
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	c, err = n.dialHandshake(ctx, nc, l.peer.id, l.lane)
	if err != nil {
		_ = nc.Close()
	}
	return addr, c, err
}

// redialNow makes the link retry immediately.
func (l *link) redialNow() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// failed reports Refused when the address refuses connections, and logs each refusal text once.
func (l *link) failed(addr string, err error) {
	if sockerr.Refused(err) {
		l.peer.refused(addr)
	}
	var r *refusedError
	if errors.As(err, &r) {
		l.peer.noteRefusal(r.text)
	}
	if r != nil && l.mayBeJoining(r) {
		return
	}
	if r != nil && !l.logged[r.text] && len(l.logged) < maxRefusalTexts {
		if l.logged == nil {
			l.logged = map[string]bool{}
		}
		l.logged[r.text] = true
		l.peer.net.log.Log(context.Background(), r.logLevel(), "peer rejected this node",
			"peer", l.peer.id, "addr", addr, "lane", l.lane, "reason", r.text)
		return
	}
	if _, ok := errors.AsType[*tlsError](err); ok {
		l.logs.warn(l.peer.net.log, logTLS, "no connection", "peer", l.peer.id, "addr", addr, "lane", l.lane, "err", err)
		return
	}
	l.peer.net.log.Debug("no connection", "peer", l.peer.id, "addr", addr, "lane", l.lane, "err", err)
}

// unknownGrace is how long a peer may refuse this node as unknown before the link logs a warning:
// a joining node may dial before the peer has learned of it.
const unknownGrace = 2 * time.Second

// mayBeJoining reports whether the refusal may come from a peer that will know this node in a
// moment.
func (l *link) mayBeJoining(r *refusedError) bool {
	if !strings.HasPrefix(r.text, unknownSender) {
		return false
	}
	if l.unknownSince.IsZero() {
		l.unknownSince = time.Now()
	}
	return time.Since(l.unknownSince) < unknownGrace
}

// serve runs a connection until it ends.
func (l *link) serve(c *conn, addr string) {
	n := l.peer.net
	if !n.track(c) {
		return
	}
	defer n.untrack(c)
	l.conn.Store(c)
	l.unknownSince = time.Time{}
	if err := l.peer.linkUp(l.slot, c.incarnation, addr); err != nil {
		c.close(err)
	}
	n.wg.Go(c.writeLoop)
	c.readLoop(func(f *peerv1.Frame) {
		if f.Answer {
			c.answered(f)
		}
	})
	l.conn.CompareAndSwap(c, nil)
	l.peer.linkDown(l.slot, c.incarnation)
	n.log.Debug("connection lost", "peer", l.peer.id, "lane", l.lane, "err", c.err)
}
