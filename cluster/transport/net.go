package transport

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Net is this node's side of all links.
type Net struct {
	cfg   Config
	log   *slog.Logger
	peers atomic.Pointer[peerSet] // replaced under mu
	fault atomic.Pointer[func(quota.NodeID, peerv1.Lane) Fault]

	ctx    context.Context // ends with Close, which holds mu
	cancel context.CancelFunc
	wg     sync.WaitGroup

	unauthenticated unauthConns   // accepted connections without a handshake
	handshakes      chan struct{} // a slot per goroutine that runs a handshake
	snapshots       chan struct{} // a slot per accepted snapshot
	logs            logLimit

	mu       sync.Mutex
	started  bool
	conns    map[closer]struct{} // everything that Close must end
	accepted map[inKey]*conn     // newest accepted connection per peer and lane

	events eventQueue
}

type closer interface{ close(err error) }

type inKey struct {
	peer quota.NodeID
	lane peerv1.Lane
}

// New returns a Net that neither dials nor accepts before Start, so that callers can connect the
// handlers to what they build on top of it.
func New(cfg Config) (*Net, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	cfg.fill()
	n := &Net{
		cfg: cfg, log: cfg.Logger,
		handshakes: make(chan struct{}, maxAdmitting), snapshots: make(chan struct{}, maxSnapshots),
		conns: map[closer]struct{}{}, accepted: map[inKey]*conn{},
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.events.wake = make(chan struct{}, 1)
	peers := peerSet{}
	for id, addr := range cfg.Peers {
		peers[id] = newPeer(n, id, addr)
	}
	n.peers.Store(&peers)
	return n, nil
}

// Start begins to accept and dial. Only the first call has an effect.
func (n *Net) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started || n.ctx.Err() != nil {
		return
	}
	n.started = true
	n.wg.Go(n.dispatch)
	n.wg.Go(n.accept)
	for _, p := range *n.peers.Load() {
		n.dial(p)
	}
}

// Close ends all connections without a goodbye and waits for every goroutine, including handlers
// that still run. It causes no events.
func (n *Net) Close() error {
	n.mu.Lock()
	first := n.ctx.Err() == nil
	n.cancel()
	open := make([]closer, 0, len(n.conns))
	for c := range n.conns {
		open = append(open, c)
	}
	n.mu.Unlock()
	var err error
	if first {
		err = n.cfg.Listener.Close()
	}
	for _, c := range open {
		c.close(ErrClosed)
	}
	n.wg.Wait()
	return err
}

// track registers c so that Close, or the removal of its peer, ends it. If either has already
// happened, track closes c and returns false.
func (n *Net) track(c closer) bool {
	err := n.add(c)
	if err != nil {
		c.close(err)
	}
	return err == nil
}

func (n *Net) add(c closer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return ErrClosed
	}
	if c, ok := c.(*conn); ok && n.peer(c.peer) == nil {
		return errRemoved
	}
	n.conns[c] = struct{}{}
	return nil
}

func (n *Net) untrack(c closer) {
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

func (n *Net) connTo(to quota.NodeID, lane peerv1.Lane) (*conn, error) {
	p := n.peer(to)
	if p == nil {
		return nil, fmt.Errorf("%w: no node %q is known", ErrUnreachable, to)
	}
	l := p.link(lane)
	if l == nil {
		return nil, fmt.Errorf("transport: lane %v carries no frames", lane)
	}
	c := l.conn.Load()
	if c == nil {
		return nil, ErrUnreachable
	}
	return c, nil
}

// Send queues a frame that expects no answer. It never blocks: it returns ErrUnreachable if the
// peer is not connected and ErrBusy if the queue is full. A queued frame may still be lost with
// the connection.
func (n *Net) Send(to quota.NodeID, lane peerv1.Lane, f *peerv1.Frame) error {
	c, err := n.connTo(to, lane)
	if err != nil {
		return err
	}
	return c.send(f, 0, false)
}

// state returns f of a peer, with its lock held; the zero value for an unknown peer.
func state[T any](n *Net, id quota.NodeID, f func(*peer) T) (out T) {
	if p := n.peer(id); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		out = f(p)
	}
	return out
}

// Connected reports whether the peer is Up.
func (n *Net) Connected(id quota.NodeID) bool {
	return state(n, id, func(p *peer) bool { return p.up })
}

// Refusal returns the reason of the peer's last refusal of a connection from this node; "" if it
// has not refused since the last successful one.
func (n *Net) Refusal(id quota.NodeID) string {
	return state(n, id, func(p *peer) string { return p.refusal })
}

// EndedBefore returns the first incarnation of the peer that may still be running. All earlier
// ones have ended, because a later one answered or the peer announced its end; see MarkDead. It
// returns 0 if no incarnation is known to have ended, and for an unknown peer.
func (n *Net) EndedBefore(id quota.NodeID) quota.Incarnation {
	return state(n, id, func(p *peer) quota.Incarnation { return p.endedBefore })
}

// helloOf returns the peer's last Hello; nil, whose fields read as 0, for a peer that has not
// connected since this process started, and for an unknown peer.
func (n *Net) helloOf(id quota.NodeID) *peerv1.Hello {
	if p := n.peer(id); p != nil {
		return p.hello.Load()
	}
	return nil
}

// LevelOf returns the feature level from the peer's last handshake, whichever side dialed. It
// returns 0 for a peer that has not connected since this process started, and for an unknown
// peer.
func (n *Net) LevelOf(id quota.NodeID) uint32 { return n.helloOf(id).GetLevel() }

// PackedOf returns the packed form that the peer reads, from its last handshake; 0 where LevelOf
// returns 0.
func (n *Net) PackedOf(id quota.NodeID) uint32 { return n.helloOf(id).GetPacked() }

// FirstIncarnationOf returns the first incarnation of a process with the peer's data, from its
// last handshake; 0 where LevelOf returns 0.
func (n *Net) FirstIncarnationOf(id quota.NodeID) quota.Incarnation {
	return quota.Incarnation(n.helloOf(id).GetFirstIncarnation())
}

// IncarnationOf returns the peer's incarnation, from its last handshake; 0 where LevelOf returns
// 0.
func (n *Net) IncarnationOf(id quota.NodeID) quota.Incarnation {
	return quota.Incarnation(n.helloOf(id).GetIncarnation())
}

// WaitConnected waits until the peer is Up. It returns the context's error, ErrClosed, or
// ErrUnreachable if the peer is unknown or is removed in the meantime.
func (n *Net) WaitConnected(ctx context.Context, id quota.NodeID) error {
	p := n.peer(id)
	if p == nil {
		return fmt.Errorf("%w: no node %q is known", ErrUnreachable, id)
	}
	select {
	case <-p.whenUp():
		return nil
	case <-p.ctx.Done():
		if n.ctx.Err() != nil {
			return ErrClosed
		}
		return fmt.Errorf("%w: node %q has been removed", ErrUnreachable, id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// MarkDead records that the peer announced its end. It causes one Dead event and leaves the
// connections alone. The peer counts as not connected until its connections are lost and
// established again, or until a beacon from the connected incarnation proves the announcement
// wrong.
func (n *Net) MarkDead(id quota.NodeID) {
	p := n.peer(id)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endedBefore = max(p.endedBefore, p.newest()+1)
	p.setDead()
}
