package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	control = peerv1.Lane_LANE_CONTROL
	data    = peerv1.Lane_LANE_DATA
)

// node is a Net with a record of its events.
type node struct {
	*Net
	id   quota.NodeID
	addr string

	mu     sync.Mutex
	events []peerEvent
}

func (n *node) seen(id quota.NodeID, e Event) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, got := range n.events {
		if got == (peerEvent{id, e}) {
			count++
		}
	}
	return count
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	var l net.Listener
	eventually(t, "listen on "+addr, func() bool {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	return l
}

// countingListener counts the accepted connections.
type countingListener struct {
	net.Listener
	conns atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.conns.Add(1)
	}
	return conn, err
}

// start creates a node; edit may change its configuration.
func start(t *testing.T, l net.Listener, id quota.NodeID, peers map[quota.NodeID]string, edit func(*Config)) *node {
	t.Helper()
	n := &node{id: id, addr: l.Addr().String()}
	cfg := Config{
		Cluster: "test", Self: id, Incarnation: 1, Ranges: 16, Listener: l, Peers: peers,
		Logger: slog.New(slog.DiscardHandler),
		Handle: func(from quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) { answer(f) },
		OnPeer: func(id quota.NodeID, e Event) {
			n.mu.Lock()
			n.events = append(n.events, peerEvent{id, e})
			n.mu.Unlock()
		},
	}
	if edit != nil {
		edit(&cfg)
	}
	var err error
	if n.Net, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// pair creates two connected nodes, a and b.
func pair(t *testing.T, editA, editB func(*Config)) (a, b *node) {
	t.Helper()
	la, lb := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	a = start(t, la, "a", map[quota.NodeID]string{"b": lb.Addr().String()}, editA)
	b = start(t, lb, "b", map[quota.NodeID]string{"a": la.Addr().String()}, editB)
	eventually(t, "a and b are connected", func() bool { return a.Connected("b") && b.Connected("a") })
	return a, b
}

// patience bounds waits for events that should happen at once but take longer on a busy machine.
const patience = time.Minute

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}

func frame(version uint64) *peerv1.Frame {
	return &peerv1.Frame{Body: &peerv1.Frame_Beacon{Beacon: &peerv1.Beacon{LimitsVersion: version}}}
}

// big returns a frame of about the given number of bytes.
func big(bytes int) *peerv1.Frame {
	return &peerv1.Frame{Body: &peerv1.Frame_Call{Call: &peerv1.Call{Body: &peerv1.Call_SetLimits{
		SetLimits: &peerv1.CallSetLimits{Command: make([]byte, bytes)},
	}}}}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestCallsAreAnswered(t *testing.T) {
	a, b := pair(t, nil, nil)
	var wg sync.WaitGroup
	shared := big(1000) // one frame sent by many goroutines at once: Call must not modify it
	for i := range 200 {
		from, to := a, b.id
		if i%2 == 1 {
			from, to = b, a.id
		}
		wg.Go(func() {
			got, err := from.Call(within(t, patience), to, []peerv1.Lane{control, data}[i/2%2], frame(uint64(i)))
			if err != nil || got.GetBeacon().GetLimitsVersion() != uint64(i) {
				t.Errorf("call %d: %v, %v", i, got, err)
			}
			if _, err := from.Call(within(t, patience), to, data, shared); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSendArrivesInOrder(t *testing.T) {
	var mu sync.Mutex
	var got []uint64
	a, _ := pair(t, nil, func(c *Config) {
		c.Handle = func(_ quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) {
			mu.Lock()
			got = append(got, f.GetBeacon().GetLimitsVersion())
			mu.Unlock()
			answer(f) // no request was made: this must do nothing
		}
	})
	for i := range 1000 {
		if err := a.Send("b", control, frame(uint64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all frames arrive", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 1000 })
	for i, v := range got {
		if v != uint64(i+1) {
			t.Fatalf("frame %d carries %d", i, v)
		}
	}
}

func TestFaultOfAnAnswerIsAnError(t *testing.T) {
	a, _ := pair(t, nil, func(c *Config) { c.Handle = nil })
	_, err := a.Call(within(t, patience), "b", data, frame(1))
	if fmt.Sprint(err) != "b answered: this node handles no frames" {
		t.Fatal(err)
	}
}
