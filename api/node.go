package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// Node is the part of a cluster node that the servers use. All methods are safe for concurrent use.
type Node interface {
	HeldChecker
	Decider
	LimitLife
	OverrideStore
	Keys
	SecurityStore
	EventSource
	AuditSource
	Accounts
	PolicyStore
	planner.History
	Operator
	Backuper
	attach.Host

	// Check decides and charges one request of at least one token, with the limit's own wait. It
	// must not block, except for a limit that its leader decides.
	Check(k quota.Key, cost int64) quota.Decision
	// Limits returns the current limits. They are never changed in place.
	Limits() *quota.Limits
	// TopRates asks the leaders of all ranges. req.Top is 1 to MaxTop.
	TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error)
	// Status returns the cluster as this node sees it.
	Status() *quoratev1.GetStatusResponse
}

// HeldChecker decides many checks of one limit at once, if the node holds enough for them. out is
// as long as checks. A decision in out without a limit is undecided: nothing was taken or counted,
// and Node.Check decides that check.
type HeldChecker interface {
	CheckHeld(limit quota.LimitName, checks []quota.Spend, out []quota.Decision)
}

// Decider decides everything beyond a single plain check. Keys name limits as the caller wrote
// them; the node resolves templates and defaults. A decision whose Limit is nil and whose Why is
// WhyNoLimit means that the limit does not exist.
type Decider interface {
	// Decide decides requests, all or nothing. out has the length of reqs and receives their
	// decisions; the decisions after a refusal stay zero.
	Decide(reqs []quota.Request, out []quota.Decision) (allowed bool)
	// Batch returns a function that decides independent calls. They wait for leaders together, and for
	// one that does not answer only once.
	Batch() func(calls []quota.Call)
	// Refund gives tokens back.
	Refund(k quota.Key, cost int64) quota.Decision
	// Charge books used tokens whatever the key's level, down to a bound, and returns how many it
	// booked.
	Charge(k quota.Key, used int64) (booked int64, d quota.Decision)
	// Reserve decides like Decide and sets aside the charge until it is settled or ttl ends; a ttl
	// of 0 is the limits' own lease. owner is the caller's identity, empty if unknown. Reserve
	// returns quota.ErrTooManyReservations if the node, or the owner, has too many reservations.
	Reserve(owner string, reqs []quota.Request, ttl time.Duration, out []quota.Decision) (quota.Reservation, bool, error)
	// ReservedIn returns the namespaces of a reservation, each once. It returns the same errors as
	// Settle.
	ReservedIn(ctx context.Context, handle string) ([]string, error)
	// Settle ends a reservation of which used tokens were used; a negative used means all. It
	// returns quota.ErrNoReservation if the reservation does not exist.
	Settle(ctx context.Context, handle string, used int64) error
	// Renew extends a reservation to ttl from now; a ttl of 0 repeats the first one.
	Renew(ctx context.Context, handle string, ttl time.Duration) error
}

// LimitLife keeps the history of the cluster's limits.
type LimitLife interface {
	// ChangeLimits replaces the limits, or returns a *quota.ConflictError. If no leader answers,
	// [IsNoLeader] is true for the error.
	ChangeLimits(ctx context.Context, c quota.Change) (v quota.Version, changed bool, err error)
	// LimitVersions returns up to max versions below before (0 means from the newest), newest
	// first.
	LimitVersions(ctx context.Context, before uint64, max int) ([]quota.Version, error)
	// LimitsAt returns a version, or a *quota.UnknownVersionError.
	LimitsAt(ctx context.Context, version uint64) (quota.Version, []quota.Limit, error)
}

// OverrideStore keeps the overrides of the cluster.
type OverrideStore interface {
	// SetOverrides adds or replaces overrides, all or none.
	SetOverrides(ctx context.Context, list []quota.Override) error
	// DeleteOverrides deletes overrides and returns how many of them existed.
	DeleteOverrides(ctx context.Context, keys []quota.Key) (int, error)
	// ListOverrides returns up to max overrides after the key after, sorted by key, and the total
	// number. An empty field of name matches everything.
	ListOverrides(name quota.LimitName, after quota.Key, max int) (list []quota.Override, total int)
	// Override returns the override of a key, or nil.
	Override(k quota.Key) *quota.Override
}

// Keys shows and resets single keys.
type Keys interface {
	// Key returns one entry per counter of the key: tiers, floor, parents.
	Key(ctx context.Context, k quota.Key) ([]*quoratev1.KeyRate, error)
	// ResetKey refills all tiers of the key.
	ResetKey(ctx context.Context, k quota.Key) error
}

