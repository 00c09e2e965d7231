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

// Net is this node's end of all links.
type Net struct {
	cfg   Config
	log   *slog.Logger
	peers atomic.Pointer[peerSet] // replaced under mu
	fault atomic.Pointer[func(quota.NodeID, peerv1.Lane) Fault]

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	unauthenticated unauthConns   // accepted connections without a handshake
	handshakes      chan struct{} // a slot per goroutine that serves one
	snapshots       chan struct{} // a slot per accepted snapshot
	logs            logLimit

	mu       sync.Mutex
	started  bool
	closed   bool
	conns    map[closer]struct{} // all that Close must end
	accepted map[inKey]*conn     // newest accepted connection per peer and lane

	events eventQueue
}

type closer interface{ close(err error) }

type inKey struct {
	peer quota.NodeID
	lane peerv1.Lane
}

// New returns a Net that neither dials nor accepts before Start, so that the
// handlers may be wired to what is built on top of it.
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

// Start accepts and dials. Only the first call counts.
func (n *Net) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started || n.closed {
		return
	}
	n.started = true
	n.wg.Go(n.dispatch)
	n.wg.Go(n.accept)
	for _, p := range *n.peers.Load() {
		n.dial(p)
	}
}

// Close ends all connections without a goodbye and waits for every goroutine,
// so also for handlers that still run. It makes no events.
func (n *Net) Close() error {
	n.mu.Lock()
	first := !n.closed
	n.closed = true
	open := make([]closer, 0, len(n.conns))
	for c := range n.conns {
		open = append(open, c)
	}
	n.mu.Unlock()
	var err error
	if first {
		n.cancel()
		err = n.cfg.Listener.Close()
	}
	for _, c := range open {
		c.close(ErrClosed)
	}
	n.wg.Wait()
	return err
}

// track makes Close end c, and the removal of its peer. False when that has
// happened already: c is closed then.
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
	if n.closed {
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
		return nil, fmt.Errorf("transport: no frames travel on lane %v", lane)
	}
	c := l.conn.Load()
	if c == nil {
		return nil, ErrUnreachable
	}
	return c, nil
}

// Send queues a frame that expects no answer. It never blocks: ErrUnreachable
// when the peer is not connected, ErrBusy when the queue is full. A frame that
// was queued may still be lost with the connection.
func (n *Net) Send(to quota.NodeID, lane peerv1.Lane, f *peerv1.Frame) error {
	c, err := n.connTo(to, lane)
	if err != nil {
		return err
	}
	return c.send(f, 0, false)
}

// Connected says whether the peer is Up.
func (n *Net) Connected(id quota.NodeID) bool {
	p := n.peer(id)
	return p != nil && p.connected()
}

// LevelOf returns the feature level that the peer said in its last handshake,
// whoever dialed; 0 for a peer that has not connected in this incarnation of this process, and
// one that is not known.
func (n *Net) LevelOf(id quota.NodeID) uint32 {
	if p := n.peer(id); p != nil {
		level, _ := p.levelAndFirst()
		return level
	}
	return 0
}

// PackedOf returns the packed form that the peer reads, as it said in its last
// handshake; 0 where LevelOf is.
func (n *Net) PackedOf(id quota.NodeID) uint32 {
	if p := n.peer(id); p != nil {
		return p.packed.Load()
	}
	return 0
}

// FirstIncarnationOf returns the first incarnation of a process with the peer's data, as it said in
// its last handshake; 0 where LevelOf is.
func (n *Net) FirstIncarnationOf(id quota.NodeID) quota.Incarnation {
	if p := n.peer(id); p != nil {
		_, first := p.levelAndFirst()
		return first
	}
	return 0
}

// IncarnationOf returns the peer's incarnation, as it said in its last handshake; 0 where LevelOf is.
func (n *Net) IncarnationOf(id quota.NodeID) quota.Incarnation {
	if p := n.peer(id); p != nil {
		return p.lastIncarnation()
	}
	return 0
}

// Refusal returns why the peer did not take a connection of this node, the last time
// that it refused one; "" if it never did.
func (n *Net) Refusal(id quota.NodeID) string {
	if p := n.peer(id); p != nil {
		return p.lastRefusal()
	}
	return ""
}

// WaitConnected returns nil once the peer is Up, the context's error, ErrClosed,
// or ErrUnreachable when the peer is not known or is removed meanwhile.
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

// EndedBefore returns the first incarnation of the peer that may still go on: all before it are
// definitely over, because a later one answered or the peer announced its end. 0 is
// that none is known to be, and for a peer that is not known.
func (n *Net) EndedBefore(id quota.NodeID) quota.Incarnation {
	p := n.peer(id)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endedBefore
}

// MarkDead says that the peer announced its end. Dead is told once; the connections
// themselves are left alone. The
// peer counts as not connected until it has been lost and has come back, or a beacon of
// the life that is connected shows that the word was wrong.
func (n *Net) MarkDead(id quota.NodeID) {
	if p := n.peer(id); p != nil {
		p.markDead()
	}
}
