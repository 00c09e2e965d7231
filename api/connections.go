package api

import (
	"math"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/subnet"
)

// ConnectionBounds bounds the open connections of a port. 0 means no bound.
type ConnectionBounds struct {
	Total      int
	PerAddress int // per address; for IPv6, per /64 network
}

// Bound returns a listener that bounds its connections. It closes a connection beyond a bound at
// once, before it reads anything: the connection neither waits in a queue that delays others, nor
// costs a handshake. It counts refused connections in reg, by the port's name.
func Bound(l net.Listener, port string, b ConnectionBounds, reg prometheus.Registerer) net.Listener {
	labels := prometheus.Labels{"port": port}
	unbounded := func(n int) int64 {
		if n == 0 {
			return math.MaxInt64
		}
		return int64(n)
	}
	out := &boundListener{
		Listener: l, open: fairshare.New(unbounded(b.Total), unbounded(b.PerAddress)),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_connections_refused_total", Help: "Connections closed on arrival, by port and by the bound that was reached (total, address).", ConstLabels: labels,
		}, []string{"bound"}),
	}
	for _, bound := range []string{"total", "address"} {
		out.refused.WithLabelValues(bound) // exports 0 before the first refusal
	}
	reg.MustRegister(out.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_connections", Help: "Connections open, by port.", ConstLabels: labels,
	}, func() float64 { return float64(out.open.Held()) }))
	return out
}

type boundListener struct {
	net.Listener
	open    *fairshare.Pool // by network
	refused *prometheus.CounterVec
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, why := subnet.OfConn(c.RemoteAddr()).String(), "total"
		switch l.open.TryAcquire(from, 1) {
		case fairshare.NotFull:
			return &boundConn{Conn: c, release: sync.OnceFunc(func() { l.open.Release(from, 1) })}, nil
		case fairshare.Each:
			why = "address"
		}
		l.refused.WithLabelValues(why).Inc()
		_ = c.Close() // nothing was sent on it
	}
}

type boundConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