// SecurityStore keeps role bindings and tokens.
type SecurityStore interface {
	// Security returns the table as far as this node knows it. It is never changed in place.
	Security() *rbac.Table
	// SetBinding adds a binding and reports whether that changed anything.
	SetBinding(ctx context.Context, b rbac.Binding) (bool, error)
	// DeleteBinding deletes a binding and reports whether it existed.
	DeleteBinding(ctx context.Context, b rbac.Binding) (bool, error)
	// AddToken adds a bearer token.
	AddToken(ctx context.Context, t rbac.Token) error
	// RevokeToken revokes a token and reports whether it existed.
	RevokeToken(ctx context.Context, id string) (bool, error)
}

// EventSource publishes the events of all nodes.
type EventSource interface {
	// WatchAll starts a watch on all nodes, or on one, each with a buffer of buffer events. A
	// response without an event reports that the missing nodes have changed. lost returns how many
	// events did not fit so far; stop ends the watch.
	WatchAll(f quota.EventFilter, node string, buffer int) (events <-chan *quoratev1.WatchResponse, lost func() uint64, stop func())
}

// AuditSource reads the audit logs of all nodes.
type AuditSource interface {
	// ListAuditEntries returns one page, newest first. The request is valid, and req.PageSize is
	// positive.
	ListAuditEntries(ctx context.Context, req *quoratev1.ListAuditEntriesRequest) (*quoratev1.ListAuditEntriesResponse, error)
}

// Options configure the services, in addition to a node.
type Options struct {
	// ParseLimits reads a limit file; its error lists all faults. Calls that carry a limit file
	// need it.
	ParseLimits func(source string, data []byte) ([]quota.Limit, error)
	// FormatLimits writes a limit file. Calls that return one need it.
	FormatLimits func(limits []quota.Limit) []byte
	// Lint returns probable mistakes in valid limits; nil finds none.
	Lint func(limits []quota.Limit) []string
	// Registry holds the servers' metrics, which GET /metrics exports. Nil means a private one.
	Registry *prometheus.Registry
	// Series bounds how many limits the metrics count by name; nil means series.DefaultLimits.
	Series *series.Guard
	// Tracer makes a span of every call over HTTP, and of every call over gRPC except Allow and
	// AllowBatch; nil means off.
	Tracer *tracing.Tracer
	// Logger logs internal errors; nil discards them.
	Logger *slog.Logger
	// Grants authorizes calls of AccountAdminService. Nil permits everything to everybody.
	Grants access.Grants
	// Guard authenticates and authorizes callers; it replaces Grants. Nil means that authentication
	// is off: only Grants restricts calls, and callers have the name that they give, see
	// [Gate.Identity].
	Guard *auth.Guard
	// Audit logs changes and denied calls; nil logs nothing.
	Audit *audit.Log
	// Hosts are the names that HTTP callers may use for a node without a guard, in addition to
	// addresses and names outside the public DNS; nil accepts any name.
	Hosts []string
	// Self is the node's id, for the audit log.
	Self string
	// Version is the version of the software, for quorate_build_info.
	Version string
}

// Bounds of bodies over HTTP, in bytes.
const (
	MaxCheckBody = 16 << 10
	MaxBatchBody = 4 << 20
)

// core holds what all services share.
type core struct {
	*Gate
	node coreNode

	Opts  Options
	Log   *slog.Logger
	Meter *Meter
	// Heartbeat is the longest silence of an event stream.
	Heartbeat time.Duration
	// Stuck is the longest time that a caller may take nothing from an event stream.
	Stuck time.Duration
	// Clock returns the current time, for questions about the past.
	Clock func() time.Time
	// watchers counts open rate watches. eventRoom counts the buffers of event watches, in events.
	watchers, eventRoom *fairshare.Pool
	// closing is closed by endStreams.
	closing    chan struct{}
	endStreams func()
}

// coreNode is the part of a node that all services use.
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
	meter, closing := newMeter(&o), make(chan struct{})
	return &core{
		Gate: newGate(n, &o, meter.denied), node: n, Opts: o, Log: log, Meter: meter, Heartbeat: heartbeatTime, Clock: time.Now, Stuck: EventWriteTimeout,
		closing: closing, endStreams: sync.OnceFunc(func() { close(closing) }), watchers: newWatchers(maxRateWatchers, o.Guard), eventRoom: newWatchers(maxEventRoom, o.Guard),
	}
}
