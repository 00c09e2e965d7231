// Package rlqstest is a client of the rate limit quota service for tests. It behaves
// as Envoy's filter does, also where that is less than what the protocol allows:
//
//   - the first request of a bucket is reported at once, and all buckets every
//     interval; the time that a report is about is in whole seconds;
//   - an assignment is in force when it arrives. A token bucket is full when it is new
//     or differs from the last, and is compared without the seconds of its fill
//     interval; it is filled continuously, by whole seconds of that;
//   - a time to live counts in whole seconds. After it comes the fallback, if there is
//     one, for its own time, and then what is done without an assignment;
//   - a blanket rule and a token bucket are known; whatever else is skipped;
//   - what was not sent because the stream had ended is lost, and the stream is opened
//     again at the next report.
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

// Config is what a filter is configured with.
type Config struct {
	Domain   string
	Interval time.Duration // between reports
	// Deny is what is done without an assignment; else everything passes.
	Deny bool
	// Fallback follows an assignment that has ended, for FallbackTime; nil: nothing
	// does.
	Fallback     *typev3.RateLimitStrategy
	FallbackTime time.Duration
}

// Filter is one proxy. Its methods may be called concurrently.
type Filter struct {
	cfg    Config
	client pb.RateLimitQuotaServiceClient
	ctx    context.Context
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	stream  pb.RateLimitQuotaService_StreamRateLimitQuotasClient
	buckets map[string]*Bucket
	err     error // that the last stream ended with
	Streams int   // opened so far
}

// Bucket is what a filter knows of one bucket id.
type Bucket struct {
	ID       map[string]string
	Strategy *typev3.RateLimitStrategy // nil: no assignment
	Pushes   int                       // assignments received
	Fresh    int                       // of them, those that were a full bucket again
	expires  time.Time                 // zero: never
	fallen   bool                      // Strategy is the fallback
	level    float64
	at       time.Time
	last     time.Time
	allowed  uint64
	denied   uint64
}

// New returns a filter that opens its stream with the first request.
func New(conn grpc.ClientConnInterface, cfg Config) *Filter {
	f := &Filter{cfg: cfg, client: pb.NewRateLimitQuotaServiceClient(conn), buckets: map[string]*Bucket{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.done.Go(f.tick)
	return f
}

// Close ends the stream and all that belongs to it.
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

// Request asks whether a request of a bucket may pass. It waits for nobody.
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

// tick reports every interval.
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

// report sends usages. Called with f.mu held.
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
		msg.Domain = f.cfg.Domain // later messages have none, which the protocol allows
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

// Look returns a copy of what is known of a bucket; false if it is not there.
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

// Opened is how many streams it has opened so far.
func (f *Filter) Opened() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Streams
}

// Ended returns the error that the last stream ended with; nil while none has.
func (f *Filter) Ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
