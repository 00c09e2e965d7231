package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/backoff"
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
	failingSince time.Time       // of the first failure that a joining node may cause; zero after a success
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
	t := time.NewTimer(rand.N(backoff.Bound(minBackoff, maxBackoff, attempt)) + time.Millisecond)
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
	if l.mayBeJoining(r, err) {
		l.peer.net.log.Debug("no connection", "peer", l.peer.id, "addr", addr, "lane", l.lane, "err", err)
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

// joiningGrace is how long a peer may refuse this node as unknown, or have no certificate yet,
// before the link logs a warning: a joining node may dial before the peer has learned of it, and is
// dialed before it has received its certificate.
const joiningGrace = 2 * time.Second

// mayBeJoining reports whether one of the two sides is joining, which takes a moment. The peer's
// refusal r is nil if err has another cause.
func (l *link) mayBeJoining(r *refusedError, err error) bool {
	var without interface{ Joining() bool } // the certificate's error, in the words of TLS.Explain
	unknown := r != nil && strings.HasPrefix(r.text, unknownSender)
	if !unknown && !(errors.As(err, &without) && without.Joining()) {
		return false
	}
	if l.failingSince.IsZero() {
		l.failingSince = time.Now()
	}
	return time.Since(l.failingSince) < joiningGrace
}

// serve runs a connection until it ends.
func (l *link) serve(c *conn, addr string) {
	n := l.peer.net
	if !n.track(c) {
		return
	}
	defer n.untrack(c)
	l.conn.Store(c)
	l.failingSince = time.Time{}
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
