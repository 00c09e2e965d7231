package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
	"github.com/quorate/quorate/internal/tracing"
	"github.com/quorate/quorate/shard"
)

// Config is what a node needs to know. Cluster, Nodes, Ranges, Replicas and
// Sync must be the same on all nodes; the first two of them are checked when
// nodes connect.
type Config struct {
	Cluster  string
	Self     quota.NodeID
	Nodes    map[quota.NodeID]string // all nodes and where their peer port is
	Listener net.Listener            // of this node's peer port
	Dir      string                  // data; made if missing
	Ranges   int                     // 1 to 256, fixed when the cluster is made
	Replicas int                     // 1, 3 or 5
	Sync     time.Duration           // interval of reports, 10ms to 10s
	MaxKeys  int                     // bound on keys of this node
	Idle     time.Duration           // how long an unused key is remembered
	// GrantWait is how long a check may wait for the leader's next grant, 0 to
	// 1s; 0 never waits. It waits when this node holds too little of a hard
	// limit while the cluster seems to have enough, and when it would have to
	// guess about a soft one: see docs/rfcs/20261121_grant_wait.md.
	GrantWait time.Duration
	// AskWait is how long a check waits for the leader that it asks: limits with
	// decide: leader, and tokens to come. 10ms to 10s; 0 is DefaultAskWait.
	AskWait  time.Duration
	Timing   raftgroup.Timing
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Series bounds the limits that have series of their own in the metrics; nil: as
	// many as series.DefaultLimits.
	Series *series.Guard
	// AwaitLimits holds readiness until the cluster has limits: whoever starts the node
	// is about to set the first.
	AwaitLimits bool
	// TopKeys is how many of the busiest keys of the ranges led here the metrics name, 0
	// to series.MaxTopKeys; 0 names none.
	TopKeys int

	// Tracer makes spans of joins, plans, moves, slow reports and calls that are passed
	// on; nil is off.
	Tracer *tracing.Tracer

	wall    func() time.Time // tests: the wall clock
	Version string

	// Join says that Nodes, which names this node too, are members that have
	// taken it in: it makes no group of its own.
	Join bool
	// JoinID is the id of the join that made this node a member; empty for one that
	// never joined. It tells the node from earlier ones of its name.
	JoinID string
	// Zone is a label of where the node stands; replicas are spread over zones.
	Zone string
	// GRPC and HTTP are the addresses at which others reach the node's APIs; the
	// membership tells them to clients and operators.
	GRPC, HTTP string
	// Certificates are nil where nodes trust each other's word.
	Certificates membership.Certificates
	// Authority signs certificates, if the cluster is to have one of its own: the
	// first membership takes it over.
	Authority *pki.Pair
	// TLS is what the links between nodes are made with; nil is none.
	TLS *transport.TLS
	// DeadAfter is how long a node must have been silent before its replicas are
	// given to others; 0 is DefaultDeadAfter, below 0 is never.
	DeadAfter time.Duration
	// BalanceAfter is how long a node must have been connected to be given leadership;
	// 0 is 10 s.
	BalanceAfter time.Duration
	// History is what the node does for the history of limits.
	History recorder.Retention
	// SlowDisk is how long an append to a log may take, on average, until this node gives
	// what it leads to others; 0 is raftgroup.DefaultSlowDisk, below 0 is never.
	SlowDisk time.Duration
}

// DefaultDeadAfter is longer than a restart of a machine takes.
const DefaultDeadAfter = 5 * time.Minute

// DefaultGrantWait is a few round trips in one data centre.
const DefaultGrantWait = 20 * time.Millisecond

// DefaultAskWait is a few hops in one region.
const DefaultAskWait = 250 * time.Millisecond

// Validate returns every fault of c, joined.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := quota.CheckName("cluster", c.Cluster); err != nil {
		errs = append(errs, err)
	}
	if _, ok := c.Nodes[c.Self]; !ok {
		bad("node: %q is not among the nodes of the cluster", c.Self)
	}
	if c.Ranges < 1 || c.Ranges > shard.MaxRanges {
		bad("ranges: %d; must be 1 to %d", c.Ranges, shard.MaxRanges)
	}
	if !slices.Contains([]int{1, 3, 5}, c.Replicas) {
		bad("replicas: %d; must be 1, 3 or 5", c.Replicas)
	}
	if c.Listener == nil {
		bad("listener: missing")
	}
	if c.GrantWait < 0 || c.GrantWait > time.Second {
		bad("grant_wait: %v; must be 0 to 1s", c.GrantWait)
	}
	if c.AskWait != 0 && (c.AskWait < 10*time.Millisecond || c.AskWait > 10*time.Second) {
		bad("ask_wait: %v; must be 10ms to 10s", c.AskWait)
	}
	if c.TopKeys < 0 || c.TopKeys > series.MaxTopKeys {
		bad("top_keys: %d; must be 0 to %d", c.TopKeys, series.MaxTopKeys)
	}
	return errors.Join(errs...)
}
