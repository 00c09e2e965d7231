package api

import (
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestConnections checks that connections beyond a bound are closed at once, and that a closed
// connection frees its place.
func TestConnections(t *testing.T) {
	for _, c := range []struct {
		bounds ConnectionBounds
		why    string
	}{{ConnectionBounds{Total: 2, PerAddress: 10}, "total"}, {ConnectionBounds{Total: 10, PerAddress: 2}, "address"}} {
		var lc net.ListenConfig
		inner, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		l := Bound(inner, "http", c.bounds, reg)
		accepted := make(chan net.Conn)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- conn
			}
		}()
		dial := func() net.Conn {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		dial()
		dial()
		first, second := <-accepted, <-accepted
		if _, err := dial().Read(make([]byte, 1)); err == nil {
			t.Error("the third is served")
		}
		if got := testutil.ToFloat64(l.(*boundListener).refused.WithLabelValues(c.why)); got != 1 {
			t.Errorf("%s: %v refused", c.why, got)
		}
		_, _ = first.Close(), first.Close() // closing twice counts once
		dial()
		third := <-accepted
		if _, err := dial().Read(make([]byte, 1)); err == nil {
			t.Error("one too many is served after one has ended")
		}
		_, _, _ = second.Close(), third.Close(), l.Close()
		for range accepted {
		}
		if n := l.(*boundListener).open.Held(); n != 0 {
			t.Errorf("%d connections are counted", n)
		}
	}
}
