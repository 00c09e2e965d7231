// Package rlqstest is a client of the rate limit quota service for tests. It behaves like
// Envoy's filter, also where the filter does less than the protocol allows:
//
//   - It reports the first request of a bucket at once, and all buckets every interval.
//     The elapsed time of a report is in whole seconds.
//   - An assignment takes effect when it arrives. A token bucket starts full if it is new
//     or differs from the last one; the comparison ignores the seconds of the fill
//     interval. The bucket refills continuously, and the rate uses only the whole seconds
//     of the interval.
//   - A time to live counts in whole seconds. When it ends, the fallback, if configured,
//     applies for its own time, and then the behavior without an assignment.
//   - It supports blanket rules and token buckets, and skips other strategies.
//   - It loses the counts of a report that it cannot send because the stream has ended, and
//     opens the stream again at the next report.
package rlqstest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Config configures a Filter.
type Config struct {
	Domain   string
	Interval time.Duration // between reports
	// Deny refuses requests without an assignment; if false, they pass.
	Deny bool
	// Fallback applies for FallbackTime after an assignment has ended; nil means no
	// fallback.
	Fallback     *typev3.RateLimitStrategy
	FallbackTime time.Duration
}

// Filter simulates one proxy. It is safe for concurrent use.
type Filter struct {
	cfg    Config
	client pb.RateLimitQuotaServiceClient
	ctx    context.Context
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	stream  pb.RateLimitQuotaService_StreamRateLimitQuotasClient
	buckets map[string]*Bucket
	err     error // error that ended the last stream
	Streams int   // number of streams opened so far
}

// Bucket is the state of one bucket id in a filter.
type Bucket struct {
	ID       map[string]string
	Strategy *typev3.RateLimitStrategy // nil: no assignment
	Pushes   int                       // assignments received
	Fresh    int                       // assignments that started a full bucket
	expires  time.Time                 // zero: never
	fallen   bool                      // Strategy is the fallback
	level    float64
	at       time.Time
	last     time.Time
	allowed  uint64
	denied   uint64
}

// New returns a filter that opens its stream at the first request. Call Close to stop it.
func New(conn grpc.ClientConnInterface, cfg Config) *Filter {
	f := &Filter{cfg: cfg, client: pb.NewRateLimitQuotaServiceClient(conn), buckets: map[string]*Bucket{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.done.Go(f.tick)
	return f
}

// Close ends the stream and waits for the filter's goroutines.
func (f *Filter) Close() {
	f.stop()
	f.done.Wait()
}

func nameOf(id map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(id)) {
		fmt.Fprintf(&b, "%q=%q ", k, id[k])
	}
	return b.String()
}

// Request decides whether a request of a bucket may pass. It does not wait for the service.
func (f *Filter) Request(id map[string]string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	b := f.buckets[nameOf(id)]
	if b == nil {
		b = &Bucket{ID: id, last: now}
		f.buckets[nameOf(id)] = b
		b.count(!f.cfg.Deny)
		f.report(now, b)
		return !f.cfg.Deny
	}
	f.expire(now, b)
	ok := b.passes(now, f.cfg.Deny)
	b.count(ok)
	return ok
}

func (b *Bucket) count(ok bool) {
	if ok {
		b.allowed++
	} else {
		b.denied++
	}
}

func (f *Filter) expire(now time.Time, b *Bucket) {
	if b.expires.IsZero() || now.Before(b.expires) {
		return
	}
	b.Strategy, b.expires = nil, time.Time{}
	if f.cfg.Fallback != nil && !b.fallen {
		b.set(now, f.cfg.Fallback)
		b.expires, b.fallen = now.Add(f.cfg.FallbackTime), true
	}
}

func (b *Bucket) passes(now time.Time, deny bool) bool {
	switch s := b.Strategy.GetStrategy().(type) {
	case *typev3.RateLimitStrategy_BlanketRule_:
		return s.BlanketRule == typev3.RateLimitStrategy_ALLOW_ALL
	case *typev3.RateLimitStrategy_TokenBucket:
		t := s.TokenBucket
		rate := float64(t.GetTokensPerFill().GetValue()) / float64(int64(t.GetFillInterval().AsDuration().Seconds()))
		b.level = min(float64(t.GetMaxTokens()), b.level+rate*now.Sub(b.at).Seconds())
		b.at = now
		if b.level < 1 {
			return false
		}
		b.level--
		return true
	}
	return !deny
}

// set replaces the strategy.
func (b *Bucket) set(now time.Time, s *typev3.RateLimitStrategy) {
	if t, o := s.GetTokenBucket(), b.Strategy.GetTokenBucket(); t != nil && (o == nil || t.GetMaxTokens() != o.GetMaxTokens() ||
		t.GetTokensPerFill().GetValue() != o.GetTokensPerFill().GetValue() || t.GetFillInterval().GetNanos() != o.GetFillInterval().GetNanos()) {
		b.level, b.at = float64(t.GetMaxTokens()), now
		b.Fresh++
	} else if t != nil {
		s = b.Strategy
	}
	b.Strategy = s
}

// tick reports all buckets every interval.
func (f *Filter) tick() {
	t := time.NewTicker(f.cfg.Interval)
	defer t.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case now := <-t.C:
			f.mu.Lock()
			if len(f.buckets) > 0 {
				f.report(now, slices.Collect(maps.Values(f.buckets))...)
			}
			f.mu.Unlock()
		}
	}
}

