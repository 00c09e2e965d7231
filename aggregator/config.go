package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Config is how a member reports. The zero value of a field means its default.
type Config struct {
	Self        quota.NodeID
	Incarnation quota.Incarnation
	// Nodes of the cluster; default 1.
	Nodes int
	// Ranges of the cluster, 1 to 256.
	Ranges int
	// Sync is the interval of reports, 10ms to 10s, default 100ms. The same on
	// all nodes.
	Sync time.Duration
	// Lease is how long a member that never got an answer waits before it
	// counts as cut off. Default 3s, as the leaders'.
	Lease time.Duration
	// MaxKeys bounds the table. Default 1,000,000.
	MaxKeys int
	// MaxEntries bounds the keys in one report. 1 to 4096, default 4096.
	MaxEntries int
	// Idle is how long an unused key is remembered at least. Default 10m.
	Idle time.Duration
	// Overrides of limits for single keys; may be nil.
	Overrides quota.Overrides
	// Created and Removed are called for every bucket that comes or goes, from any goroutine;
	// they must not block. They may be nil.
	Created, Removed func(quota.Key)
	// Journal keeps the counts of durable keys beyond this process; may be nil.
	Journal Journal
	// Known is for how long before this process everything that earlier ones of the
	// node counted is known: it was committed, or is in Journal and passed to
	// [Aggregator.Recovered]. 0 means that they may have counted what nobody knows.
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
	if c.MaxEntries <= 0 || c.MaxEntries > maxEntries {
		c.MaxEntries = maxEntries
	}
	return c
}

const (
	// spacing is the least time between two reports of a key that runs low.
	spacing = 5 * time.Millisecond
	// patience, in sync intervals, is how long an unused key stays open.
	patience = 10
	// lull, in sync intervals, is how long a key that nobody uses keeps what it
	// holds while the cluster has more.
	lull = 3
	// retry, in sync intervals, is how long a leader has at least to answer the reports about
	// all open keys; see tellAgainAfter.
	retry = 3
	// maxEntries bounds Config.MaxEntries.
	maxEntries = 4096
	// maxReport bounds one report in bytes, as quota.EntrySize counts them: servers and clients
	// of gRPC read 4 MiB, and the answer of a report is about as large.
	maxReport = 3 << 20
)
