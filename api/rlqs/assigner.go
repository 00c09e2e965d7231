package rlqs

import (
	"context"
	"math"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/api/rlqs/share"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// assigner owns the division of limits among proxies: streams pass reports to it and fetch
// assignments from it. Its goroutine runs while there is anything to divide.
type assigner struct {
	opts   Options
	node   Node
	finder front.Finder
	m      *metrics
	began  time.Time

	streams *fairshare.Pool

	mu      sync.Mutex
	table   *share.Table
	open    map[*stream]struct{}
	subs    map[share.MemberID]*subscription
	next    share.MemberID
	running bool // the goroutine runs
	closed  bool
	done    sync.WaitGroup
}

// stream is the stream of one proxy. Only the reading goroutine uses domain; assigner.mu guards
// subs and the fields below it.
type stream struct {
	grpc   pb.RateLimitQuotaService_StreamRateLimitQuotasServer
	cancel context.CancelCauseFunc
	origin share.Origin
	domain string        // empty until the first message
	named  chan struct{} // receives a value once domain is set

	subs  map[string]*subscription
	queue []*subscription // have an assignment to send, each once
	since time.Time       // when the oldest assignment began to wait or to be sent; zero: none
	wake  chan struct{}

	dropped map[string]time.Time // abandoned buckets, by name
}

// drop records the name of an abandoned bucket. It forgets all earlier names when it has most of
// them.
func (st *stream) drop(name string, most int) {
	if st.dropped == nil || len(st.dropped) >= most {
		st.dropped = map[string]time.Time{}
	}
	st.dropped[name] = time.Now()
}

// subscription is one bucket of a stream.
type subscription struct {
	stream *stream
	member share.MemberID
	id     *pb.BucketId
	name   string // canonical
	key    quota.Key
	limits *quota.Limits     // the current ones when the key was found
	due    *share.Assignment // to be sent: the newest only
}

// tokenSource adapts the node to the division.
type tokenSource struct{ Node }

// Refund implements share.TokenSource.
func (p tokenSource) Refund(k quota.Key, cost int64) { p.Node.Refund(k, cost) }

// Standing implements share.TokenSource. A key without a limit has no standing, even if the
// namespace has defaults for names.
func (p tokenSource) Standing(k quota.Key) quota.Standing {
	if !named(k) {
		return quota.Standing{}
	}
	return p.Node.Standing(k)
}

func newAssigner(n Node, opts Options, m *metrics) *assigner {
	d := &assigner{
		opts: opts, node: n, m: m, began: time.Now(),
		table:   share.New(share.Config{TTL: opts.TTL, Idle: opts.Idle, MaxBuckets: opts.MaxBuckets, Settle: settleTime}, tokenSource{n}),
		streams: fairshare.NewPerFree(int64(opts.MaxStreams)),
		open:    map[*stream]struct{}{}, subs: map[share.MemberID]*subscription{},
	}
	m.watch(d)
	return d
}

// settleTime is the time that an assignment has to take effect at the proxy.
const settleTime = 500 * time.Millisecond

// now returns the monotonic time of the division.
func (s *assigner) now() quota.Time { return quota.Time(s.began.UnixNano()).Add(time.Since(s.began)) }

func (s *assigner) join(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing
	}
	switch s.streams.TryAcquire(st.origin.Owner, 1) {
	case fairshare.Total:
		return status.Errorf(codes.ResourceExhausted, "this node has %d streams of rate limit quotas, its maximum; use another node", s.opts.MaxStreams)
	case fairshare.Each:
		return status.Errorf(codes.ResourceExhausted, "this node has as many streams of rate limit quotas of %s as one caller may have: it keeps the rest of its %d for others; use another node", st.origin.Owner, s.opts.MaxStreams)
	}
	s.open[st] = struct{}{}
	return nil
}

var errClosing = status.Error(codes.Unavailable, "the node is stopping")

// leave removes a stream. Its assignments stay charged until they expire.
func (s *assigner) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, st)
	s.streams.Release(st.origin.Owner, 1)
	for _, sub := range st.subs {
		s.table.Gone(sub.key, sub.member)
		delete(s.subs, sub.member)
	}
}

// report books a stream's report of one bucket. A bucket that cannot be counted gets no assignment:
// the proxy treats it as before any assignment.
func (s *assigner) report(st *stream, u *pb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[st]; !open || s.closed { // it ended while the message was read
		return
	}
	sub := s.subscribe(st, u.GetBucketId(), u.GetNumRequestsAllowed() > 0 || u.GetNumRequestsDenied() > 0)
	if sub == nil {
		return
	}
	use := share.Usage{
		Key: sub.key, Allowed: clamp(u.GetNumRequestsAllowed()), Denied: clamp(u.GetNumRequestsDenied()),
		Elapsed: max(u.GetTimeElapsed().AsDuration(), 0),
	}
	s.m.used(use)
	s.countDecisions(sub, use)
	a, ok, err := s.table.Report(s.now(), sub.member, st.origin, use)
	if err != nil {
		s.m.tooMany.Inc()
		s.forget(sub)
		return
	}
	if ok {
		s.queueAssignment(sub, a)
	}
	s.run()
}

