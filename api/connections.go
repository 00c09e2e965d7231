package api

import (
	"net"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

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
	out := &boundListener{
		Listener: l, bounds: b, by: map[netip.Prefix]int{},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_connections_refused_total", Help: "Connections closed on arrival, by port and by the bound that was reached (total, address).", ConstLabels: labels,
		}, []string{"bound"}),
	}
	for _, bound := range []string{"total", "address"} {
		out.refused.WithLabelValues(bound) // exports 0 before the first refusal
	}
	reg.MustRegister(out.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_connections", Help: "Connections open, by port.", ConstLabels: labels,
	}, func() float64 {
		out.mu.Lock()
		defer out.mu.Unlock()
		return float64(out.open)
	}))
	return out
}

type boundListener struct {
	net.Listener
	bounds  ConnectionBounds
	refused *prometheus.CounterVec

	mu   sync.Mutex
	open int
	by   map[netip.Prefix]int // at most one entry per connection
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := subnet.OfConn(c.RemoteAddr())
		why := l.add(from)
		if why == "" {
			return &boundConn{Conn: c, release: sync.OnceFunc(func() { l.release(from) })}, nil
		}
		l.refused.WithLabelValues(why).Inc()
		_ = c.Close() // nothing was sent on it
	}
}

func (l *boundListener) add(from netip.Prefix) (why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch b := l.bounds; {
	case b.Total > 0 && l.open >= b.Total:
		return "total"
	case b.PerAddress > 0 && l.by[from] >= b.PerAddress:
		return "address"
	}
	l.open++
	l.by[from]++
	return ""
}

func (l *boundListener) release(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.by[from]--; l.by[from] == 0 {
		delete(l.by, from)
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
