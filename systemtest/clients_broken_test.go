package systemtest

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// clientLimit is the count of a durable limit, so large that tokens always remain.
const clientLimit = 100_000_000

const clientLimits = `
version: 1
namespaces:
  api:
    limits:
      soft: {limit: 100000000, per: 24h, durable: true}
`

// fleet is a set of in-process clients that decide all the time.
type fleet struct {
	t       *testing.T
	clients []*client.Client
	told    atomic.Int64 // admitted tokens, which the leader must count
	stop    chan struct{}
	work    sync.WaitGroup
}

// newFleet attaches count clients; each uses the key about once a millisecond.
func newFleet(t *testing.T, count int, k quota.Key, addrs func(i int) []string) *fleet {
	t.Helper()
	c := &fleet{t: t, stop: make(chan struct{})}
	for i := range count {
		cl, err := client.New(t.Context(), addrs(i), client.WithName(fmt.Sprintf("svc-%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		c.clients = append(c.clients, cl)
	}
	for _, cl := range c.clients {
		select {
		case <-cl.Ready():
		case <-time.After(10 * time.Second):
			t.Fatalf("a client is not ready: %+v", cl.Stats())
		}
		b := cl.Bucket(k.Namespace, k.Limit, k.Key)
		c.work.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				if b.Allow() {
					c.told.Add(1)
				}
			}
		})
	}
	return c
}

// end stops the callers and closes the clients, which settle everything that they counted.
func (c *fleet) end() {
	c.t.Helper()
	close(c.stop)
	c.work.Wait()
	var all sync.WaitGroup
	for _, cl := range c.clients {
		all.Go(func() {
			if err := cl.Close(); err != nil {
				c.t.Errorf("close: %v", err)
			}
			if n := cl.Stats().Dropped; n > 0 {
				c.t.Errorf("%d last reports reached nobody", n)
			}
		})
	}
	all.Wait()
}

// agree waits until the leader has counted exactly what the clients admitted.
func (c *servers) agree(f *fleet, k quota.Key) {
	c.t.Helper()
	var got int64
	deadline := time.Now().Add(time.Minute)
	for ; time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = c.counted(clientLimit, []quota.Key{k})[0]; got == f.told.Load() {
			c.t.Logf("%d admitted by clients, and counted", got)
			return
		}
	}
	c.t.Errorf("clients admitted %d, the leader counted %d (%+d)", f.told.Load(), got, got-f.told.Load())
}

// TestClientsNodeKilled kills -9 the node of 50 clients. It checks that they continue at the other
// nodes, and that every token that they admitted is counted exactly once when the node is back.
func TestClientsNodeKilled(t *testing.T) {
	testspeed.Full(t)
	s := newServers(t, 4)
	s.run(clientLimits)
	k := s.keysLedBy("n2", "api/soft")[0]
	victim := s.node("n1")
	c := newFleet(t, 50, k, func(int) []string { return []string{victim.grpc, s.nodes[1].grpc, s.nodes[2].grpc} })
	time.Sleep(700 * time.Millisecond) // load before the kill
	victim.kill()
	time.Sleep(500 * time.Millisecond) // load while it is down
	s.start(victim)
	s.awaitReady(victim, 15*time.Second)
	c.end()
	s.agree(c, k)
}

// TestClientsStreamsBroken checks that counts stay exact while connections break mid-stream, again
// and again.
func TestClientsStreamsBroken(t *testing.T) {
	testspeed.Full(t)
	s := newServers(t, 4)
	s.run(clientLimits)
	k := s.keysLedBy("n2", "api/soft")[0]
	var cuts []*cutter
	var addrs []string
	for _, n := range s.nodes {
		x := newCutter(t, n.grpc)
		cuts, addrs = append(cuts, x), append(addrs, x.Addr().String())
	}
	c := newFleet(t, 20, k, func(i int) []string { return append(addrs[i%3:3:3], addrs[:i%3]...) })
	for i := range 9 {
		time.Sleep(100 * time.Millisecond) // load between the cuts
		cuts[i%3].cut()
	}
	time.Sleep(100 * time.Millisecond) // load after the last cut
	c.end()
	s.agree(c, k)
	again := uint64(0)
	for _, cl := range c.clients {
		again += cl.Stats().Reattached
	}
	if again < 20 {
		t.Errorf("only %d streams were replaced", again)
	}
}

// cutter is a proxy in front of a node that ends its connections on demand.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	shut  bool // closes new connections at once
	conns []net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &cutter{Listener: l}
	t.Cleanup(func() { l.Close(); x.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			x.mu.Lock()
			if x.shut {
				in.Close()
				out.Close()
			} else {
				x.conns = append(x.conns, in, out)
			}
			x.mu.Unlock()
			go pass(in, out)
			go pass(out, in)
		}
	}()
	return x
}

func pass(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			to.Close()
			from.Close()
			return
		}
	}
}

// let lets connections through, or ends the open ones and all new ones.
func (x *cutter) let(through bool) {
	x.mu.Lock()
	x.shut = !through
	x.mu.Unlock()
	if !through {
		x.cut()
	}
}

// cut ends all connections, whatever is in flight.
func (x *cutter) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		c.Close()
	}
	x.conns = nil
}