// countDecisions counts the decisions of a proxy. The proxy admits from its assignment, and refuses
// requests that the assignment does not cover. Before its first assignment it follows its own
// configuration.
func (s *assigner) countDecisions(sub *subscription, u share.Usage) {
	l, _ := sub.limits.Find(sub.key.LimitName)
	why := [2]quota.Why{quota.WhyHeld, quota.WhyOverLimit}
	switch {
	case l == nil:
		why = [2]quota.Why{quota.WhyNoLimit, quota.WhyNoLimit}
	case l.Class == quota.Unlimited:
		why[0] = quota.WhyUnlimited
	case l.Class == quota.Banned:
		why[1] = quota.WhyBanned
	case l.Enforcement == quota.Off:
		why[0] = quota.WhyNotEnforced
	case l.Ceiling == quota.Hard:
		why[1] = quota.WhyNotHeld
	}
	for i, n := range [2]int64{u.Allowed, u.Denied} {
		if n > 0 {
			s.opts.Seen(&quota.Decision{Allowed: i == 0, Limit: l, Why: why[i]}, uint64(n))
		}
	}
}

// clamp bounds a count to the largest number of tokens.
func clamp(n uint64) int64 { return int64(min(n, uint64(quota.MaxTokens), math.MaxInt64)) }

// subscribe returns the subscription of a bucket id, and creates it if needed; nil if the id is
// invalid or the stream has too many buckets. It also returns nil for a report without requests of
// a bucket that was just abandoned: the report is old, and the proxy would not recognize the
// answer.
func (s *assigner) subscribe(st *stream, id *pb.BucketId, used bool) *subscription {
	name := ""
	if checkID(id.GetBucket()) == nil {
		name = canonical(id.GetBucket())
	}
	if sub := st.subs[name]; sub != nil {
		s.relocate(sub)
		return sub
	}
	if at, ok := st.dropped[name]; ok && !used && time.Since(at) < s.opts.Slow {
		return nil
	}
	switch {
	case name == "":
		s.m.badBucket.Inc()
		return nil
	case len(st.subs) >= s.opts.MaxPerStream:
		s.m.tooMany.Inc()
		return nil
	}
	// A copy without the fields that the schema does not have, which have no bound.
	sub := &subscription{stream: st, id: &pb.BucketId{Bucket: id.GetBucket()}, name: name}
	s.addMember(sub, s.node.Limits())
	st.subs[name] = sub
	return sub
}

// addMember finds the key that a bucket is counted by, and makes the bucket a member of that key.
func (s *assigner) addMember(sub *subscription, limits *quota.Limits) {
	sub.key, sub.limits = keyOf(s.finder.Of(limits), sub.stream.domain, sub.id.GetBucket()), limits
	s.next++
	sub.member = s.next
	s.subs[sub.member] = sub
}

// relocate finds the key again if the limits have changed: another limit may apply to the bucket
// now. Its assignment from the last key stays charged until it expires.
func (s *assigner) relocate(sub *subscription) {
	limits := s.node.Limits()
	if limits == sub.limits {
		return
	}
	if keyOf(s.finder.Of(limits), sub.stream.domain, sub.id.GetBucket()) == sub.key {
		sub.limits = limits
		return
	}
	s.table.Gone(sub.key, sub.member)
	delete(s.subs, sub.member)
	s.addMember(sub, limits)
}

func (s *assigner) forget(sub *subscription) {
	delete(sub.stream.subs, sub.name)
	delete(s.subs, sub.member)
}

// queueAssignment queues an assignment for the stream's writer.
func (s *assigner) queueAssignment(sub *subscription, a share.Assignment) {
	st := sub.stream
	if sub.due == nil {
		st.queue = append(st.queue, sub)
	}
	sub.due = &a
	if st.since.IsZero() {
		st.since = time.Now()
	}
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// maxActions is the largest number of assignments in one message.
const maxActions = 1000

// popQueued removes and returns the assignments to send now.
func (s *assigner) popQueued(st *stream) (out []waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(st.queue), maxActions)
	for _, sub := range st.queue[:n] {
		out = append(out, waiting{sub, *sub.due})
		sub.due = nil
	}
	st.queue = append(st.queue[:0], st.queue[n:]...)
	if len(st.queue) > 0 {
		select {
		case st.wake <- struct{}{}:
		default:
		}
	}
	return out
}

// sent records that a message was sent.
func (s *assigner) sent(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.since = time.Time{}
	if len(st.queue) > 0 {
		st.since = time.Now()
	}
}

// run starts the goroutine unless it is running. The caller holds s.mu.
func (s *assigner) run() {
	if s.running || s.closed {
		return
	}
	s.running = true
	s.done.Go(func() {
		t := time.NewTicker(tickInterval)
		defer t.Stop()
		for range t.C {
			if !s.tick() {
				return
			}
		}
	})
}

// tick brings the division up to date, and reports whether there is anything to divide.
func (s *assigner) tick() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.table.Tick(s.now()) {
		sub := s.subs[a.Member]
		if sub == nil {
			continue
		}
		s.queueAssignment(sub, a)
		if a.Action == share.Abandon && !a.Unknown {
			s.forget(sub)
			sub.stream.drop(sub.name, s.opts.MaxPerStream)
		}
	}
	for st := range s.open {
		if !st.since.IsZero() && time.Since(st.since) > s.opts.Slow {
			s.m.slow.Inc()
			st.cancel(status.Errorf(codes.ResourceExhausted, "assignments have waited for more than %v to be read", s.opts.Slow))
			st.since = time.Time{}
		}
	}
	s.running = !s.closed && s.table.Len() > 0
	return s.running
}

// close ends all streams.
func (s *assigner) close() {
	s.mu.Lock()
	s.closed = true
	for st := range s.open {
		st.cancel(errClosing)
	}
	s.mu.Unlock()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Close()
}
