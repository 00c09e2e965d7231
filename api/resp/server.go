package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds in time. The listener bounds the number of connections.
const (
	handshakeTime = 5 * time.Second  // TLS, from the first byte to the last
	commandTime   = 10 * time.Second // of a command, from its first byte to its last
	writeTime     = 10 * time.Second // until the caller has received the answers
	idleTime      = 5 * time.Minute  // without a command
	identifyTime  = 5 * time.Second  // until an issuer of JWTs has sent its keys
	acceptPause   = 50 * time.Millisecond
)

// Options configure a server. The zero value is valid.
type Options struct {
	// Guard identifies and authorizes callers. Nil means that authentication is off.
	Guard *auth.Guard
	// Owner returns the owner of a caller's share of the bounds; the caller is nil with
	// authentication off. Nil, or "", means a caller that is not known: only the whole bounds apply.
	Owner func(caller *auth.Caller, address string) string
	// Seen is called concurrently with every decision, for metrics.
	Seen func(*quota.Decision)
	// Count is called concurrently with the code of every answer: see Codes.
	Count func(code string)
	// Denied is called with every call that was denied to its caller at an address; caller is nil
	// if unknown.
	Denied func(command string, caller *auth.Caller, address string, err error)
	// Logger logs errors; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil means the system clock.
	Now func() time.Time
}

// Server serves the Redis protocol. Its methods are safe for concurrent use.
type Server struct {
	node Node
	opts Options

	stopping atomic.Bool
	wait     sync.WaitGroup
	ids      atomic.Int64
	queued   *fairshare.Pool // bytes of commands that wait for EXEC

	mu        sync.Mutex // guards the fields below
	listeners map[net.Listener]struct{}
	open      map[net.Conn]struct{}
}

// New returns a server for a node.
func New(n Node, o Options) *Server {
	if o.Owner == nil {
		o.Owner = func(*auth.Caller, string) string { return "" }
	}
	if o.Seen == nil {
		o.Seen = func(*quota.Decision) {}
	}
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Denied == nil {
		o.Denied = func(string, *auth.Caller, string, error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{
		node: n, opts: o, queued: fairshare.New(maxQueuedAll, maxQueuedOfOne),
		listeners: map[net.Listener]struct{}{}, open: map[net.Conn]struct{}{},
	}
}

// ErrStopped is the error of Serve after Shutdown.
var ErrStopped = errors.New("resp: the server was stopped")

// Serve serves the connections of a listener until Shutdown, or until accepting fails permanently.
// It closes the listener at the end.
func (s *Server) Serve(l net.Listener) error {
	if !s.listen(l) {
		return errors.Join(ErrStopped, l.Close())
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
	}()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			s.accepted(c)
		case s.stopping.Load():
			return ErrStopped
		case errors.Is(err, net.ErrClosed):
			return err
		default: // as when the process has too many open files
			s.opts.Logger.Warn("redis port: a connection could not be accepted", "err", err)
			time.Sleep(acceptPause)
		}
	}
}

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) accepted(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		_ = c.Close() // nothing was sent on it
		return
	}
	s.open[c] = struct{}{}
	s.wait.Go(func() {
		defer s.closed(c)
		s.serve(c)
	})
}

func (s *Server) closed(c net.Conn) {
	_ = c.Close() // all answers are sent
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// serve does the TLS handshake, if any, and then serves the connection.
func (s *Server) serve(raw net.Conn) {
	c := &conn{Server: s, raw: raw, id: s.ids.Add(1), in: reader{src: raw}}
	if t, ok := raw.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
		err := t.HandshakeContext(ctx)
		cancel()
		if err != nil {
			return
		}
		state := t.ConnectionState()
		c.tls = &state
	}
	c.run()
}

// Shutdown stops the server: it accepts no new connections, answers the commands that have arrived,
// and closes the connections. If ctx ends first, it closes them at once and returns the error of
// ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop(func(c net.Conn) {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // wakes a blocked read; if it fails, the connection is broken and reads fail anyway
	})
	done := make(chan struct{})
	go func() {
		s.wait.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.stop(func(c net.Conn) { _ = c.Close() })
		<-done
		return ctx.Err()
	}
}

func (s *Server) stop(each func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping.Store(true)
	for l := range s.listeners {
		_ = l.Close() // whatever the error, no connection is accepted any more
	}
	for c := range s.open {
		each(c)
	}
}