// report sends the usage of buckets and resets their counts. The caller holds f.mu.
func (f *Filter) report(now time.Time, list ...*Bucket) {
	msg := &pb.RateLimitQuotaUsageReports{}
	for _, b := range list {
		msg.BucketQuotaUsages = append(msg.BucketQuotaUsages, &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: &pb.BucketId{Bucket: b.ID}, TimeElapsed: durationpb.New(now.Sub(b.last).Truncate(time.Second)),
			NumRequestsAllowed: b.allowed, NumRequestsDenied: b.denied,
		})
		b.allowed, b.denied, b.last = 0, 0, now
	}
	if f.stream == nil {
		msg.Domain = f.cfg.Domain // the protocol needs it only in the first message
		if !f.open() {
			return
		}
	}
	if err := f.stream.Send(msg); err != nil {
		f.stream = nil
	}
}

func (f *Filter) open() bool {
	s, err := f.client.StreamRateLimitQuotas(f.ctx)
	if err != nil {
		f.err = err
		return false
	}
	f.stream = s
	f.Streams++
	f.done.Go(func() {
		for {
			msg, err := s.Recv()
			f.mu.Lock()
			if err != nil {
				if f.stream == s {
					f.stream, f.err = nil, err
				}
				f.mu.Unlock()
				return
			}
			f.apply(time.Now(), msg)
			f.mu.Unlock()
		}
	})
	return true
}

func (f *Filter) apply(now time.Time, msg *pb.RateLimitQuotaResponse) {
	for _, a := range msg.GetBucketAction() {
		name := nameOf(a.GetBucketId().GetBucket())
		b := f.buckets[name]
		if b == nil {
			continue
		}
		if a.GetAbandonAction() != nil {
			delete(f.buckets, name)
			continue
		}
		q := a.GetQuotaAssignmentAction()
		if s := q.GetRateLimitStrategy(); s.GetBlanketRule() == 0 && s.GetTokenBucket() == nil && s.GetStrategy() == nil || s.GetRequestsPerTimeUnit() != nil {
			continue
		}
		b.Pushes++
		b.set(now, q.GetRateLimitStrategy())
		b.expires, b.fallen = now.Add(time.Duration(q.GetAssignmentTimeToLive().GetSeconds())*time.Second), false
	}
}

// Look returns a copy of a bucket's state; false if the filter does not have the bucket.
func (f *Filter) Look(id map[string]string) (Bucket, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.buckets[nameOf(id)]
	if b == nil {
		return Bucket{}, false
	}
	f.expire(time.Now(), b)
	return *b, true
}

// Opened returns how many streams the filter has opened so far.
func (f *Filter) Opened() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Streams
}

// Ended returns the error that ended the last stream; nil if no stream has ended.
func (f *Filter) Ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
