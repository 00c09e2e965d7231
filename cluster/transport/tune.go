package transport

import (
	"net"
	"time"
)

// tune sets the socket options of a connection, through TLS if need be. A path
// that loses everything is noticed in about ten seconds, whether there is
// traffic (unacknowledged data) or not (keepalive).
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
