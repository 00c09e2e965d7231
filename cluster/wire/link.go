package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
)

var errNewLife = errors.New("the peer has restarted")

// link keeps one connection to a peer standing: dial, greet, serve, again.
type link struct {
	peer *peer
	slot int
	lane peerv1.Lane
	conn atomic.Pointer[conn] // nil while none stands
	poke chan struct{}        // try again now

	told map[string]bool // refusals already logged
}

// run dials until the context ends. The first redial after a loss is
// immediate: it tells a dead process (refused) from a broken path (timeout). A
// peer that takes connections and drops them at once is tried more and more
// slowly.
func (l *link) run(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if attempt > 0 && !l.wait(ctx, attempt-1) {
			return
		}
		c, err := l.connect(ctx)
		if err != nil {
			l.failed(err)
			continue
		}
		start := time.Now()
		l.serve(c)
		if time.Since(start) >= settledAfter {
			attempt = -1
		}
	}
}

// wait sleeps between 0 and a bound that doubles with every attempt.
func (l *link) wait(ctx context.Context, attempt int) bool {
	bound := min(maxBackoff, minBackoff<<min(attempt, 10))
	t := time.NewTimer(rand.N(bound) + time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.poke:
	case <-ctx.Done():
		return false
	}
	return true
}

func (l *link) connect(ctx context.Context) (*conn, error) {
	n := l.peer.net
	if n.faultOf(l.peer.id, l.lane).Cut {
		return nil, errCut
	}
	dialCtx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	nc, err := n.cfg.Dial(dialCtx, l.peer.addr)
	if err != nil {
		return nil, err
	}
	// The handshake must end when the Net does, not only at its own deadline.
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	c, err := n.greet(nc, l.peer.id, l.lane)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return c, nil
}

// failed says Dead when nobody listens, and logs a refusal once per text.
func (l *link) failed(err error) {
	if errors.Is(err, syscall.ECONNREFUSED) {
		l.peer.refused()
	}
	var r *refusedError
	if errors.As(err, &r) && !l.told[r.text] && len(l.told) < maxRefusalTexts {
		if l.told == nil {
			l.told = map[string]bool{}
		}
		l.told[r.text] = true
		l.peer.net.log.Error("peer does not take this node", "peer", l.peer.id, "addr", l.peer.addr, "lane", l.lane, "reason", r.text)
		return
	}
	l.peer.net.log.Debug("no connection", "peer", l.peer.id, "addr", l.peer.addr, "lane", l.lane, "error", err)
}

// serve runs a connection until it ends.
func (l *link) serve(c *conn) {
	n := l.peer.net
	if !n.track(c) {
		return
	}
	defer n.untrack(c)
	l.conn.Store(c)
	if !l.peer.linkUp(l.slot, c.incarnation) {
		c.close(errNewLife)
	}
	n.wg.Go(c.writeLoop)
	c.readLoop(func(f *peerv1.Frame) {
		if f.Answer {
			c.answered(f)
		}
	})
	l.conn.CompareAndSwap(c, nil)
	l.peer.linkDown(l.slot, c.incarnation)
	n.log.Debug("connection lost", "peer", l.peer.id, "lane", l.lane, "error", c.err)
}
