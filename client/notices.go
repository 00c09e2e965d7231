package client

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client/internal/acquires"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

const (
	// sayEvery is the interval at which the same problem is logged again.
	sayEvery = time.Minute
	// quietFor is how long there may be no node before that is logged.
	quietFor = 2 * time.Second
	// nameEvery is the interval at which an unknown name is sent to a node, which counts it.
	nameEvery = 5 * time.Second
	// maxNames bounds the unknown names that are remembered. Further ones are not logged.
	maxNames = 100
)

// WithLogger sets the logger for problems that would otherwise go unnoticed: no node has answered
// for two seconds, a limit does not exist, a limit is used in the wrong way. Each is logged at once
// and then every minute as long as it persists. The default is the current slog.Default(); nil
// disables logging.
func WithLogger(l *slog.Logger) Option {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return func(o *options) { o.logger = l }
}

// notices logs problems of a client that prevent limiting. It is safe for concurrent use.
type notices struct {
	logger  *slog.Logger // nil means the default
	without string       // effect while no node answers and the limits are not known

	mu     sync.Mutex
	names  map[quota.LimitName]*wrongName
	silent quota.Time // earliest time to log again that no node answers
	said   bool       // logged that no node answers, not yet that one does
	asking bool       // a name is being sent to a node
	shut   bool
	work   sync.WaitGroup // goroutine that sends it
}

// wrongName is a name that was used in the wrong way.
type wrongName struct {
	version   uint64 // version of the limits that detail describes
	detail    string
	say, tell quota.Time // earliest times to log it and to send it to a node
}

func (n *notices) log() *slog.Logger {
	if n.logger == nil {
		return slog.Default()
	}
	return n.logger
}

// enforcesAlone is the effect on a process that has the limits.
const enforcesAlone = "this process enforces its limits alone"

// unanswered logs that no node answers, the effect on checks, and why.
func (n *notices) unanswered(now quota.Time, since time.Duration, effect, why string) {
	n.mu.Lock()
	due := now >= n.silent && !n.shut
	if due {
		n.silent, n.said = now.Add(sayEvery), true
	}
	n.mu.Unlock()
	if due {
		n.log().Warn("quorate: no node answers: "+effect, "for", since.Round(time.Second), "err", why)
	}
}

// attached logs that a node answers again, if it was logged that none did.
func (n *notices) attached(addr string) {
	n.mu.Lock()
	said := n.said
	n.said, n.silent = false, 0
	n.mu.Unlock()
	if said {
		n.log().Info("quorate: attached to a node", "node", addr)
	}
}

// wrong returns the description of a problem with a name, made by f once for every version of the
// limits, and whether to log it and to send it to a node now.
func (n *notices) wrong(now quota.Time, name quota.LimitName, version uint64, tells bool, f func() string) (detail string, say, tell bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.names[name]
	switch {
	case w == nil && len(n.names) >= maxNames:
		return fmt.Sprintf("unknown limit %v", name), false, false
	case w == nil:
		if n.names == nil {
			n.names = map[quota.LimitName]*wrongName{}
		}
		w = &wrongName{}
		n.names[quota.LimitName{Namespace: strings.Clone(name.Namespace), Limit: strings.Clone(name.Limit)}] = w
	}
	if w.detail == "" || w.version != version {
		w.version, w.detail = version, f()
	}
	if say = now >= w.say; say {
		w.say = now.Add(sayEvery)
	}
	if tell = now >= w.tell && !n.asking && !n.shut && tells; tell {
		w.tell, n.asking = now.Add(nameEvery), true
		n.work.Add(1)
	}
	return w.detail, say, tell
}

// close waits for the goroutine; nothing is logged from then on.
func (n *notices) close() {
	n.mu.Lock()
	n.shut = true
	n.mu.Unlock()
	n.work.Wait()
}

// noLimit returns the error of a check of an unknown limit. It logs it and reports it to a node, for its
// metrics.
func (c *Client) noLimit(r *rules, n quota.LimitName) error {
	detail, say, tell := c.notices.wrong(c.clock.now(), n, r.limits.Version, true, func() string { return c.explain(r, n) })
	if say {
		c.notices.log().Warn("quorate: unknown limit: its requests are not limited", "limit", n.String(), "err", detail)
	}
	if tell {
		go c.sendName(n)
	}
	return &Error{Kind: ErrNoLimit, Detail: strings.TrimPrefix(detail, "unknown limit ")}
}

// noRules notes that a namespace has no limits for HTTP requests.
func (c *Client) noRules(r *rules, namespace string) {
	n := quota.LimitName{Namespace: namespace}
	detail, say, _ := c.notices.wrong(c.clock.now(), n, r.limits.Version, false, func() string {
		return fmt.Sprintf("no limit of namespace %q has a match: add one to a limit, or name the limit", namespace)
	})
	if say {
		c.notices.log().Warn("quorate: a namespace has no limits for HTTP requests: they are not limited", "namespace", namespace, "err", detail)
	}
}

// inFlight returns the error of a check of a concurrency limit, and logs it unless the caller acquires
// places instead.
func (c *Client) inFlight(ctx context.Context, n quota.LimitName) error {
	explain := func() string {
		return fmt.Sprintf("%v is a concurrency limit, which Allow always refuses: call Acquire before the work and the reservation's Cancel after it; the middleware for HTTP and gRPC does this", n)
	}
	if acquires.InContext(ctx) {
		return &Error{Kind: ErrUseAcquire, Field: "limit", Detail: explain()}
	}
	detail, say, _ := c.notices.wrong(c.clock.now(), n, ^uint64(0), false, explain)
	if say {
		c.notices.log().Error("quorate: a concurrency limit is used like a rate limit: it refuses everything", "limit", n.String(), "err", detail)
	}
	return &Error{Kind: ErrUseAcquire, Field: "limit", Detail: detail}
}

// explain describes an unknown limit and what was probably meant.
func (c *Client) explain(r *rules, n quota.LimitName) string {
	if used := c.opts.namespaces; len(used) > 0 && !slices.Contains(used, n.Namespace) {
		return fmt.Sprintf("%v is in none of the namespaces of WithNamespaces: %s", n, strings.Join(used, ", "))
	}
	return suggest.Explain(n, r.limits)
}

// sendName asks a node for an unknown limit without charging anything, so that it counts that in
// quorate_no_limit_total. The answer is ignored.
func (c *Client) sendName(n quota.LimitName) {
	defer func() {
		c.notices.mu.Lock()
		c.notices.asking = false
		c.notices.mu.Unlock()
		c.notices.work.Done()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.timeout)
	defer cancel()
	_ = c.askEach(ctx, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		_, err := q.Allow(ctx, request(quota.Key{LimitName: n, Key: quota.WholeKey}, 0))
		return err
	})
}
