package transport

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/subnet"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestNewestStrangerIsTaken checks that when all places are taken, the oldest connection that has
// sent nothing is closed at once, and that a connection that sends something is served, however
// slowly.
func TestNewestStrangerIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.start(t, "b", map[quota.NodeID]string{"x": "x"}, nil)
		hello, _ := encode(goodHello())
		speaker := m.unauthenticated(t, "b")
		_, _ = speaker.Write(hello[:1]) // a slow Hello, older than all others
		silentOnes := make([]net.Conn, maxUnauthenticated)
		for i := range silentOnes {
			silentOnes[i] = m.unauthenticated(t, "b")
		}
		began := time.Now()
		_, _ = io.Copy(io.Discard, silentOnes[0])
		if d := time.Since(began); d != 0 {
			t.Fatalf("the oldest silent one was closed after %v", d)
		}
		_, _ = speaker.Write(hello[1:])
		if answer, err := readHello(&frameReader{r: bufio.NewReader(speaker)}); err != nil || answer.Refused != "" {
			t.Fatal(answer, err)
		}
		for _, nc := range silentOnes[1:] {
			_, _ = io.Copy(io.Discard, nc)
		}
		if d := time.Since(began); d != hearLimit {
			t.Fatalf("the other silent ones were closed after %v; want %v", d, hearLimit)
		}
	})
}

// unauthenticated dials without sending anything yet.
func (m *memory) unauthenticated(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := m.dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

// TestTenThousandConnections checks that peers connect while a flood of connections hits the
// port, and that nothing is left of the flood afterwards.
func TestTenThousandConnections(t *testing.T) {
	testspeed.Full(t)
	plain, tls := 10_000, 3_000
	if testing.Short() { // fewer connections suffice to show races, and are less work for the detector
		plain, tls = 1_000, 300
	}
	t.Run("plain", func(t *testing.T) { flood(t, plain, func(*Config) {}) })
	t.Run("tls", func(t *testing.T) { flood(t, tls, newAuthority(t).secure) })
}

func flood(t *testing.T, count int, edit func(*Config)) {
	if most := openFiles(); most < uint64(count)+2000 {
		count = int(most) / 2
	}
	b := start(t, listen(t, "127.0.0.1:0"), "b", nil, edit)
	idle := make([]net.Conn, 0, count)
	defer func() {
		for _, nc := range idle {
			_ = nc.Close()
		}
	}()
	dial := func() {
		nc, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Errorf("connection %d: %v", len(idle), err)
			return
		}
		idle = append(idle, nc)
	}
	for range count / 2 {
		dial()
	}
	done := make(chan struct{})
	began := time.Now()
	a := start(t, listen(t, "127.0.0.1:0"), "a", bookOf(b), edit)
	setPeers(t, b, bookOf(a))
	go func() {
		defer close(done)
		for range count / 2 {
			dial()
		}
	}()
	eventually(t, "a and b are connected", func() bool { return a.Connected("b") && b.Connected("a") })
	took := time.Since(began)
	<-done
	t.Logf("%d connections; connected after %v", len(idle), took.Round(time.Millisecond))
	if took > handshakeLimit {
		t.Errorf("a and b were connected only after %v", took)
	}
	if !a.Connected("b") || !b.Connected("a") {
		t.Error("the flood has ended connections of peers")
	}
	eventually(t, "all strangers are gone", func() bool { return b.unauthenticated.len() == 0 && len(b.handshakes) == 0 })
}

// TestStrangersDeadlines checks that a silent connection ends after hearLimit and a slow Hello
// after handshakeLimit, both counted from the accept.
func TestStrangersDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration // between bytes; 0 sends none
		want  time.Duration
	}{
		"silent":       {0, hearLimit},
		"slow":         {time.Second / 2, handshakeLimit},
		"slow to talk": {hearLimit - time.Millisecond, handshakeLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := unstarted(t, "b", map[quota.NodeID]string{"x": "x"})
				mine, theirs := net.Pipe()
				began := time.Now()
				n.handshakes <- struct{}{}
				n.startHandshake(theirs)
				var writer sync.WaitGroup
				writer.Go(func() {
					hello, _ := encode(goodHello())
					for i := 0; c.every > 0; i++ {
						time.Sleep(c.every)
						if _, err := mine.Write(hello[i : i+1]); err != nil {
							return
						}
					}
				})
				_, _ = io.Copy(io.Discard, mine)
				if d := time.Since(began); d != c.want {
					t.Errorf("closed after %v; want %v", d, c.want)
				}
				_ = mine.Close()
				writer.Wait()
				synctest.Wait()
				if n.unauthenticated.len() != 0 || len(n.handshakes) != 0 || len(n.conns) != 0 {
					t.Error("something is left of it")
				}
				_ = n.Close()
			})
		})
	}
}

