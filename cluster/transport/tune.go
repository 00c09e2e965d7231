package transport

import (
	"net"
	"time"
)

// tune sets the socket options of a connection, through TLS if needed. They detect a path that
// loses everything in about ten seconds, both with traffic (unacknowledged data) and without
// (keepalive).
func tune(nc net.Conn) {
	tcp, ok := lowest(nc).(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetNoDelay(true)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3})
	setUserTimeout(tcp, writeLimit)
}

// lowest returns the connection below TLS and other wrappers.
func lowest(nc net.Conn) net.Conn {
	for {
		wrapped, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = wrapped.NetConn()
	}
}
