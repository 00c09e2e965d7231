package grpcapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// PointToHTTP returns a listener for a gRPC port. It answers HTTP/1 callers without TLS with status
// 400 and the address of HTTP. HTTP/2 and TLS callers see no difference: the listener reads the first bytes
// of a connection once, before the first write, and passes them on.
func PointToHTTP(l net.Listener, httpAddr string) net.Listener {
	return &pointingListener{Listener: l, httpAddr: httpAddr}
}

type pointingListener struct {
	net.Listener
	httpAddr string
}

// Accept implements net.Listener. It does not wait for bytes from the caller.
func (l *pointingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pointingConn{Conn: c, httpAddr: l.httpAddr}, nil
}

// Bounds of the answer to an HTTP/1 caller, which has already sent its request.
const (
	farewellTime  = time.Second
	farewellBytes = 64 << 10
)

// errHTTP1 ends a connection after the answer.
var errHTTP1 = errors.New("speaks HTTP/1; this is the gRPC port")

// pointingConn inspects the first bytes of a connection. Reads and writes may be concurrent, as on
// any connection.
type pointingConn struct {
	net.Conn
	httpAddr string
	once     sync.Once
	head     []byte // read, but not passed on yet; used by the reader, after once
	err      error  // of look
}

// Read implements net.Conn.
func (c *pointingConn) Read(p []byte) (int, error) {
	c.once.Do(c.sniff)
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn. HTTP/2 lets a server send first, and HTTP/1 callers cannot read that.
// The first write therefore waits for the caller's first bytes, which callers send as soon as they
// connect.
func (c *pointingConn) Write(p []byte) (int, error) {
	c.once.Do(c.sniff)
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Write(p)
}

// sniff reads the first bytes. The server's handshake deadline bounds it.
func (c *pointingConn) sniff() {
	head := make([]byte, 3)
	n, err := io.ReadFull(c.Conn, head)
	c.head, c.err = head[:n], err
	if err == nil && isHTTP1(string(head)) {
		c.farewell()
		c.head, c.err = nil, errHTTP1
	}
}

// isHTTP1 reports whether the first three bytes begin an HTTP/1 method; HTTP/2 begins with PRI.
func isHTTP1(head string) bool {
	switch head {
	case "GET", "HEA", "POS", "PUT", "PAT", "DEL", "OPT":
		return true
	}
	return false
}

// farewell sends the answer and lets the caller close the connection first: closing it with unread
// bytes would reset it and could lose the answer.
func (c *pointingConn) farewell() {
	text := fmt.Sprintf("this is the gRPC port; HTTP is at %s\n", c.httpAddr)
	_ = c.SetDeadline(time.Now().Add(farewellTime))
	if _, err := fmt.Fprintf(c.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.Conn, farewellBytes) // until the caller closes, or the deadline
}
