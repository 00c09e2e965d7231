package client

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/elapsed"
)

// Never is RetryAfter of a check that cannot pass however long one waits: its
// cost exceeds the burst, or the limit admits nothing.
const Never = time.Duration(math.MaxInt64)

// Limiter decides whether requests may pass. [Client] is one; write against
// Limiter to be free in the choice.
type Limiter interface {
	// Allow decides one check and charges it if it passes. A refusal is a
	// Result, not an error.
	Allow(ctx context.Context, namespace, limit, key string, cost int64) (Result, error)
	// AllowHTTP decides a request by its method and path, against all limits of the
	// namespace that match it: all pass and are charged, or none is. The Result is
	// that of the limit which refused, or of the one that has least left. When none
	// matches it is allowed, with WhyNoLimit.
	AllowHTTP(ctx context.Context, check HTTPCheck) (Result, error)
	// Close ends the use of the limiter; calls after it return ErrClosed.
	Close() error
}

// Acquirer is a Limiter that also knows what is in flight. [Client] is one. Middleware asks it
// where a limit says [ErrUseAcquire].
type Acquirer interface {
	Limiter
	// Acquire takes n places, 1 or more, for ttl, 1 ms to 24 h; 0 is the limit's lease.
	// A refusal is a Reservation that is not OK.
	Acquire(ctx context.Context, namespace, limit, key string, n int64, ttl time.Duration) (*Reservation, error)
}

// HTTPCheck is one HTTP request.
type HTTPCheck struct {
	Namespace string // of the limits; "" is "slas", that of the HTTP rules of limit files
	Method    string // such as GET
	Path      string // begins with "/"; a query is not looked at
	Key       string // what the limits are counted for; "" is one bucket for everybody
	Cost      int64  // tokens; 0 means 1
}

var _ Acquirer = (*Client)(nil)

// Client decides whether requests may pass. See the package's documentation. It is
// safe for concurrent use.
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

// New returns a client of the nodes at the given addresses, host:port of their
// gRPC endpoints: the first is preferred. It starts to connect and does not wait
// for it; see [Client.Ready]. The context is used for New alone.
func New(ctx context.Context, addrs []string, opts ...Option) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Kind: ErrUnavailable, Detail: "not started", cause: err}
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

// assemble makes a client that knows no nodes yet.
func assemble(o options) (*Client, error) {
	if o.name == "" {
		o.name = processName()
	}
	c := &Client{opts: o, clock: newClock(elapsed.New()), breaker: breaker{after: o.breakAfter}, ended: make(chan struct{})}
	c.stats.whyRefused = o.whyRefused
	c.queues.most, c.notices.logger = int64(o.maxWaiting), o.logger
	var err error
	c.fallback, err = newFallback(o.defaults, o.failClosed, c.clock)
	return c, err
}

// start begins to decide in this process.
func (c *Client) start(l link) {
	c.member = newMember(&c.opts, c.clock, &c.stats, &c.notices, l)
	c.member.work.Go(c.member.run)
}

// Close tells the node what was counted last, and ends all streams and
// connections: within the time of WithTimeout, whatever nodes do. Calls that wait
// for an answer end with ErrClosed. What is still decided while it runs may be
// lost, so end what uses the client first.
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

// Ready is closed when the first node has told its limits; never in [Remote] mode.
// Until then [WithDefaults] decides.
func (c *Client) Ready() <-chan struct{} {
	if c.member == nil {
		return nil
	}
	return c.member.ready
}

// FailsClosed reports whether [WithFailClosed] was given. Middleware refuses what it gets no decision about then.
func (c *Client) FailsClosed() bool { return c.opts.failClosed }

// Conns returns the connections to the nodes, in the order of their addresses, for
// other services of theirs, such as in package accounts. They end with the client.
func (c *Client) Conns() []*grpc.ClientConn {
	all := c.nodes.all()
	out := make([]*grpc.ClientConn, len(all))
	for i, n := range all {
		out[i] = n.conn
	}
	return out
}

// open opens a stream to a node, to be attached to it.
func (n *nodes) open(ctx context.Context, addr string) (stream, error) {
	o := n.find(addr)
	if o == nil {
		return nil, errClosed()
	}
	s, err := quoratev1.NewMemberServiceClient(o.conn).Attach(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// addrs are the addresses of all nodes.
func (n *nodes) addrs() []string {
	all := n.all()
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = o.addr
	}
	return out
}

// learned adds what other nodes there are; one whose address is none is left out.
func (n *nodes) learned(addrs []string) {
	for _, a := range addrs {
		_ = n.add(a)
	}
}

// attachedTo makes that node the one that is asked first.
func (n *nodes) attachedTo(addr string) { n.prefer(addr) }
