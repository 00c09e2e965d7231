package systemtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

const rollingLimits = `
version: 1
namespaces:
  api:
    limits:
      soft: {rate: 100000/s, burst: 100000}
      hard: {rate: 100000/s, burst: 100000, ceiling: hard}
`

const rollingLinger = time.Second

// balancer sends requests to ready nodes as the Service of Kubernetes does: it probes each node and
// learns of a change some time later.
type balancer struct {
	t     *testing.T
	nodes []*server
	ready []atomic.Bool
	asked atomic.Int64
	stop  chan struct{}
	work  sync.WaitGroup

	mu     sync.Mutex
	faults []string
}

const probeEvery = 200 * time.Millisecond

func newBalancer(t *testing.T, nodes []*server, k quota.Key) *balancer {
	b := &balancer{t: t, nodes: nodes, ready: make([]atomic.Bool, len(nodes)), stop: make(chan struct{})}
	for i := range nodes {
		b.ready[i].Store(true)
		b.work.Go(func() { b.probe(i) })
	}
	b.work.Go(func() { b.ask(k) })
	t.Cleanup(b.end)
	return b
}

func (b *balancer) end() {
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	b.work.Wait()
}

func (b *balancer) each(pause time.Duration, do func()) {
	for {
		select {
		case <-b.stop:
			return
		case <-time.After(pause):
			do()
		}
	}
}

func (b *balancer) probe(i int) {
	b.each(probeEvery, func() {
		code, _ := ready(b.nodes[i])
		b.ready[i].Store(code == http.StatusOK)
	})
}

// ready returns a node's answer to the readiness probe; 0 means no answer.
func ready(s *server) (int, string) { return probed(s, "/readyz") }

