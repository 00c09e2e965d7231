package grpcapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// PointToHTTP returns the listener of a gRPC port without TLS that answers callers of HTTP/1
// with status 400 and where HTTP is. Who speaks HTTP/2 notices nothing: what a connection
// begins with is read once, before the first byte is written on it, and handed on.
func PointToHTTP(l net.Listener, httpAddr string) net.Listener {
	return &pointingListener{Listener: l, httpAddr: httpAddr}
}

type pointingListener struct {
	net.Listener
	httpAddr string
}

// Accept implements net.Listener. It does not wait for what the caller sends.
func (l *pointingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pointingConn{Conn: c, httpAddr: l.httpAddr}, nil
}

// Bounds of the farewell to a caller of HTTP/1: it has sent its request already.
const (
	farewellTime  = time.Second
	farewellBytes = 64 << 10
)

// errHTTP1 ends a connection that was answered.
var errHTTP1 = errors.New("speaks HTTP/1; this is the gRPC port")

// pointingConn looks at the first bytes of a connection. Reads and writes may be concurrent,
// as of any connection.
type pointingConn struct {
	net.Conn
	httpAddr string
	once     sync.Once
	head     []byte // read, and not handed on yet; of the reader, after once
	err      error  // of the look
}

// Read implements net.Conn.
func (c *pointingConn) Read(p []byte) (int, error) {
	c.once.Do(c.look)
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

// Write implements net.Conn. HTTP/2 lets a server speak first, and its words would be
// gibberish in HTTP/1: so the first write waits for what the caller begins with, which
// callers send as soon as they are connected.
func (c *pointingConn) Write(p []byte) (int, error) {
	c.once.Do(c.look)
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Write(p)
}

// look reads the first bytes. The server's deadline for a handshake bounds it.
func (c *pointingConn) look() {
	head := make([]byte, 3)
	n, err := io.ReadFull(c.Conn, head)
	c.head, c.err = head[:n], err
	if err == nil && isHTTP1(string(head)) {
		c.farewell()
		c.head, c.err = nil, errHTTP1
	}
}

// isHTTP1 says whether bytes begin a method of HTTP/1; HTTP/2 begins with PRI.
func isHTTP1(head string) bool {
	switch head {
	case "GET", "HEA", "POS", "PUT", "PAT", "DEL", "OPT":
		return true
	}
	return false
}

// farewell answers, and lets the caller hang up first: what it sent and nobody read would
// make the answer be lost.
func (c *pointingConn) farewell() {
	text := fmt.Sprintf("this is the gRPC port; HTTP is at %s\n", c.httpAddr)
	_ = c.SetDeadline(time.Now().Add(farewellTime))
	if _, err := fmt.Fprintf(c.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.Conn, farewellBytes) // until it hangs up, or the deadline
}
