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

// unauthConn is an accepted connection until its handshake is done. It must say
// something within hearLimit; only then it gets handshakeLimit for the rest.
type unauthConn struct {
	net.Conn
	from    netip.Prefix // its source
	until   time.Time    // end of handshakeLimit
	heard   atomic.Bool
	evicted atomic.Bool
}

func newUnauthConn(nc net.Conn, now time.Time) *unauthConn {
	s := &unauthConn{Conn: nc, from: source(nc.RemoteAddr()), until: now.Add(handshakeLimit)}
	_ = nc.SetWriteDeadline(s.until)
	_ = nc.SetReadDeadline(now.Add(hearLimit))
	return s
}

// Read moves the deadline when the first bytes come. One goroutine reads.
func (s *unauthConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 && !s.heard.Load() {
		s.heard.Store(true)
		_ = s.SetReadDeadline(s.until)
	}
	return n, err
}

// NetConn returns the connection below.
func (s *unauthConn) NetConn() net.Conn { return s.Conn }

// close is for Net.Close.
func (s *unauthConn) close(error) { _ = s.Conn.Close() }

// linger lets the other side read why TLS failed: closing with bytes unread
// would reset the connection, and the alert with it.
func (s *unauthConn) linger() {
	tcp, ok := s.Conn.(*net.TCPConn)
	if !ok || tcp.CloseWrite() != nil {
		return
	}
	_ = tcp.SetReadDeadline(time.Now().Add(lingerLimit))
	_, _ = io.CopyN(io.Discard, tcp, maxHello)
}

// source is what they are counted by: an address, or the network that one
// subscriber has of IPv6.
func source(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

// unauthenticated connections is the accepted connections without a handshake, oldest first, at
// most maxUnauthenticated. A new one is always taken; when that is one too many, an
// old one goes. So idle connections, however many, keep nobody out, and a flood
// from one source hurts that source first.
type unauthConns struct {
	mu      sync.Mutex
	list    []*unauthConn
	sources map[netip.Prefix]int // how many in the list
}

// add adds a connection. It returns the one that must be closed for it, if any.
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

// pick chooses of the source that has most: its oldest that has said nothing,
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
