package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// pool sends requests to given nodes or, while a node is down, to the next one that is up.
type pool struct {
	nodes   []*target
	timeout time.Duration
}

// target is one node of a pool.
type target struct {
	addr      string
	conns     []*grpc.ClientConn
	turn      atomic.Uint32
	downUntil atomic.Int64 // Unix nanoseconds

	mu       sync.Mutex
	calls    int64
	errors   int64
	rerouted int64 // calls for this node that went to another
	first    time.Time
	last     time.Time
	gap      time.Duration // longest time between two successive answers
	gapAt    time.Time     // start of that time
}

// How long the pool avoids a node after a failure. A refused connection is cheap to retry; a node
// that hangs costs a whole timeout.
const (
	downAfterRefusal = 50 * time.Millisecond
	downAfterTimeout = time.Second
)

func newPool(dial func(addr string) (*grpc.ClientConn, error), addrs []string, conns int, timeout time.Duration) (*pool, error) {
	p := &pool{timeout: timeout}
	for _, addr := range addrs {
		t := &target{addr: addr}
		p.nodes = append(p.nodes, t)
		for range conns {
			conn, err := dial(addr)
			if err != nil {
				p.close()
				return nil, err
			}
			conn.Connect()
			t.conns = append(t.conns, conn)
		}
	}
	return p, nil
}

func (p *pool) close() {
	for _, t := range p.nodes {
		for _, c := range t.conns {
			c.Close() //nolint:errcheck // nothing is lost
		}
	}
}

// exchange holds the times when the answering node was asked and when it answered.
type exchange struct{ asked, answered time.Time }

// ask sends a request to the node, or to the next one that is up.
func (p *pool) ask(ctx context.Context, node int, f func(context.Context, quoratev1.QuotaServiceClient) error) (exchange, error) {
	var last error
	for i := range p.nodes {
		t := p.nodes[(node+i)%len(p.nodes)]
		if t.downUntil.Load() > time.Now().UnixNano() && (i < len(p.nodes)-1 || last != nil) {
			continue
		}
		e, err := t.ask(ctx, p.timeout, f)
		if err == nil {
			if i > 0 {
				asked := p.nodes[node]
				asked.mu.Lock()
				asked.rerouted++
				asked.mu.Unlock()
			}
			return e, nil
		}
		last = err
		if c := status.Code(err); ctx.Err() != nil || c != codes.Unavailable && c != codes.DeadlineExceeded {
			break
		}
	}
	return exchange{}, last
}

func (t *target) ask(ctx context.Context, timeout time.Duration, f func(context.Context, quoratev1.QuotaServiceClient) error) (exchange, error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn := t.conns[int(t.turn.Add(1))%len(t.conns)]
	e := exchange{asked: time.Now()}
	err := f(within, quoratev1.NewQuotaServiceClient(conn))
	e.answered = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return e, err // cancelled, not failed
	}
	if err != nil {
		t.errors++
		switch status.Code(err) {
		case codes.Unavailable:
			t.downUntil.Store(e.answered.Add(downAfterRefusal).UnixNano())
		case codes.DeadlineExceeded:
			t.downUntil.Store(e.answered.Add(downAfterTimeout).UnixNano())
		}
		return e, err
	}
	t.calls++
	t.answered(e.answered)
	return e, nil
}

// answered records the time of an answer. The caller holds mu. Times may arrive slightly out of
// order.
func (t *target) answered(now time.Time) {
	if t.first.IsZero() {
		t.first, t.last = now, now
		return
	}
	if d := now.Sub(t.last); d > t.gap {
		t.gap, t.gapAt = d, t.last
	}
	if now.After(t.last) {
		t.last = now
	}
}
