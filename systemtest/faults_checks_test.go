package systemtest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"
)

// askers send checks at a steady rate to every node, whether or not earlier ones have been
// answered, and record every answer.
type askers struct {
	began   time.Time
	checks  []client.Check
	running context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	shots  []nodeShot
	stalls []span // when this process got no processor
}

type nodeShot struct {
	node int // index
	shot
}

// span is a period, relative to the start of the load.
type span struct{ from, to time.Duration }

// askersWait is the most checks in flight to one node. Above it, the asker skips checks.
const askersWait = 256

// startAskers checks all keys at every node, perNode times a second.
func startAskers(t *testing.T, nodes []*server, perNode int, keys []quota.Key) *askers {
	t.Helper()
	a := newAskers(t, keys)
	for i, c := range dial(t, nodes) {
		a.add(i, c, perNode)
	}
	return a
}

// newAskers returns askers that send nothing yet.
func newAskers(t *testing.T, keys []quota.Key) *askers {
	t.Helper()
	a := &askers{began: time.Now()}
	a.running, a.cancel = context.WithCancel(context.Background())
	for _, k := range keys {
		a.checks = append(a.checks, client.Check{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key})
	}
	a.wg.Go(func() { a.watchStalls(a.running) })
	t.Cleanup(a.stop)
	return a
}

// add sends checks through c, perSecond times a second, until end is called. end returns once all
// checks in flight have been answered.
func (a *askers) add(node int, c *client.Client, perSecond int) (end func()) {
	ctx, cancel := context.WithCancel(a.running)
	done := make(chan struct{})
	a.wg.Go(func() {
		defer close(done)
		a.drive(ctx, node, c, perSecond)
	})
	return func() {
		cancel()
		<-done
	}
}

func (a *askers) stop() {
	a.cancel()
	a.wg.Wait()
}

func (a *askers) drive(ctx context.Context, node int, c *client.Client, perNode int) {
	slots := make(chan struct{}, askersWait)
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Second / time.Duration(perNode))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			a.ask(a.running, node, c)
		})
	}
}

func (a *askers) ask(ctx context.Context, node int, c *client.Client) {
	s := nodeShot{node: node, shot: shot{sent: time.Since(a.began), allowed: make([]bool, len(a.checks))}}
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	res, err := c.AllowBatch(within, a.checks)
	s.answered, s.err = time.Since(a.began), err
	for i := range res {
		s.allowed[i], s.err = res[i].Allowed, cmp.Or(s.err, res[i].Err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shots = append(a.shots, s)
}

// watchStalls records when a short sleep took much too long. In such a stall this process could not
// receive answers, so the silence is not the node's fault.
func (a *askers) watchStalls(ctx context.Context) {
	for ctx.Err() == nil {
		due := time.Since(a.began) + nap
		time.Sleep(nap) // measures the excess over the nap
		if woke := time.Since(a.began); woke > due+nap {
			a.mu.Lock()
			a.stalls = append(a.stalls, span{due, woke})
			a.mu.Unlock()
		}
	}
}

// forget drops the answers from before a time.
func (a *askers) forget(before time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cut := before.Sub(a.began)
	a.shots = slices.DeleteFunc(a.shots, func(s nodeShot) bool { return s.sent < cut })
	a.stalls = slices.DeleteFunc(a.stalls, func(s span) bool { return s.to < cut })
}

// all returns the answers so far, from every node.
func (a *askers) all() (out []shot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.shots {
		out = append(out, s.shot)
	}
	return out
}

// answeredSince reports whether a node has answered a check that was sent after a moment.
func (a *askers) answeredSince(node int, moment time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	cut := moment.Sub(a.began)
	return slices.ContainsFunc(a.shots, func(s nodeShot) bool { return s.node == node && s.err == nil && s.sent >= cut })
}

// silence returns the longest time between from and to in which a node answered nothing, less the
// stalls of this process, and the number of checks without an answer. It skips outages.
func (a *askers) silence(node int, from, to time.Time, outages []outage) (longest time.Duration, failed int, last error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	begin, end := from.Sub(a.began), to.Sub(a.began)
	var out []span
	for _, o := range outages {
		out = append(out, span{o.from.Sub(a.began), o.to.Sub(a.began)})
	}
	moments := []time.Duration{begin, end}
	for _, s := range a.shots {
		switch during := (span{s.sent, s.answered}); {
		case s.node != node || s.sent < begin || s.answered > end || slices.ContainsFunc(out, during.meets):
		case s.err != nil:
			failed, last = failed+1, s.err
		default:
			moments = append(moments, s.answered)
		}
	}
	slices.Sort(moments)
	for i := 1; i < len(moments); i++ {
		between := span{moments[i-1], moments[i]}
		gap := between.to - between.from
		for _, st := range append(out, a.stalls...) {
			gap -= max(0, min(st.to, between.to)-max(st.from, between.from))
		}
		longest = max(longest, gap)
	}
	return longest, failed, last
}

// stalled returns for how long this process got no processor between two moments.
func (a *askers) stalled(from, to time.Time) (sum time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, st := range a.stalls {
		sum += max(0, min(st.to, to.Sub(a.began))-max(st.from, from.Sub(a.began)))
	}
	return sum
}

func (s span) meets(o span) bool { return s.from < o.to && o.from < s.to }

// outage is a period in which a node could not answer because the fault took it out.
type outage struct{ from, to time.Time }
