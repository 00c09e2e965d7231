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

// desk owns the division: streams bring reports to it and fetch assignments. Its
// goroutine lives while there is anything to divide.
type desk struct {
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
	beats   bool // the goroutine runs
	closed  bool
	done    sync.WaitGroup
}

// stream is one proxy's. domain is of the goroutine that reads; the rest is guarded
// by desk.mu.
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

// purse is the node as the division wants it.
type purse struct{ Node }

// Refund implements share.Purse.
func (p purse) Refund(k quota.Key, cost int64) { p.Node.Refund(k, cost) }

// Standing implements share.Purse: of a key without a limit there is nothing to tell,
// whatever defaults there are for names.
func (p purse) Standing(k quota.Key) quota.Standing {
	if !named(k) {
		return quota.Standing{}
	}
	return p.Node.Standing(k)
}

func newDesk(n Node, opts Options, m *metrics) *desk {
	d := &desk{
		opts: opts, node: n, m: m, began: time.Now(),
		table:   share.New(share.Config{TTL: opts.TTL, Idle: opts.Idle, MaxBuckets: opts.MaxBuckets, Settle: settle}, purse{n}),
		streams: map[*stream]struct{}{}, subs: map[share.MemberID]*subscription{},
	}
	m.watch(d)
	return d
}

// settle is how long an assignment is given to be in force.
const settle = 500 * time.Millisecond

// now is the clock of the division: it only moves forward.
func (d *desk) now() quota.Time { return quota.Time(d.began.UnixNano()).Add(time.Since(d.began)) }

func (d *desk) join(st *stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosing
	}
	if len(d.streams) >= d.opts.MaxStreams {
		return status.Errorf(codes.ResourceExhausted, "this node has %d streams of rate limit quotas, which is the most; use another node", len(d.streams))
	}
	d.streams[st] = struct{}{}
	return nil
}

var errClosing = status.Error(codes.Unavailable, "the node is stopping")

// leave forgets a stream. What it was assigned stays its own until that expires.
func (d *desk) leave(st *stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.streams, st)
	for _, sub := range st.subs {
		d.table.Gone(sub.key, sub.member)
		delete(d.subs, sub.member)
	}
}

// report books what a stream says of one bucket. A bucket that cannot be counted is
// not assigned: the proxy does with it what it does without an assignment.
func (d *desk) report(st *stream, u *pb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub := d.subscribe(st, u.GetBucketId(), u.GetNumRequestsAllowed() > 0 || u.GetNumRequestsDenied() > 0)
	if sub == nil {
		return
	}
	use := share.Usage{
		Key: sub.key, Allowed: clamp(u.GetNumRequestsAllowed()), Denied: clamp(u.GetNumRequestsDenied()),
		Elapsed: max(u.GetTimeElapsed().AsDuration(), 0),
	}
	d.m.used(use)
	d.seen(sub, use)
	a, ok, err := d.table.Report(d.now(), sub.member, st.origin, use)
	if err != nil {
		d.m.tooMany.Inc()
		d.forget(sub)
		return
	}
	if ok {
		d.post(sub, a)
	}
	d.run()
}

// seen counts what a proxy has decided: it admits out of what it is assigned, and
// refuses what that does not cover. Before its first assignment it does as it likes.
func (d *desk) seen(sub *subscription, u share.Usage) {
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
			d.opts.Seen(&quota.Decision{Allowed: i == 0, Limit: l, Why: why[i]}, uint64(n))
		}
	}
}

// clamp bounds a count to what a limit can be.
func clamp(n uint64) int64 { return int64(min(n, uint64(quota.MaxTokens), math.MaxInt64)) }

// subscribe returns the subscription of a bucket id, a new one if there is none; nil if
// there can be none. A report without requests of what has just been abandoned is an
// old one: the proxy will not know what it would be answered.
func (d *desk) subscribe(st *stream, id *pb.BucketId, used bool) *subscription {
	name := ""
	if checkID(id.GetBucket()) == nil {
		name = canonical(id.GetBucket())
	}
	if sub := st.subs[name]; sub != nil {
		d.follow(sub)
		return sub
	}
	if at, ok := st.dropped[name]; ok && !used && time.Since(at) < d.opts.Slow {
		return nil
	}
	switch {
	case name == "":
		d.m.badBucket.Inc()
		return nil
	case len(st.subs) >= d.opts.MaxPerStream:
		d.m.tooMany.Inc()
		return nil
	}
	sub := &subscription{stream: st, id: id, name: name}
	d.place(sub, d.node.Limits())
	st.subs[name] = sub
	return sub
}

// place finds what a bucket is counted by, and makes it a member of that.
func (d *desk) place(sub *subscription, limits *quota.Limits) {
	sub.key, sub.limits = keyOf(d.finder.Of(limits), sub.stream.domain, sub.id.GetBucket()), limits
	d.next++
	sub.member = d.next
	d.subs[sub.member] = sub
}

// follow looks again when the limits have changed: another one may be for the bucket
// now. What it was assigned of the last stays its own until that expires.
func (d *desk) follow(sub *subscription) {
	limits := d.node.Limits()
	if limits == sub.limits {
		return
	}
	if keyOf(d.finder.Of(limits), sub.stream.domain, sub.id.GetBucket()) == sub.key {
		sub.limits = limits
		return
	}
	d.table.Gone(sub.key, sub.member)
	delete(d.subs, sub.member)
	d.place(sub, limits)
}

func (d *desk) forget(sub *subscription) {
	delete(sub.stream.subs, sub.name)
	delete(d.subs, sub.member)
}

// post puts an assignment where the stream's writer finds it.
func (d *desk) post(sub *subscription, a share.Assignment) {
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

// collect takes what is to be sent now.
func (d *desk) collect(st *stream) (out []waiting) {
	d.mu.Lock()
	defer d.mu.Unlock()
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
func (d *desk) sent(st *stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	st.since = time.Time{}
	if len(st.queue) > 0 {
		st.since = time.Now()
	}
}

// run starts the goroutine if it does not run. Held by d.mu.
func (d *desk) run() {
	if d.beats || d.closed {
		return
	}
	d.beats = true
	d.done.Go(func() {
		t := time.NewTicker(beat)
		defer t.Stop()
		for range t.C {
			if !d.beat() {
				return
			}
		}
	})
}

// beat brings the division up to now, and reports whether there is any.
func (d *desk) beat() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.table.Tick(d.now()) {
		sub := d.subs[a.Member]
		if sub == nil {
			continue
		}
		d.post(sub, a)
		if a.Action == share.Abandon && !a.Unknown {
			d.forget(sub)
			sub.stream.drop(sub.name, d.opts.MaxPerStream)
		}
	}
	for st := range d.streams {
		if !st.since.IsZero() && time.Since(st.since) > d.opts.Slow {
			d.m.slow.Inc()
			st.cancel(status.Errorf(codes.ResourceExhausted, "assignments have waited for more than %v to be read", d.opts.Slow))
			st.since = time.Time{}
		}
	}
	d.beats = !d.closed && d.table.Len() > 0
	return d.beats
}

// close ends all streams.
func (d *desk) close() {
	d.mu.Lock()
	d.closed = true
	for st := range d.streams {
		st.cancel(errClosing)
	}
	d.mu.Unlock()
	d.done.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table.Close()
}
