package rlqs

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/internal/quota"
)

// Node is the part of a cluster node that this package uses. All methods are called concurrently.
type Node interface {
	// Draw charges up to want tokens of a key and returns how many it got.
	Draw(k quota.Key, want int64) (got int64)
	// Miss counts demand that was refused elsewhere, and nothing else.
	Miss(k quota.Key, cost int64)
	// Refund gives back drawn tokens.
	Refund(k quota.Key, cost int64) quota.Decision
	// Standing returns what the node knows of a key.
	Standing(k quota.Key) quota.Standing
	// Limits returns the current limits, or nil before the first.
	Limits() *quota.Limits
}

// Options of a server. The zero value of a field means its default.
type Options struct {
	// Permitted returns an error if the caller of the stream may not have requests of a namespace
	// decided; the error ends the stream. It is called for every message, received or sent, and
	// every ReauthorizeEvery. Nil permits everybody.
	Permitted func(ctx context.Context, namespace string) error
	// Owner returns the caller to whom a stream and its buckets are charged. One caller has at most
	// fairshare.PerFree times as many as are free. Nil, or "", means a caller that is not known: only
	// the whole bounds apply.
	Owner func(ctx context.Context) string
	// Meter counts messages and buckets, as protocol "envoy_rlqs"; nil counts nothing.
	Meter *front.Meter
	// Seen is called concurrently with each reported decision and the number of times it was made;
	// nil ignores them.
	Seen func(d *quota.Decision, times uint64)
	// Registry holds the other metrics; nil exports none.
	Registry prometheus.Registerer

	// ReauthorizeEvery is how often the permission of a silent stream is checked. The default is 10s.
	ReauthorizeEvery time.Duration
	// TTL is the lifetime of an assignment in whole seconds; the assignment is sent again after
	// half of it. The default is 10s.
	TTL time.Duration
	// Slow is the longest time that an assignment may wait to be sent before the stream is ended.
	// The default is 2s.
	Slow time.Duration
	// Idle is the time without requests after which a bucket is abandoned. The default is 60s.
	Idle time.Duration
	// MaxStreams defaults to 4096, MaxBuckets (of all streams) to 100,000, and MaxPerStream to 1000
	// buckets.
	MaxStreams, MaxBuckets, MaxPerStream int
}

func (o Options) withDefaults() Options {
	if o.Permitted == nil {
		o.Permitted = func(context.Context, string) error { return nil }
	}
	if o.Owner == nil {
		o.Owner = func(context.Context) string { return "" }
	}
	if o.Meter == nil {
		o.Meter = front.NewMeter(prometheus.NewRegistry())
	}
	if o.Seen == nil {
		o.Seen = func(*quota.Decision, uint64) {}
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MaxStreams, 4096)
	def(&o.MaxBuckets, 100_000)
	def(&o.MaxPerStream, 1000)
	if o.ReauthorizeEvery == 0 {
		o.ReauthorizeEvery = 10 * time.Second
	}
	if o.Slow == 0 {
		o.Slow = 2 * time.Second
	}
	return o
}

// Bounds on the messages of a stream.
const (
	maxDomain = 1024 // bytes
	maxUsages = 4096 // buckets in one message
	perSecond = 200  // messages; the node reads further ones later
	atOnce    = 2000 // messages: a proxy reports every new bucket in a message of its own
)

// tickInterval is how often the division is updated while there is anything to divide.
const tickInterval = 50 * time.Millisecond
