package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/quota"
)

// bookOf returns the addresses of the given nodes.
func bookOf(nodes ...*node) map[quota.NodeID]string {
	m := map[quota.NodeID]string{}
	for _, n := range nodes {
		m[n.id] = n.addr
	}
	return m
}

func setPeers(t *testing.T, n *node, peers map[quota.NodeID]string) {
	t.Helper()
	if err := n.SetPeers(peers); err != nil {
		t.Fatal(err)
	}
}

// TestJoiningNodeIsTakenSoon checks that a node that dials before it is known is refused, without
// an error in the log. Once it is known, it is connected at once where it can be dialed, and
// otherwise with its next attempt.
func TestJoiningNodeIsTakenSoon(t *testing.T) {
	for name, c := range map[string]struct {
		addr   string // a's address as known to b
		within time.Duration
	}{
		"dialed back": {"a", 10 * time.Millisecond},
		"not dialed":  {"nowhere", maxBackoff + 10*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log buftest.Buffer
				m := newMemory()
				b := m.start(t, "b", nil, nil)
				a := m.start(t, "a", map[quota.NodeID]string{"b": "b"}, func(c *Config) { c.Logger = logTo(&log) })
				time.Sleep(joiningGrace / 2)
				if log.String() != "" {
					t.Fatalf("a may become known in a moment, and there is a warning:\n%s", log.String())
				}
				time.Sleep(10 * time.Second) // the backoff grows
				if a.Connected("b") || !strings.Contains(log.String(), "does not know a node") || strings.Contains(log.String(), "level=ERROR") {
					t.Fatalf("a must be refused, and that is no error:\n%s", log.String())
				}
				known := time.Now()
				setPeers(t, b, map[quota.NodeID]string{"a": c.addr})
				eventually(t, "a is connected", func() bool { return a.Connected("b") && b.Connected("a") == (c.addr == "a") })
				if d := time.Since(known); d > c.within {
					t.Fatalf("connected %v after it became known; want %v", d, c.within)
				}
			})
		})
	}
}

func TestRemovedPeerIsCutOff(t *testing.T) {
	edit, arrived := silent()
	a, b := pair(t, nil, edit)
	called := make(chan error, 1)
	go func() {
		_, err := a.Call(context.Background(), "b", data, frame(1))
		called <- err
	}()
	<-arrived
	setPeers(t, a, nil)
	if err := <-called; !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	if err := a.Send("b", data, frame(1)); !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
	eventually(t, "a has told Removed", func() bool { return a.seen("b", Removed) == 1 })
	eventually(t, "b has lost a", func() bool { return !b.Connected("a") })
	eventually(t, "nothing is left at a", func() bool { return a.holds() == 0 })
	if a.Connected("b") || len(a.Peers()) != 0 || a.seen("b", Down) != 0 {
		t.Fatal("b is removed", a.Peers())
	}

	setPeers(t, a, bookOf(b))
	eventually(t, "both are connected again", func() bool { return a.Connected("b") && b.Connected("a") })
	eventually(t, "Up is told again", func() bool { return a.seen("b", Up) == 2 })
	if n := a.seen("b", Removed); n != 1 || a.seen("b", Dead) != 0 {
		t.Fatalf("told Removed %d times, and Dead %d times of one that lives", n, a.seen("b", Dead))
	}
}

func TestRemovalEndsWaiting(t *testing.T) {
	a := start(t, listen(t, "127.0.0.1:0"), "a", map[quota.NodeID]string{"b": deaf(t)}, nil)
	waited := make(chan error, 1)
	go func() { waited <- a.WaitConnected(context.Background(), "b") }()
	time.Sleep(10 * time.Millisecond) // let it start to wait, which the test cannot observe
	setPeers(t, a, nil)
	if err := <-waited; !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
	eventually(t, "the last event is Removed", func() bool { return a.seen("b", Removed) == 1 })
}

