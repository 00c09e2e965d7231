package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/planner"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/series"
	"github.com/quorate/quorate/internal/tracing"
)

// Node is what the servers need of a node. All methods are called concurrently.
type Node interface {
	HeldChecker
	Decider
	LimitLife
	OverrideStore
	Keys
	SecurityStore
	EventSource
	Accounts
	PolicyStore
	planner.History
	Operator
	Backuper
	attach.Host

	// Check decides and charges one request of at least one token, with the
	// limit's own wait. It must not block, but for a limit that its leader decides.
	Check(k quota.Key, cost int64) quota.Decision
	// Limits returns the limits in force; never changed in place.
	Limits() *quota.Limits
	// TopRates asks the leaders of all ranges. req.Top is 1 to MaxTop.
	TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error)
	// Status returns the cluster as this node sees it.
	Status() *quoratev1.GetStatusResponse
}

// HeldChecker decides many checks of one limit at once, where the node holds enough for
// them. What it leaves is decided by Node.Check: out, which is as long as checks, has no
// limit there, and nothing was taken or counted.
type HeldChecker interface {
	CheckHeld(limit quota.LimitName, checks []quota.Spend, out []quota.Decision)
}

// Decider decides what is more than one plain check. Keys name limits as the
// caller wrote them; the node finds template and defaults. A decision whose
// Limit is nil, and whose Why is WhyNoLimit, says that there is no such limit.
type Decider interface {
	// Decide decides up to quota.MaxRequests requests, all or nothing. out has the
	// length of reqs and receives the decision of each; those behind one that
	// refused stay zero.
	Decide(reqs []quota.Request, out []quota.Decision) (allowed bool)
	// Refund gives tokens back.
	Refund(k quota.Key, cost int64) quota.Decision
	// Charge books what was used, whatever the level is, down to a bound.
	Charge(k quota.Key, used int64) (booked int64, d quota.Decision)
	// Reserve decides as Decide and sets aside what it charged, for ttl (0: the
	// limits' own lease) or until settled. owner is the identity of the caller, empty
	// if unknown. It returns quota.ErrTooManyReservations when the node holds too many,
	// or too many of the owner.
	Reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error)
	// ReservedIn returns the namespaces of a reservation, each once. It returns the errors of Settle.
	ReservedIn(ctx context.Context, handle string) ([]string, error)
	// Settle ends a reservation, of which used was used; below 0, all of it. It
	// returns quota.ErrNoReservation when there is none.
	Settle(ctx context.Context, handle string, used int64) error
	// Renew makes a reservation last ttl from now; 0 is as long as at first.
	Renew(ctx context.Context, handle string, ttl time.Duration) error
}

// LimitLife keeps the history of the cluster's limits.
type LimitLife interface {
	// ChangeLimits replaces the limits, or returns a *quota.ConflictError. If no leader
	// answers, [IsNoLeader] is true of the error.
	ChangeLimits(ctx context.Context, c quota.Change) (v quota.Version, changed bool, err error)
	// LimitVersions returns up to max versions below before (0: all), newest first.
	LimitVersions(ctx context.Context, before uint64, max int) ([]quota.Version, error)
	// LimitsAt returns a version, or a *quota.UnknownVersionError.
	LimitsAt(ctx context.Context, version uint64) (quota.Version, []quota.Limit, error)
}

// OverrideStore keeps the overrides of the cluster.
type OverrideStore interface {
	// SetOverrides adds or replaces overrides, all or none.
	SetOverrides(ctx context.Context, list []quota.Override) error
	// DeleteOverrides returns how many there were.
	DeleteOverrides(ctx context.Context, keys []quota.Key) (int, error)
	// ListOverrides returns up to max overrides behind after, in order of their
	// keys, and how many there are in all. An empty part of name is not looked at.
	ListOverrides(name quota.LimitName, after quota.Key, max int) (list []quota.Override, total int)
	// Override returns the override of a key, nil if there is none.
	Override(k quota.Key) *quota.Override
}

// Keys shows and resets single keys.
type Keys interface {
	// Key returns one entry per counter of the key: tiers, floor, parents.
	Key(ctx context.Context, k quota.Key) ([]*quoratev1.KeyRate, error)
	// ResetKey makes all tiers of the key full.
	ResetKey(ctx context.Context, k quota.Key) error
}

// SecurityStore keeps who may do what.
type SecurityStore interface {
	// Security returns it as far as this node knows it; never changed in place.
	Security() *rbac.Table
	// SetBinding returns whether that changed anything.
	SetBinding(ctx context.Context, b rbac.Binding) (bool, error)
	// DeleteBinding returns whether there was such a binding.
	DeleteBinding(ctx context.Context, b rbac.Binding) (bool, error)
	// AddToken adds a bearer token.
	AddToken(ctx context.Context, t rbac.Token) error
	// RevokeToken returns whether there was such a token.
	RevokeToken(ctx context.Context, id string) (bool, error)
}