func probed(s *server, path string) (int, string) {
	res, err := httpClient.Get("http://" + s.httpAddr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// ask sends requests to the ready nodes in turn, each over a new connection.
func (b *balancer) ask(k quota.Key) {
	once := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	body := fmt.Sprintf(`{"namespace":%q,"limit":%q,"key":%q}`, k.Namespace, k.Limit, k.Key)
	next := 0
	b.each(5*time.Millisecond, func() {
		for range b.nodes {
			if next = (next + 1) % len(b.nodes); b.ready[next].Load() {
				break
			}
		}
		res, err := once.Post("http://"+b.nodes[next].httpAddr+"/v1/allow", "application/json", strings.NewReader(body))
		if err == nil {
			if res.StatusCode != http.StatusOK {
				err = errors.New(res.Status)
			}
			_ = res.Body.Close()
		}
		b.asked.Add(1)
		if err != nil {
			b.mu.Lock()
			b.faults = append(b.faults, fmt.Sprintf("%s %s: %v", time.Now().Format("05.000"), b.nodes[next].id, err))
			b.mu.Unlock()
		}
	})
}

// TestRollingRestart restarts three nodes, one after the other, with SIGTERM and under load, and
// checks that no caller gets an error: neither a process with the in-process client, nor a client
// that asks nodes over the network, nor callers behind a balancer that knows nodes only by their
// probe. A node that stops first becomes unready, and leads nothing while it still answers.
func TestRollingRestart(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	t.Setenv("QUORATE_LINGER", rollingLinger.String())
	c := newServers(t, 16)
	c.quick = true
	c.run(rollingLimits)
	keys := []quota.Key{key("api", "soft", "k"), key("api", "hard", "k")}

	stop := make(chan struct{})
	var work sync.WaitGroup
	var tallies [2]insideTally
	var inside []*client.Client
	for i := range 6 {
		addrs := []string{c.nodes[i%3].grpc, c.nodes[(i+1)%3].grpc, c.nodes[(i+2)%3].grpc}
		q, err := client.New(t.Context(), addrs, client.WithName(fmt.Sprintf("p%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		inside = append(inside, q)
		<-q.Ready()
		work.Go(func() { insideLoad(t, q, keys, &tallies, stop) })
	}
	remote := newAskers(t, keys)
	remote.add(everybody, keen(t, strings.Split(c.addrs(), ",")), 100)
	front := newBalancer(t, c.nodes, keys[0])
	time.Sleep(2 * time.Second) // load before the first restart

	began := time.Now()
	for _, s := range c.nodes {
		c.rolled(s)
	}
	t.Logf("all three in %v", time.Since(began).Round(10*time.Millisecond))
	time.Sleep(time.Second) // load after the last restart
	close(stop)
	work.Wait()
	ended := time.Now() // the end of the load cancels the requests in flight
	remote.stop()
	front.end()

	gap, failed, err := remote.silence(everybody, began, ended, nil)
	t.Logf("over the network: %d calls, %d failed, longest gap %v", len(remote.all()), failed, gap.Round(time.Millisecond))
	if failed > 0 {
		t.Errorf("over the network: %d checks failed, the last: %v", failed, err)
	}
	errs, lost := uint64(0), uint64(0)
	for _, q := range inside {
		s := q.Stats()
		errs, lost = errs+s.Errors, lost+s.Dropped
		_ = q.Close()
	}
	soft, hard := &tallies[0], &tallies[1]
	t.Logf("in process: %d decisions, %d errors, %d reports lost; refused: %d of soft, %d of hard", soft.asked.Load()+hard.asked.Load(), errs, lost, soft.refused.Load(), hard.refused.Load())
	if errs > 0 || lost > 0 || soft.refused.Load() > 0 {
		t.Errorf("in process: %d errors, %d reports lost, %d of soft refused; want none", errs, lost, soft.refused.Load())
	}
	// Under hard, a process whose node stops asks a node until another one has lent it tokens, and a node that holds
	// nothing refuses while the key gets a new leader.
	if n := hard.asked.Load(); n < 1000 || hard.refused.Load() > n/1000 {
		t.Errorf("in process: %d of %d of hard refused; want at most 0.1 %%", hard.refused.Load(), n)
	}
	t.Logf("behind a balancer: %d calls, %d failed", front.asked.Load(), len(front.faults))
	if len(front.faults) > 0 || front.asked.Load() < 500 {
		t.Errorf("behind a balancer: %d calls; failed: %v", front.asked.Load(), front.faults)
	}
}

// insideTally counts the decisions on one key.
type insideTally struct{ asked, refused atomic.Int64 }

// insideLoad takes one token of each key through an in-process client, again and again.
func insideLoad(t *testing.T, q *client.Client, keys []quota.Key, tallies *[2]insideTally, stop <-chan struct{}) {
	for {
		for i, k := range keys {
			res, err := q.Allow(t.Context(), k.Namespace, k.Limit, k.Key, 1)
			if err != nil {
				t.Error(err)
				return
			}
			tallies[i].asked.Add(1)
			if !res.Allowed {
				tallies[i].refused.Add(1)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// rolled restarts a node and waits until it is ready again, as a rolling update does.
func (c *servers) rolled(s *server) {
	c.t.Helper()
	led := 0
	if st, err := s.status(); err == nil {
		for _, r := range st.Ranges {
			if r.Leader == s.id {
				led++
			}
		}
	}
	began := time.Now()
	s.signal(syscall.SIGTERM)
	var unready, handed time.Duration
	for handed == 0 {
		code, why := ready(s)
		st, err := s.status()
		if err != nil || code == 0 {
			c.t.Fatalf("%s stopped answering after %v, before it was seen to lead nothing: %v %s", s.id, time.Since(began), err, why)
		}
		if unready == 0 && code == http.StatusServiceUnavailable {
			unready = time.Since(began)
			if !strings.Contains(why, "the node stops") {
				c.t.Errorf("%s is not ready: %s; want that it stops", s.id, why)
			}
		}
		if unready > 0 && !st.leads(s.id) {
			handed = time.Since(began)
		}
		time.Sleep(time.Millisecond) // the resolution of the moments
	}
	for over := false; !over; {
		if st, err := s.status(); err == nil && st.leads(s.id) {
			c.t.Errorf("%s was given leadership again %v after it was told to stop", s.id, time.Since(began))
			break
		}
		select {
		case <-s.ended:
			over = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	<-s.ended
	stopped := time.Since(began)
	if code := exitCode(s.err); code != 0 {
		c.t.Errorf("%s: exit code %d", s.id, code)
	}
	if stopped < rollingLinger {
		c.t.Errorf("%s stopped after %v; it was to linger for %v", s.id, stopped, rollingLinger)
	}
	c.start(s)
	c.awaitReady(s, 20*time.Second)
	c.t.Logf("%s: not ready after %v, its %d leaderships handed over after %v, stopped after %v, ready again after %v",
		s.id, unready.Round(time.Millisecond), led, handed.Round(time.Millisecond), stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}
