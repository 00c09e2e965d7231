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

// Config configures a node. Cluster, Nodes, Ranges, Replicas and
// Sync must be the same on all nodes; the first two of them are checked when
// nodes connect.
type Config struct {
	Cluster  string
	Self     quota.NodeID
	Nodes    map[quota.NodeID]string // peer address of every node
	Listener net.Listener            // of this node's peer port
	Dir      string                  // data directory; created if missing
	Ranges   int                     // 1 to 256, fixed when the cluster is created
	Replicas int                     // 1, 3 or 5
	Sync     time.Duration           // interval of reports, 10ms to 10s
	MaxKeys  int                     // most keys that this node remembers
	Idle     time.Duration           // how long the node remembers an unused key
	// GrantWait is how long a check may wait for the leader's next grant, 0 to
	// 1s; 0 never waits. A check waits when this node holds too few tokens of a hard
	// limit while the cluster seems to have enough, and when it would have to
	// guess about a soft limit: see docs/rfcs/20261121_grant_wait.md.
	GrantWait time.Duration
	// AskWait is how long a check waits for the answers of leaders, all together, for limits with
	// decide: leader and for future tokens. 10ms to 10s; 0 is DefaultAskWait.
	AskWait  time.Duration
	Timing   raftgroup.Timing
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Series bounds the number of limits that have their own series in the metrics; nil allows
	// series.DefaultLimits.
	Series *series.Guard
	// AwaitLimits keeps the node unready until the cluster has limits. Set it if the starter of
	// the node is about to set the first limits.
	AwaitLimits bool
	// TopKeys is how many of the busiest keys of the ranges led here the metrics name, 0
	// to series.MaxTopKeys; 0 names none.
	TopKeys int

	// Tracer records spans of joins, plans, moves, slow reports and forwarded calls; nil
	// disables tracing.
	Tracer *tracing.Tracer

	wall    func() time.Time // the wall clock; set by tests
	Version string

	// Join says that this node has joined an existing cluster, whose members, this node
	// included, are Nodes. The node creates no groups.
	Join bool
	// JoinID is the id of the join that made this node a member; empty for a node that
	// never joined. It distinguishes the node from earlier nodes of the same name.
	JoinID string
	// Zone labels the node's location; replicas are spread over zones.
	Zone string
	// GRPC and HTTP are the addresses at which others reach the node's APIs; the
	// membership publishes them to clients and operators.
	GRPC, HTTP string
	// Certificates manages the node's certificate and trust; nil if the node renews no
	// certificates itself.
	Certificates membership.Certificates
	// Authority signs certificates if the cluster has an authority of its own: the
	// first membership takes it over.
	Authority *pki.Pair
	// TLS secures the links between nodes; nil disables TLS.
	TLS *transport.TLS
	// DeadAfter is how long a node must have been silent before its replicas move
	// to other nodes; 0 is DefaultDeadAfter, below 0 is never.
	DeadAfter time.Duration
	// BalanceAfter is how long a node must have been connected before it receives
	// leaderships; 0 is 10 s.
	BalanceAfter time.Duration
	// History sets how much history of limits the node keeps.
	History recorder.Retention
	// AuditLog is the path of the node's audit log, for calls that read it; empty for none.
	AuditLog string
	// SlowDisk is the average duration of a log append above which this node hands
	// its leaderships over; 0 is raftgroup.DefaultSlowDisk, below 0 is never.
	SlowDisk time.Duration
}

// DefaultDeadAfter is longer than a machine takes to restart.
const DefaultDeadAfter = 5 * time.Minute

// DefaultGrantWait covers a few round trips in one data centre.
const DefaultGrantWait = 20 * time.Millisecond

// DefaultAskWait covers a few hops in one region.
const DefaultAskWait = 200 * time.Millisecond

// Validate returns all errors of c, joined.
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