// EventSource tells what happens on the node.
type EventSource interface {
	// Watch begins to watch with a buffer of that many events. lost returns how
	// many did not fit so far; stop ends the watch.
	Watch(f quota.EventFilter, buffer int) (events <-chan quota.Event, lost func() uint64, stop func())
}

// Options are what the servers need besides a node.
type Options struct {
	// ParseLimits reads a limit file; its error carries all faults. Required for calls that
	// contain one.
	ParseLimits func(source string, data []byte) ([]quota.Limit, error)
	// FormatLimits writes a limit file. Required for calls that return one.
	FormatLimits func(limits []quota.Limit) []byte
	// Lint returns what is probably not meant in limits that are valid; nil finds
	// nothing.
	Lint func(limits []quota.Limit) []string
	// Registry takes the servers' metrics and is what GET /metrics shows. The
	// gRPC and the HTTP server of one node share it. Nil: a private one.
	Registry *prometheus.Registry
	// Series bounds the limits that are counted by name in the metrics; nil: as many as
	// series.DefaultLimits.
	Series *series.Guard
	// Tracer makes a span of every call over HTTP, and of all over gRPC but Allow and
	// AllowBatch; nil is off.
	Tracer *tracing.Tracer
	// Logger takes what goes wrong inside; nil discards it.
	Logger *slog.Logger
	// Identifier says who calls, for permissions, request ids and histories. Nil:
	// whoever the metadata or header quorate-user or x-forwarded-user names, else
	// Anonymous; nothing proves it.
	Identifier access.Identifier
	// Grants says who may do what on AccountAdminService. Nil: everybody may
	// everything.
	Grants access.Grants
	// Guard says who calls and whether they may; it goes before Identifier and
	// Grants. Nil: authentication is off, and everybody may do everything but what
	// Grants says.
	Guard *auth.Guard
	// Audit takes what was changed, and what was denied; nil: nothing is written.
	Audit *audit.Log
	// Hosts are the names that HTTP callers may use for a node without a guard, besides
	// addresses and names outside the public DNS; nil accepts any name.
	Hosts []string
	// Self is the node's id, for the audit log.
	Self string
	// Version of the software, for quorate_build_info.
	Version string
	// Register adds services of other protocols to the gRPC server, perhaps nil.
	// They call seen with every decision, so that it is counted in the metrics, and
	// how many times it was made.
	Register func(srv grpc.ServiceRegistrar, seen func(d *quota.Decision, times uint64))
	// Mount serves paths of other protocols over HTTP: a handler has its path,
	// such as /api, and all that is below it. Routes of this package go first.
	Mount map[string]http.Handler
	// ForwardAuth serves the check for proxies, GET /v1/forward-auth.
	ForwardAuth bool
	// Forwarded is called with the outcome of each of these checks, concurrently:
	// allowed, refused, invalid, denied, or fault, which is a limit that cannot be
	// decided. Nil: nobody counts them.
	Forwarded func(code string)
	// Fronts returns further ones, whose handlers call seen with every decision; nil
	// is none.
	Fronts func(seen func(d *quota.Decision, times uint64)) map[string]http.Handler
}

// Bounds of bodies over HTTP, in bytes.
const (
	MaxCheckBody = 16 << 10
	MaxBatchBody = 4 << 20
)

// core is what all services have in common.
type core struct {
	*Gate
	node coreNode

	Opts  Options
	Log   *slog.Logger
	Meter *Meter
	// Heartbeat is the longest silence of an event stream.
	Heartbeat time.Duration
	// Stuck is how long a stream of events may take nothing.
	Stuck time.Duration
	// Clock is now, for questions about the past.
	Clock func() time.Time
	// watchers counts open rate watches. eventRoom counts the buffers of event watches, in events.
	watchers, eventRoom *fairshare.Pool
	// Closing ends event streams when the HTTP server shuts down.
	Closing chan struct{}
}

// coreNode is what all services need of a node.
type coreNode interface {
	Check(k quota.Key, cost int64) quota.Decision
	Limits() *quota.Limits
	Status() *quoratev1.GetStatusResponse
}

func newCore(n coreNode, o Options) *core {
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	meter := registerMeter(o)
	return &core{
		Gate: newGate(n, &o, meter.denied), node: n, Opts: o, Log: log, Meter: meter, Heartbeat: heartbeatTime, Clock: time.Now, Stuck: EventWriteTimeout,
		Closing: make(chan struct{}), watchers: newWatchers(maxRateWatchers, o.Guard), eventRoom: newWatchers(maxEventRoom, o.Guard),
	}
}