// noListener is a listener that is never used.
type noListener struct{ net.Listener }

func (noListener) Close() error { return nil }

// unstarted returns a Net that neither accepts nor dials.
func unstarted(t testing.TB, id quota.NodeID, peers map[quota.NodeID]string) *Net {
	t.Helper()
	n, err := New(Config{Cluster: "test", Self: id, Incarnation: 1, Ranges: 16, Listener: noListener{}, Peers: peers})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func strangerFrom(addr string, heard bool) *unauthConn {
	s := &unauthConn{from: subnet.OfConn(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 1)))}
	s.heard.Store(heard)
	return s
}

// TestWhoIsEvicted checks that the oldest silent connection of the source with the most
// connections is evicted.
func TestWhoIsEvicted(t *testing.T) {
	flood := func(first ...*unauthConn) []*unauthConn {
		for len(first) < maxUnauthenticated {
			first = append(first, strangerFrom("10.0.0.9", true))
		}
		return first
	}
	silentNine, earlyNine := strangerFrom("10.0.0.9", false), strangerFrom("10.0.0.9", true)
	for name, c := range map[string]struct {
		list []*unauthConn
		add  *unauthConn
		want *unauthConn
	}{
		"not full":                 {nil, strangerFrom("10.0.0.1", false), nil},
		"others are left alone":    {flood(strangerFrom("10.0.0.1", false), earlyNine), strangerFrom("10.0.0.2", false), earlyNine},
		"silent before early":      {flood(earlyNine, silentNine), strangerFrom("10.0.0.2", false), silentNine},
		"one network of IPv6":      {flood(strangerFrom("10.0.0.1", false), earlyNine), strangerFrom("2001:db8::1", false), earlyNine},
		"IPv4 within IPv6 is IPv4": {flood(strangerFrom("::ffff:10.0.0.9", false)), strangerFrom("10.0.0.2", false), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var all unauthConns
			for _, s := range c.list {
				if all.add(s) != nil {
					t.Fatal("evicted too early")
				}
			}
			got := all.add(c.add)
			if c.want == nil && len(c.list) > 0 {
				c.want = c.list[0]
			}
			if got != c.want {
				t.Fatalf("evicted %v; want %v", got, c.want)
			}
			for _, s := range append(c.list, c.add) {
				all.remove(s)
				all.remove(s)
			}
			if all.len() != 0 || len(all.sources) != 0 {
				t.Fatal("not empty", all.sources)
			}
		})
	}
}

func TestSource(t *testing.T) {
	if a, b := strangerFrom("2001:db8::1", false), strangerFrom("2001:db8::ffff:2", false); a.from != b.from {
		t.Fatal("one network of IPv6 is one source", a.from, b.from)
	}
	if got := subnet.OfConn(&net.UnixAddr{}); got != (netip.Prefix{}) {
		t.Fatal(got)
	}
}

func TestLogLimit(t *testing.T) {
	var l logLimit
	now := time.Unix(100, 0)
	for i := range logLines + 5 {
		if _, ok := l.Allow(logTLS, now, logLines, logWindow/logLines); ok != (i < logLines) {
			t.Fatal(i, ok)
		}
	}
	if _, ok := l.Allow(logGarbage, now, logLines, logWindow/logLines); !ok {
		t.Fatal("kinds are counted apart")
	}
	if leftOut, ok := l.Allow(logTLS, now.Add(logWindow), logLines, logWindow/logLines); !ok || leftOut != 5 {
		t.Fatal(leftOut, ok)
	}
}

func (t *unauthConns) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.list)
}
