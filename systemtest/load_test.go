package systemtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"
)

// tally counts what a load saw of one key, over all nodes or at one node.
type tally struct {
	admitted, refused int64
	first             time.Time // when the first request was sent
	last              time.Time // when the last answer came
	why               map[client.Why]int64
}

// envelope returns the most that the limit admits between the first request and the last answer, if
// the bucket was full at the first.
func (k *tally) envelope(rate, burst int64) float64 {
	return float64(burst) + float64(rate)*k.last.Sub(k.first).Seconds()
}

// nodeTally records how one node answered.
type nodeTally struct {
	answers, errors int64
	lastErr         error
	last            time.Time
	stalled         time.Duration // of the load, up to last
	gap             time.Duration // longest time between two answers, without the load's stalls
	gapAt           time.Time
}

// load sends every check to every node at a steady rate, whether or not earlier ones have been
// answered.
type load struct {
	mu    sync.Mutex
	keys  map[quota.Key]*tally
	nodes map[string]*nodeTally // by gRPC address
	wg    sync.WaitGroup
	// stalled is the total time, up to woken, in which this process got no processor. It could not
	// receive answers then, so the silence is not the node's fault.
	stalled time.Duration
	woken   time.Time
}

// nap is how long watchStalls sleeps at a time.
const nap = 5 * time.Millisecond

// watchStalls adds up by how much short sleeps take too long, until ctx ends.
func (l *load) watchStalls(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(nap) // measures the excess over the nap
		l.mu.Lock()
		now := time.Now()
		l.stalled, l.woken = l.stalledAt(now), now
		l.mu.Unlock()
	}
}

// stall returns for how long in all the load has been stalled.
func (l *load) stall() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalledAt(time.Now())
}

// stalledAt returns stalled including the current sleep. The caller holds mu.
func (l *load) stalledAt(now time.Time) time.Duration {
	return l.stalled + max(0, now.Sub(l.woken)-2*nap)
}

// maxInFlight bounds the requests in flight to one node.
const maxInFlight = 512

// startLoad sends perNode requests a second to each node until ctx ends; each request checks all
// keys.
func startLoad(ctx context.Context, t *testing.T, nodes []*server, perNode int, keys ...quota.Key) *load {
	t.Helper()
	l := &load{keys: map[quota.Key]*tally{}, nodes: map[string]*nodeTally{}, woken: time.Now()}
	for _, k := range keys {
		l.keys[k] = &tally{why: map[client.Why]int64{}}
	}
	l.wg.Go(func() { l.watchStalls(ctx) })
	for _, s := range nodes {
		c, err := client.New(ctx, []string{s.grpc}, client.WithMode(client.Remote))
		if err != nil {
			t.Fatal(err)
		}
		l.nodes[s.grpc] = &nodeTally{}
		l.wg.Go(func() {
			defer c.Close()
			l.drive(ctx, c, s.grpc, perNode, keys)
		})
	}
	return l
}

// drive sends the load of one node.
func (l *load) drive(ctx context.Context, c *client.Client, addr string, perNode int, keys []quota.Key) {
	checks := make([]client.Check, len(keys))
	for i, k := range keys {
		checks[i] = client.Check{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key}
	}
	slots := make(chan struct{}, maxInFlight)
	var wg sync.WaitGroup
	defer wg.Wait()
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(perNode))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		select {
		case slots <- struct{}{}:
		default:
			continue // the node does not answer: skip the request
		}
		wg.Go(func() {
			defer func() { <-slots }()
			sent := time.Now()
			within, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			res, err := c.AllowBatch(within, checks)
			l.answer(addr, keys, sent, res, err)
		})
	}
}

func (l *load) answer(addr string, keys []quota.Key, sent time.Time, res []client.Result, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	n := l.nodes[addr]
	for _, k := range keys { // a failed request may have been admitted too
		if t := l.keys[k]; t.first.IsZero() || sent.Before(t.first) {
			t.first = sent
		}
	}
	if err != nil {
		n.errors++
		n.lastErr = err
		return
	}
	n.answers++
	stalled := l.stalledAt(now)
	if gap := now.Sub(n.last) - (stalled - n.stalled); !n.last.IsZero() && gap > n.gap {
		n.gap, n.gapAt = gap, n.last
	}
	n.last, n.stalled = now, stalled
	for i, k := range keys {
		t := l.keys[k]
		t.last = now
		if res[i].Err != nil {
			n.errors++
			n.lastErr = res[i].Err
			continue
		}
		t.why[res[i].Why]++
		if res[i].Allowed {
			t.admitted++
		} else {
			t.refused++
		}
	}
}

// wait waits until the load has ended.
func (l *load) wait() { l.wg.Wait() }

func (n *nodeTally) String() string {
	return fmt.Sprintf("%d answers, %d errors, longest gap %v", n.answers, n.errors, n.gap.Round(time.Millisecond))
}
