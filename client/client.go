package client

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// Never is the RetryAfter of a check that can never pass: its cost exceeds the burst, or the limit
// admits nothing.
const Never = time.Duration(math.MaxInt64)

// Limiter decides whether requests may pass. [Client] implements it.
type Limiter interface {
	// Allow decides one check and charges it if it passes. A refusal is a Result, not an error.
	Allow(ctx context.Context, namespace, limit, key string, cost int64) (Result, error)
	// AllowHTTP decides a request by its method and path, against all limits of the namespace that
	// match it: all pass and are charged, or none. The Result is that of the limit that refused, or
	// of the one with the least remaining. If no limit matches, the request is allowed with
	// WhyNoLimit.
	AllowHTTP(ctx context.Context, check HTTPCheck) (Result, error)
	// Close ends the use of the limiter; later calls return ErrClosed.
	Close() error
}

// Acquirer is a Limiter that also supports concurrency limits. [Client] implements it.
// Middleware uses it when a check returns [ErrUseAcquire].
type Acquirer interface {
	Limiter
	// Acquire takes n places, 1 or more, for ttl, 1 ms to 24 h; 0 means the limit's lease. A
	// refusal is a Reservation that is not OK.
	Acquire(ctx context.Context, namespace, limit, key string, n int64, ttl time.Duration) (*Reservation, error)
}

// HTTPCheck is the check of one HTTP request.
type HTTPCheck struct {
	Namespace string // of the limits; "" means "slas", that of the HTTP rules in limit files
	Method    string // such as GET
	Path      string // begins with "/"; a query is ignored
	Key       string // key that the limits count; "" is one bucket for all callers
	Cost      int64  // tokens; 0 means 1
}

var _ Acquirer = (*Client)(nil)

// Client decides whether requests may pass. See the package documentation. It is safe for
// concurrent use.
type Client struct {
	opts     options
	clock    *clock
	nodes    *nodes
	breaker  breaker
	stats    stats
	fallback *fallback
	member   *member // nil in Remote mode
	queues   queues
	notices  notices
	closed   atomic.Bool
	ended    chan struct{} // closed by Close
}

// New returns a client of the nodes at the given addresses, host:port of their gRPC endpoints, the
// preferred one first. It starts to connect without waiting; see [Client.Ready]. The context is
// used only by New.
func New(ctx context.Context, addrs []string, opts ...Option) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Kind: ErrUnavailable, Detail: "not started", Cause: err}
	}
	o := defaultOptions()
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.check(addrs); err != nil {
		return nil, err
	}
	secured, err := o.secure()
	if err != nil {
		return nil, err
	}
	c, err := assemble(o)
	if err != nil {
		return nil, err
	}
	if c.nodes, err = newNodes(addrs, append(secured, o.dial...)); err != nil {
		return nil, err
	}
	c.nodes.all()[0].conn.Connect()
	if o.mode == InProcess {
		c.start(c.nodes)
	}
	return c, nil
}

// assemble returns a client without nodes.
func assemble(o options) (*Client, error) {
	if o.name == "" {
		o.name = processName()
	}
	c := &Client{opts: o, clock: newClock(elapsed.New()), breaker: breaker{after: o.breakAfter}, ended: make(chan struct{})}
	c.stats.whyRefused = o.whyRefused
	c.queues.most, c.notices.logger = int64(o.maxWaiting), o.logger
	var err error
	if c.fallback, err = newFallback(o.defaults, o.failClosed, c.clock); err == nil {
		c.notices.without = c.fallback.effect(o.mode)
	}
	return c, err
}

// start starts deciding in this process.
func (c *Client) start(l link) {
	c.member = newMember(&c.opts, c.clock, &c.stats, &c.notices, l)
	c.member.work.Go(c.member.run)
}

// Close sends the last counts to the node and closes all streams and connections, within the time
// of WithTimeout. Pending calls return ErrClosed. Decisions made concurrently may be lost, so first
// stop what uses the client.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	close(c.ended)
	if c.member != nil {
		close(c.member.stop)
		c.member.work.Wait()
	}
	err := c.nodes.close()
	c.notices.close()
	return err
}

// Ready returns a channel that is closed when the first node has sent its limits; nil in [Remote]
// mode. Until then [WithDefaults] applies.
func (c *Client) Ready() <-chan struct{} {
	if c.member == nil {
		return nil
	}
	return c.member.ready
}

// FailsClosed reports whether [WithFailClosed] is set. Middleware then refuses requests without a
// decision.
func (c *Client) FailsClosed() bool { return c.opts.failClosed }

// Conns returns the connections to the nodes, in the order of their addresses, for other services
// such as that of package accounts. Close closes them.
func (c *Client) Conns() []*grpc.ClientConn {
	all := c.nodes.all()
	out := make([]*grpc.ClientConn, len(all))
	for i, n := range all {
		out[i] = n.conn
	}
	return out
}

// clock is the process's clock: the wall clock at the start, plus the elapsed time, including
// suspension, because leases expire during it.
type clock struct{ *elapsed.Clock }

func newClock(passed *elapsed.Clock) *clock { return &clock{passed} }

func (c *clock) now() quota.Time { return quota.Time(c.Start().UnixNano() + int64(c.Since())) }

// noticed is now without a suspend that now has not noticed yet.
func (c *clock) noticed() quota.Time { return quota.Time(c.Start().UnixNano() + int64(c.Noticed())) }
