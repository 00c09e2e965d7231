package transport

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// unauthConn is an accepted connection until its handshake is done. It must send something within
// hearLimit; only then does it get handshakeLimit for the rest.
type unauthConn struct {
	net.Conn
	from    netip.Prefix // the network it comes from
	until   time.Time    // end of handshakeLimit
	heard   atomic.Bool
	evicted atomic.Bool
}

// Read extends the deadline when the first bytes arrive. Only one goroutine reads.
func (s *unauthConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 && !s.heard.Load() {
		s.heard.Store(true)
		_ = s.SetReadDeadline(s.until)
	}
	return n, err
}

// NetConn returns the underlying connection.
func (s *unauthConn) NetConn() net.Conn { return s.Conn }

// close implements closer for Net.Close.
func (s *unauthConn) close(error) { _ = s.Conn.Close() }

// linger gives the other side time to read why TLS failed: closing with unread bytes would reset
// the connection and lose the alert.
func (s *unauthConn) linger() {
	tcp, ok := s.Conn.(*net.TCPConn)
	if !ok || tcp.CloseWrite() != nil {
		return
	}
	_ = tcp.SetReadDeadline(time.Now().Add(lingerLimit))
	_, _ = io.CopyN(io.Discard, tcp, maxHello)
}

// unauthConns holds the accepted connections without a handshake, oldest first, at most
// maxUnauthenticated. It always accepts a new one; if that is one too many, an old one goes. Thus
// idle connections, however many, lock nobody out, and a flood from one source hurts that source
// first.
type unauthConns struct {
	mu      sync.Mutex
	list    []*unauthConn
	sources map[netip.Prefix]int // connections in the list per source
}

// add adds a connection. It returns the one that must be closed to make room, if any.
func (t *unauthConns) add(s *unauthConn) (victim *unauthConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sources == nil {
		t.sources = map[netip.Prefix]int{}
	}
	t.sources[s.from]++
	if len(t.list) >= maxUnauthenticated {
		victim = t.pick()
		t.drop(victim)
	}
	t.list = append(t.list, s)
	return victim
}

// pick returns a connection of the source that has most: its oldest one that has sent nothing, or
// else its oldest.
func (t *unauthConns) pick() *unauthConn {
	most := 0
	for _, s := range t.list {
		most = max(most, t.sources[s.from])
	}
	var oldest *unauthConn
	for _, s := range t.list {
		switch {
		case t.sources[s.from] < most:
		case !s.heard.Load():
			return s
		case oldest == nil:
			oldest = s
		}
	}
	return oldest
}

// remove removes a connection, if it is still there.
func (t *unauthConns) remove(s *unauthConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(s)
}

func (t *unauthConns) drop(s *unauthConn) {
	i := slices.Index(t.list, s)
	if i < 0 {
		return
	}
	t.list = slices.Delete(t.list, i, i+1)
	if t.sources[s.from]--; t.sources[s.from] == 0 {
		delete(t.sources, s.from)
	}
}
