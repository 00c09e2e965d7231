package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds and defaults.
const (
	// DefaultTimeout bounds a call whose context has no deadline.
	DefaultTimeout = time.Second
	// MaxBatch is the most checks in one AllowBatch.
	MaxBatch = 1000
	// MaxAddresses is the most nodes that a client knows.
	MaxAddresses = 100
	// Never is RetryAfter of a check that cannot pass however long one waits:
	// its cost exceeds the burst, or the limit admits nothing.
	Never = time.Duration(math.MaxInt64)
)

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

var _ Limiter = (*Client)(nil)

// HTTPCheck is one HTTP request.
type HTTPCheck struct {
	Namespace string // of the limits; "" is "slas", that of the HTTP rules of limit files
	Method    string // such as GET
	Path      string // begins with "/"; a query is not looked at
	Key       string // what the limits are counted for; "" is one bucket for everybody
	Cost      int64  // tokens; 0 means 1
}

// Client asks nodes over gRPC. See the package's documentation.
type Client struct {
	nodes   []*node
	current atomic.Uint32 // index of the node that is asked first
	closed  atomic.Bool
	timeout time.Duration
}

type node struct {
	addr  string
	conn  *grpc.ClientConn
	quota quoratev1.QuotaServiceClient
}

// Option changes how a client works.
type Option func(*options)

type options struct {
	timeout time.Duration
	mode    Mode
	dial    []grpc.DialOption
}

// Mode is where a client decides.
type Mode uint8

const (
	// InProcess decides in the memory of this process; one stream to one node
	// carries what it counted, and what it may spend. The default.
	InProcess Mode = iota
	// Remote asks a node for every check.
	Remote
)

// WithMode sets where the client decides. The default is [InProcess].
func WithMode(m Mode) Option { return func(o *options) { o.mode = m } }

// WithTimeout sets the deadline of calls whose context has none. The default is
// [DefaultTimeout].
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithDialOptions adds gRPC dial options, such as transport credentials. Without
// any, connections are not encrypted.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}

// New returns a client of the nodes at the given addresses, host:port of their
// gRPC endpoints, in order of preference. It starts to connect to the first and
// does not wait for it: a node that is down shows in the calls. The context is
// used for New alone.
func New(ctx context.Context, addrs []string, opts ...Option) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Kind: ErrUnavailable, Detail: "not started", cause: err}
	}
	if len(addrs) == 0 || len(addrs) > MaxAddresses {
		return nil, &Error{Kind: ErrInvalid, Field: "addrs", Detail: fmt.Sprintf("%d addresses; must be 1 to %d", len(addrs), MaxAddresses)}
	}
	o := options{timeout: DefaultTimeout}
	for _, opt := range opts {
		opt(&o)
	}
	if o.timeout <= 0 {
		return nil, &Error{Kind: ErrInvalid, Field: "timeout", Detail: fmt.Sprintf("%v; must be more than 0", o.timeout)}
	}
	c := &Client{timeout: o.timeout}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: time.Second,
		}),
	}, o.dial...)
	for _, addr := range addrs {
		conn, err := grpc.NewClient(addr, dial...)
		if err != nil {
			c.Close() //nolint:errcheck // the error below is the one that matters
			return nil, &Error{Kind: ErrInvalid, Field: "addrs", Detail: fmt.Sprintf("%q: %v", addr, err), cause: err}
		}
		c.nodes = append(c.nodes, &node{addr: addr, conn: conn, quota: quoratev1.NewQuotaServiceClient(conn)})
	}
	c.nodes[0].conn.Connect()
	return c, nil
}

// Close closes the connections. Calls that wait for an answer end with
// ErrClosed.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.conn.Close())
	}
	return errors.Join(errs...)
}

// Conns returns the connections to the nodes, in the order of their addresses, for
// other services of theirs, such as in package accounts. They end with the client.
func (c *Client) Conns() []*grpc.ClientConn {
	out := make([]*grpc.ClientConn, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = n.conn
	}
	return out
}

// Allow asks whether cost tokens of namespace/limit may be taken for key, and
// takes them if so. cost is 1 or more.
func (c *Client) Allow(ctx context.Context, namespace, limit, key string, cost int64) (Result, error) {
	req := &quoratev1.AllowRequest{Namespace: namespace, Limit: limit, Key: key, Cost: &cost}
	var res *quoratev1.AllowResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.Allow(ctx, req)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return fromProto(res), nil
}

// AllowHTTP decides a request by its method and path. See [Limiter].
func (c *Client) AllowHTTP(ctx context.Context, check HTTPCheck) (Result, error) {
	cost := max(check.Cost, 1)
	req := &quoratev1.AllowRequest{Namespace: check.Namespace, Method: check.Method, Path: check.Path, Key: check.Key, Cost: &cost}
	if req.Namespace == "" {
		req.Namespace = quota.HTTPNamespace
	}
	var res *quoratev1.AllowResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.Allow(ctx, req)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return fromProto(res), nil
}

// Check is one check of a batch.
type Check struct {
	Namespace, Limit, Key string
	Cost                  int64 // 0 means 1
}

// AllowBatch asks for up to MaxBatch checks in one round trip; each is decided
// and charged on its own, in order. A check that is at fault has its error in
// Result.Err and leaves the others alone.
func (c *Client) AllowBatch(ctx context.Context, checks []Check) ([]Result, error) {
	req := &quoratev1.AllowBatchRequest{Checks: make([]*quoratev1.AllowRequest, len(checks))}
	for i, k := range checks {
		req.Checks[i] = &quoratev1.AllowRequest{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key}
		if k.Cost != 0 {
			req.Checks[i].Cost = &k.Cost
		}
	}
	var res *quoratev1.AllowBatchResponse
	err := c.ask(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
		res, err = q.AllowBatch(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(res.Results) != len(checks) {
		return nil, &Error{Kind: ErrUnavailable, Detail: fmt.Sprintf("%d checks got %d results", len(checks), len(res.Results))}
	}
	out := make([]Result, len(checks))
	for i, r := range res.Results {
		if r.Response == nil {
			out[i].Err = &Error{Kind: ErrInvalid, Detail: r.Error}
			continue
		}
		out[i] = fromProto(r.Response)
	}
	return out, nil
}

// ask calls f with one node after the other until one answers.
func (c *Client) ask(ctx context.Context, f func(context.Context, quoratev1.QuotaServiceClient) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	first := c.current.Load()
	var last error
	for i := range c.nodes {
		if c.closed.Load() {
			return &Error{Kind: ErrClosed, Detail: "the client is closed"}
		}
		at := (first + uint32(i)) % uint32(len(c.nodes))
		n := c.nodes[at]
		err := attempt(ctx, len(c.nodes)-i, n, f)
		if err == nil {
			if i > 0 {
				c.current.CompareAndSwap(first, at)
			}
			return nil
		}
		if !worthAnother(err) {
			return fromError(err, n.addr)
		}
		last = fromError(err, n.addr)
		if ctx.Err() != nil {
			c.current.CompareAndSwap(first, (at+1)%uint32(len(c.nodes)))
			break
		}
	}
	if c.closed.Load() {
		return &Error{Kind: ErrClosed, Detail: "the client is closed"}
	}
	return last
}

// attempt asks one node, leaving time for the others that are left.
func attempt(ctx context.Context, left int, n *node, f func(context.Context, quoratev1.QuotaServiceClient) error) error {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return f(ctx, n.quota)
}