// deaf returns the address of a machine that accepts connections and sends nothing.
func deaf(t *testing.T) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestMovedPeer checks that an attempt at the old address does not delay the new one, and that
// established connections stay.
func TestMovedPeer(t *testing.T) {
	lb := listen(t, "127.0.0.1:0")
	silent := listen(t, "127.0.0.1:0")
	defer silent.Close()
	a := start(t, listen(t, "127.0.0.1:0"), "a", map[quota.NodeID]string{"b": silent.Addr().String()}, nil)
	for range 2 { // both links wait seconds for an answer
		conn, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	b := start(t, lb, "b", map[quota.NodeID]string{"a": "127.0.0.1:1"}, nil)
	moved := time.Now()
	setPeers(t, a, bookOf(b))
	eventually(t, "b is up", func() bool { return a.Connected("b") })
	if d := time.Since(moved); d > patience/2 {
		t.Fatalf("connected %v after the address was known", d)
	}
	before := a.peer("b").links[0].conn.Load()
	setPeers(t, a, map[quota.NodeID]string{"b": "127.0.0.1:1"})
	if _, err := a.Call(within(t, patience), "b", control, frame(1)); err != nil {
		t.Fatal(err)
	}
	if a.peer("b").links[0].conn.Load() != before {
		t.Fatal("the connection that stands must stay")
	}
	before.close(errCut)
	eventually(t, "b is down", func() bool { return a.seen("b", Down) == 1 })
	time.Sleep(50 * time.Millisecond) // dials at the new address are refused
	if a.seen("b", Refused) != 0 || a.seen("b", Dead) != 0 {
		t.Fatal("who was never at that address has not ended because nobody listens there")
	}
}

func TestPeersBeforeStart(t *testing.T) {
	b := start(t, listen(t, "127.0.0.1:0"), "b", nil, nil)
	a := &node{id: "a"}
	l := listen(t, "127.0.0.1:0")
	a.addr = l.Addr().String()
	var err error
	if a.Net, err = New(Config{Cluster: "test", Self: "a", Ranges: 16, Incarnation: 1, Listener: l, Peers: map[quota.NodeID]string{"gone": "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	setPeers(t, a, bookOf(b))
	if got := a.Peers(); len(got) != 1 || got["b"] != b.addr {
		t.Fatal(got)
	}
	a.Start()
	setPeers(t, b, bookOf(a))
	eventually(t, "both are connected", func() bool { return a.Connected("b") && b.Connected("a") })
	_ = a.Close()
	if err := a.SetPeers(nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestSetPeersRefusals(t *testing.T) {
	a := start(t, listen(t, "127.0.0.1:0"), "a", map[quota.NodeID]string{"b": "127.0.0.1:1"}, nil)
	many := map[quota.NodeID]string{}
	for i := range MaxPeers + 1 {
		many[quota.NodeID(fmt.Sprint("n", i))] = "127.0.0.1:1"
	}
	for want, peers := range map[string]map[quota.NodeID]string{
		"transport: peers: are 257; at most 256":          many,
		"transport: peers: contain this node itself":      {"a": "127.0.0.1:1"},
		`transport: peers: "c" at "": both must be set`:   {"c": ""},
		`transport: peers: "" at "x:1": both must be set`: {"": "x:1"},
	} {
		if err := a.SetPeers(peers); fmt.Sprint(err) != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if got := a.Peers(); len(got) != 1 || got["b"] == "" {
		t.Fatal("a refused set changes nothing", got)
	}
}

// TestPeersComeAndGo changes the peer set of one node while all nodes communicate. It checks that
// every change is reported in order and nothing is left behind.
func TestPeersComeAndGo(t *testing.T) {
	a, b := pair(t, nil, nil)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, from := range []*node{a, b} {
		to := map[*node]quota.NodeID{a: "b", b: "a"}[from]
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = from.Call(within(t, time.Second), to, data, frame(1))
				_, _ = from.Snapshot(within(t, time.Second), to, frame(1), 3, strings.NewReader("abc"))
				_ = from.WaitConnected(within(t, time.Second), to)
				from.SetFault(func(quota.NodeID, peerv1.Lane) Fault { return Fault{} })
			}
		})
	}
	for i := range 60 {
		if i%2 == 0 {
			setPeers(t, a, nil)
		} else {
			setPeers(t, a, bookOf(b))
			if i%4 == 1 {
				eventually(t, "b is up", func() bool { return a.Connected("b") })
			}
		}
	}
	close(stop)
	wg.Wait()
	eventually(t, "both are connected", func() bool { return a.Connected("b") && b.Connected("a") })
	eventually(t, "one accepted connection is kept for each lane", func() bool { return a.holds() == 2 })
	eventually(t, "Up is told last", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.events[len(a.events)-1].e == Up })
	a.inOrder(t)
}

// holds returns the number of accepted connections kept.
func (n *node) holds() int {
	n.Net.mu.Lock()
	defer n.Net.mu.Unlock()
	return len(n.accepted)
}

// inOrder checks that Up is reported once for each time that the peer was up.
func (n *node) inOrder(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	up := false
	for i, e := range n.events {
		if e.e == Up && up {
			t.Fatalf("event %d of %v: up twice", i, n.events)
		}
		up = e.e == Up
	}
}
