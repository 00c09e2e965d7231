package cluster

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// proxy stands for a sidecar, a port forwarder or a firewall in front of a node.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func proxyTo(t *testing.T, to string) *proxy { return proxyAt(t, "127.0.0.1:0", to) }

func proxyAt(t *testing.T, at, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_, _ = to.Close(), from.Close()
			}
			wg.Go(func() { pass(out, in) })
			wg.Go(func() { pass(in, out) })
		}
	})
	t.Cleanup(func() { p.end(); wg.Wait() })
	return p
}

// end stops the proxy: it resets its connections, and new ones are refused.
func (p *proxy) end() {
	_ = p.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// TestRefusedNodeKeepsItsRate stops a proxy in front of a living node, so that connections to the node are
// refused. The node still spends its grant, so no other node may get it: a hard limit holds.
func TestRefusedNodeKeepsItsRate(t *testing.T) {
	testspeed.Full(t)
	c, listeners := bookThreeNodes(t, 16)
	p := proxyTo(t, c.addrs["n3"])
	c.addrs["n3"] = p.Addr().String()
	for _, id := range c.ids() {
		c.start(id, listeners[id])
	}
	c.awaitReady(3 * time.Minute)
	const rate, burst = 500, 100
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "test", Limit: "h"}, Rate: quota.Rate{Tokens: rate, Per: time.Second}, Burst: burst, Ceiling: quota.Hard}
	c.apply(l)
	k := quota.Key{LimitName: l.LimitName, Key: "a"}
	for i := 'b'; c.leaderOf(k) == "n3"; i++ {
		k.Key = string(i)
	}
	var mu sync.Mutex
	var admitted []time.Duration
	var wg sync.WaitGroup
	stop, began := make(chan struct{}), time.Now()
	for _, n := range c.running() {
		wg.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}

				if at := time.Since(began); n.Check(k, 1).Allowed {
					mu.Lock()
					admitted = append(admitted, at)
					mu.Unlock()
				}
			}
		})
	}
	c.eventually(patience, "all nodes admit by their grants", func() error {
		mu.Lock()
		defer mu.Unlock()
		if n := len(admitted); n < burst+2*rate {
			return fmt.Errorf("%d admitted", n)
		}
		return nil
	})
	p.end()
	time.Sleep(4 * time.Second) // load: a node that got the refused node's rate would spend it in this time
	close(stop)
	wg.Wait()
	slices.Sort(admitted)
	level, least, last := float64(burst), 0.0, time.Duration(0)
	for _, at := range admitted {
		level = min(burst, level+rate*(at-last).Seconds()) - 1
		last, least = at, min(least, level)
	}
	t.Logf("%d admitted, at most %.1f tokens beyond the limit", len(admitted), -least)
	if -least > 25 { // recorded times differ by some milliseconds from those of the decisions
		t.Errorf("a hard %d/s, burst %d was exceeded by %.0f tokens", rate, burst, -least)
	}
}

// TestRefusedNodeHasBooked refuses connections to a living node for longer than a lease, so that another
// node settles the attachment of its client. The node has booked reports of which its client got no
// answer. Once the node is reachable again, what was booked twice is given back.
func TestRefusedNodeHasBooked(t *testing.T) {
	t.Parallel()
	c, listeners := bookThreeNodes(t, 4)
	behind := c.addrs["n1"]
	p := proxyTo(t, behind)
	c.addrs["n1"] = p.Addr().String()
	for _, id := range c.ids() {
		c.start(id, listeners[id])
	}
	c.awaitReady(3 * time.Minute)
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "soft"}, Durable: true}
	l.SetFirst(quota.Window(quota.FixedWindow, yearly, 365*24*time.Hour))
	c.apply(l)
	k := c.keyLedBy(l.LimitName, "n3", "k")
	client := newProcess(t, "client")
	if err := client.attach(c.nodes["n1"]); err != nil {
		t.Fatal(err)
	}
	client.await("limits", func(m *quoratev1.AttachResponse) bool { return m.GetLimits() != nil })
	total := client.use(k, 50)
	c.admits(k, total)
	p.end()
	client.leave()
	for i := range client.unheard[0].Report.Entries { // as if all answers had been lost
		e := &client.unheard[0].Report.Entries[i]
		e.Unreported = e.Used + e.Overdrawn
	}
	if err := client.attach(c.nodes["n2"]); err != nil {
		t.Fatal(err)
	}
	client.settle()
	c.admits(k, 2*total)
	proxyAt(t, c.addrs["n1"], behind)
	c.leaves(k, total)
	client.leave()
}
