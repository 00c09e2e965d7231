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
	"github.com/quorate/quorate/internal/quota"
)

// assigner owns the division: streams bring reports to it and fetch assignments. Its
// goroutine runs while there is anything to divide.
type assigner struct {
	opts   Options
	node   Node
	finder front.Finder
	m      *metrics
	began  time.Time

	mu      sync.Mutex
	table   *share.Table
	streams map[*stream]struct{}
	subs    map[share.MemberID]*subscription
	next    share.MemberID
	running bool // the goroutine runs
	closed  bool
	done    sync.WaitGroup
}

// stream is the stream of one proxy. domain belongs to the goroutine that reads; the rest
// is guarded by assigner.mu.
type stream struct {
	grpc   pb.RateLimitQuotaService_StreamRateLimitQuotasServer
	cancel context.CancelCauseFunc
	origin string
	domain string // empty until the first message

	subs  map[string]*subscription
	queue []*subscription // have something to be sent, each once
	since time.Time       // of the oldest that waits, or is being sent; zero: none
	wake  chan struct{}

	dropped map[string]time.Time // abandoned, by name
}

// drop notes what was abandoned: the last few, up to a bound.
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
	limits *quota.Limits     // in force when the key was found
	due    *share.Assignment // to be sent: the newest only
}

// tokenSource is the node as the division needs it.
type tokenSource struct{ Node }

// Refund implements share.TokenSource.
func (p tokenSource) Refund(k quota.Key, cost int64) { p.Node.Refund(k, cost) }

// Standing implements share.TokenSource: of a key without a limit there is nothing to tell,
// whatever defaults there are for names.
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
		streams: map[*stream]struct{}{}, subs: map[share.MemberID]*subscription{},
	}
	m.watch(d)
	return d
}

// settleTime is how long an assignment is given to be in force.
const settleTime = 500 * time.Millisecond

// now is the clock of the division: it only moves forward.
func (s *assigner) now() quota.Time { return quota.Time(s.began.UnixNano()).Add(time.Since(s.began)) }

func (s *assigner) join(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing
	}
	if len(s.streams) >= s.opts.MaxStreams {
		return status.Errorf(codes.ResourceExhausted, "this node has %d streams of rate limit quotas, which is the most; use another node", len(s.streams))
	}
	s.streams[st] = struct{}{}
	return nil
}

var errClosing = status.Error(codes.Unavailable, "the node is stopping")

// leave forgets a stream. What it was assigned stays its own until that expires.
func (s *assigner) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	for _, sub := range st.subs {
		s.table.Gone(sub.key, sub.member)
		delete(s.subs, sub.member)
	}
}

// report books what a stream says of one bucket. A bucket that cannot be counted is
// not assigned: the proxy does with it what it does without an assignment.
func (s *assigner) report(st *stream, u *pb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// countDecisions counts what a proxy has decided: it admits out of what it is assigned, and
// refuses what that does not cover. Before its first assignment it does as it likes.
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

// clamp bounds a count to what a limit can be.
func clamp(n uint64) int64 { return int64(min(n, uint64(quota.MaxTokens), math.MaxInt64)) }

// subscribe returns the subscription of a bucket id, a new one if there is none; nil if
// there can be none. A report without requests of what has just been abandoned is an
// old one: the proxy will not know what it would be answered.
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
	sub := &subscription{stream: st, id: id, name: name}
	s.addMember(sub, s.node.Limits())
	st.subs[name] = sub
	return sub
}

// addMember finds what a bucket is counted by, and makes it a member of that.
func (s *assigner) addMember(sub *subscription, limits *quota.Limits) {
	sub.key, sub.limits = keyOf(s.finder.Of(limits), sub.stream.domain, sub.id.GetBucket()), limits
	s.next++
	sub.member = s.next
	s.subs[sub.member] = sub
}

// relocate looks again when the limits have changed: another one may be for the bucket
// now. What it was assigned of the last stays its own until that expires.
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

// queueAssignment puts an assignment where the stream's writer finds it.
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

// maxActions is how many assignments go in one message.
const maxActions = 1000

// takeQueued takes what is to be sent now.
func (s *assigner) takeQueued(st *stream) (out []waiting) {
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

// sent says that a message has gone.
func (s *assigner) sent(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.since = time.Time{}
	if len(st.queue) > 0 {
		st.since = time.Now()
	}
}

// run starts the goroutine if it does not run. The caller holds s.mu.
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

// tick brings the division up to now, and reports whether there is any.
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
	for st := range s.streams {
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
	for st := range s.streams {
		st.cancel(errClosing)
	}
	s.mu.Unlock()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Close()
}
