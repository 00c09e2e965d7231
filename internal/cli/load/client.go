package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/quota"
)

// inProcess holds clients that decide in this process: per node as many as there would be
// connections. It is safe for concurrent use.
type inProcess struct {
	byNode [][]*client.Client
	turn   atomic.Uint32
	whys   map[client.Why]quoratev1.Why
}

// newInProcess attaches each client to its node and waits until all have received their limits. A
// client uses the other nodes while its own is down.
func newInProcess(ctx context.Context, l *loader) (*inProcess, error) {
	c := &inProcess{whys: map[client.Why]quoratev1.Why{}}
	for _, w := range quota.Whys() {
		c.whys[client.Why(w.String())] = quoratev1.Why(w)
	}
	for i, addr := range l.addrs {
		creds, err := l.Credentials(addr)
		if err != nil {
			return c, err
		}
		addrs := append(slices.Clone(l.addrs[i:]), l.addrs[:i]...)
		c.byNode = append(c.byNode, nil)
		for k := range l.conns {
			one, err := client.New(ctx, addrs, client.WithDialOptions(creds...), client.WithTimeout(l.timeout),
				client.WithName(fmt.Sprintf("load-%s%d-%d", l.prefix, i+1, k+1)), client.WithNamespaces(l.name.Namespace), client.WithMaxKeys(2*maxLoadKeys), client.WithLogger(nil))
			if err != nil {
				return c, err
			}
			c.byNode[i] = append(c.byNode[i], one)
		}
	}
	err := c.await(ctx)
	return c, err
}

// await waits until all clients have received their limits.
func (c *inProcess) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, remote.ControlTimeout)
	defer cancel()
	for _, one := range slices.Concat(c.byNode...) {
		select {
		case <-one.Ready():
		case <-ctx.Done():
			return exit.Errorf(exit.Unreachable, "no node has sent its limits in %v; the last answer was %q", remote.ControlTimeout, one.Stats().LastError)
		}
	}
	return nil
}

// close closes the clients, which report their remaining counts.
func (c *inProcess) close() (err error) {
	for _, one := range slices.Concat(c.byNode...) {
		err = errors.Join(err, one.Close())
	}
	return err
}

// modes counts the decisions by the way in which they were made.
func (c *inProcess) modes() map[string]int64 {
	out := map[string]int64{}
	for _, one := range slices.Concat(c.byNode...) {
		for mode, n := range one.Stats().Decisions {
			if n > 0 {
				out[string(mode)] += int64(n)
			}
		}
	}
	return out
}

// ask decides the checks of a call in order.
func (c *inProcess) ask(ctx context.Context, node int, checks []*quoratev1.AllowRequest) []*quoratev1.AllowResult {
	of := c.byNode[node]
	one := of[int(c.turn.Add(1))%len(of)]
	out := make([]*quoratev1.AllowResult, len(checks))
	for i, q := range checks {
		res, err := one.Allow(ctx, q.Namespace, q.Limit, q.Key, 1)
		if err != nil {
			out[i] = &quoratev1.AllowResult{Error: err.Error()}
			continue
		}
		out[i] = &quoratev1.AllowResult{Response: &quoratev1.AllowResponse{Allowed: res.Allowed, Why: c.whys[res.Why]}}
	}
	return out
}

// decide makes one call in this process.
func (l *loader) decide(ctx context.Context, d draw, checks []*quoratev1.AllowRequest, scheduled time.Time) {
	within, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	results := l.local.ask(within, d.node, checks)
	now := time.Now()
	t := l.pool.nodes[d.node]
	t.mu.Lock()
	t.calls++
	t.answered(now)
	t.mu.Unlock()
	l.stats.answered(d, results, scheduled, now)
}
