package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Config configures a member. The zero value of a field means its default.
type Config struct {
	Self        quota.NodeID
	Incarnation quota.Incarnation
	// Nodes is the number of nodes of the cluster; default 1.
	Nodes int
	// Ranges is the number of ranges of the cluster, 1 to 256.
	Ranges int
	// Sync is the interval of reports, 10ms to 10s, default 100ms. It is the same on all nodes.
	Sync time.Duration
	// Lease is the time without any answer after which a new key counts as cut off. Default 3s, as the leaders'.
	Lease time.Duration
	// MaxKeys bounds the keys of the table. Default 1,000,000.
	MaxKeys int
	// MaxEntries bounds the keys of one report, 1 to 4096. Default 128: a leader locks its ledger for each report, and
	// a key takes one to two microseconds.
	MaxEntries int
	// Idle is the least time for which an unused key is remembered. Default 10m.
	Idle time.Duration
	// Overrides are the overrides of limits for single keys; may be nil.
	Overrides quota.Overrides
	// Created and Removed are called for every key that is added or dropped, from any goroutine. They must not block.
	// They may be nil.
	Created, Removed func(quota.Key)
	// Journal stores the counts of durable keys beyond the end of this process; may be nil.
	Journal Journal
	// Known is the time before this process for which all counts of the node's earlier processes are known: they were
	// committed, or are in Journal and were passed to [Aggregator.Recovered]. 0 means that some may be unknown.
	Known time.Duration
}

// WithDefaults returns c with zero fields set to their defaults.
func (c Config) WithDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Sync, 100*time.Millisecond)
	def(&c.Lease, max(3*time.Second, 3*c.Sync))
	def(&c.Idle, 10*time.Minute)
	c.Nodes = max(c.Nodes, 1)
	if c.MaxKeys == 0 {
		c.MaxKeys = 1_000_000
	}
	if c.MaxEntries <= 0 {
		c.MaxEntries = defaultEntries
	}
	c.MaxEntries = min(c.MaxEntries, maxEntries)
	return c
}

const (
	// spacing is the least time between two urgent reports of a key.
	spacing = 5 * time.Millisecond
	// openIntervals is the time after which an unused key closes, in sync intervals.
	openIntervals = 10
	// idleIntervals is the time for which an unused key keeps its tokens while the cluster has more, in sync intervals. Soft
	// limits only.
	idleIntervals = 3
	// fullRetryIntervals is the least time that a leader has to answer a full report, in sync intervals; see reportAgainAfter.
	fullRetryIntervals = 3
	// maxEntries bounds Config.MaxEntries, whose default is defaultEntries.
	maxEntries     = 4096
	defaultEntries = 128
	// maxReport bounds one report in bytes, as quota.EntrySize counts them: servers and clients of gRPC read 4 MiB,
	// and the answer to a report is about as large.
	maxReport = 3 << 20
)
