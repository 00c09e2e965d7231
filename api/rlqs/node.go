package rlqs

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/internal/quota"
)

// Node is what this package needs of a node. All methods are called concurrently.
type Node interface {
	// Draw charges up to want tokens of a key and returns how many it got.
	Draw(k quota.Key, want int64) (got int64)
	// Miss counts what somebody was refused elsewhere: demand, and nothing else.
	Miss(k quota.Key, cost int64)
	// Refund gives back tokens that were drawn.
	Refund(k quota.Key, cost int64) quota.Decision
	// Standing tells what the node knows of a key.
	Standing(k quota.Key) quota.Standing
	// Limits returns the limits in force, nil if there are none yet.
	Limits() *quota.Limits
}

// Options of a server. The zero value of a field means its default.
type Options struct {
	// Permitted says whether the caller of the stream may have requests of a
	// namespace decided: nil, or the error to end the stream with. Nil: everybody may.
	Permitted func(ctx context.Context, namespace string) error
	// Meter counts messages and buckets, as protocol "envoy_rlqs"; nil: nobody.
	Meter *front.Meter
	// Seen is called with what proxies report that they decided, and how many times,
	// concurrently; nil: nobody.
	Seen func(d *quota.Decision, times uint64)
	// Registry takes the other metrics; nil: nobody.
	Registry prometheus.Registerer

	// TTL is how long an assignment lasts, in whole seconds; it is sent again when
	// half of that is over. Default 10s.
	TTL time.Duration
	// Slow is how long an assignment may wait to be sent, until the stream is ended;
	// default 2s.
	Slow time.Duration
	// Idle is after how long without a request a bucket is abandoned; default 60s.
	Idle time.Duration
	// MaxStreams, default 4096; MaxBuckets of all, default 100,000; MaxPerStream,
	// default 1000.
	MaxStreams, MaxBuckets, MaxPerStream int
}

func (o Options) withDefaults() Options {
	if o.Permitted == nil {
		o.Permitted = func(context.Context, string) error { return nil }
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
	if o.Slow == 0 {
		o.Slow = 2 * time.Second
	}
	return o
}

// Bounds of what a stream may send.
const (
	maxDomain = 1024 // bytes
	maxUsages = 4096 // buckets in one message
	perSecond = 200  // messages; more are read later
	atOnce    = 2000 // messages: a proxy reports every new bucket by itself
)

// tickInterval is how often the division is looked at while there is anything to divide.
const tickInterval = 50 * time.Millisecond
