package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/grantwait"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// member is the part of a client that decides in this process, a member one level below its node.
// One goroutine, run, drives it; any goroutine may make decisions.
type member struct {
	self        quota.NodeID
	incarnation quota.Incarnation
	opts        *options
	clock       *clock
	stats       *stats
	notices     *notices
	link        link
	wait        grantwait.Waiters
	own         overrides

	agg      atomic.Pointer[aggregator.Aggregator] // nil until the first node has answered
	known    atomic.Pointer[rules]                 // nil until it has sent its limits
	attached atomic.Pointer[session]               // nil while not attached

	wake   chan struct{}
	events chan event
	ready  chan struct{}  // closed with the first limits
	stop   chan struct{}  // closed to end run
	done   chan struct{}  // closed when run has ended
	work   sync.WaitGroup // goroutines of sessions

	// The fields from here on belong to run's goroutine. number is that of the newest session.
	number        uint64
	trying        *session
	retry         retry
	last          *session // newest established session, to which the current counters belong
	unsettled     settlements
	swept         quota.Time
	detachedSince quota.Time        // start of the current time without a node
	reportBuf     aggregator.Buffer // buffer for reports
	finalReports  []quota.Report    // last reports whose answers Close waits for
	unqueued      []quota.Report    // those of them for which the session's queue has had no room yet
	closing       bool              // Close has been called
	deadline      quota.Time        // end of Close's wait
	stopping      <-chan struct{}   // stop, until it has been received
}

// event is a message from a session to run's goroutine.
type event struct {
	from     *session
	msg      *quoratev1.AttachResponse // nil when it has ended
	complete bool                      // the node ended it after receiving everything
	err      error                     // why it ended, or could not be established
}

// maxEvents bounds the events that wait to be handled; senders of further ones block.
const maxEvents = 256

func newMember(opts *options, clk *clock, st *stats, ns *notices, l link) *member {
	m := &member{
		self: quota.NodeID(opts.name), incarnation: quota.Incarnation(clk.now()), opts: opts, clock: clk, stats: st, notices: ns, link: l,
		wake: make(chan struct{}, 1), events: make(chan event, maxEvents),
		ready: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	m.stopping, m.detachedSince = m.stop, clk.now()
	return m
}

// wakeRun wakes run's goroutine if there is a node to report to.
func (m *member) wakeRun() {
	if m.attached.Load() == nil {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run drives the aggregator in its own goroutine.
func (m *member) run() {
	defer close(m.done)
	defer m.leave()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.stopping:
			m.stopping = nil
			m.startClose(m.clock.now())
		case e := <-m.events:
			m.handle(e)
		case <-m.wake:
		case <-timer.C:
		}
		m.handleAll()
		now := m.clock.now()
		m.step(now)
		if m.closing && m.finished(now) {
			return
		}
		timer.Reset(max(m.next(now).Sub(m.clock.now()), 200*time.Microsecond))
	}
}

// handleAll handles the waiting events.
func (m *member) handleAll() {
	for range maxEvents {
		select {
		case e := <-m.events:
			m.handle(e)
		default:
			return
		}
	}
}

// effect describes what becomes of checks while no node answers.
func (m *member) effect() string {
	if m.known.Load() == nil {
		return m.notices.without
	}
	return enforcesAlone
}

// step does what is due.
func (m *member) step(now quota.Time) {
	m.connect(now)
	if m.attached.Load() == nil && now.Sub(m.detachedSince) >= quietFor && !m.closing {
		m.notices.unanswered(now, now.Sub(m.detachedSince), m.effect(), m.stats.lastError())
	}
	agg := m.agg.Load()
	if agg == nil {
		return
	}
	at := m.attached.Load()
	if at != nil {
		m.settle(now, at) // before the reports, which may fill the queue
	}
	if !m.closing {
		reports := agg.CollectInto(now, &m.reportBuf) // without a node they go nowhere, but leases end
		if at != nil {
			// Lost reports are made again, because counters are cumulative.
			m.stats.unsent.Add(uint64(len(m.send(now, at, reports))))
		}
	}
	if at != nil {
		m.unqueued = m.send(now, at, m.unqueued)
		at.checkAnswered(now)
	}
	if now.Sub(m.swept) >= time.Second {
		m.swept = now
		agg.Sweep(now)
		m.sendRefused(at)
	}
}

// idleEvery is the longest time between two steps.
const idleEvery = time.Second

// next returns when step is due, unless it is woken before.
func (m *member) next(now quota.Time) quota.Time {
	next := now.Add(idleEvery)
	if at := m.attached.Load(); at == nil {
		next = min(next, m.retry.at)
	} else {
		next = min(next, m.unsettled.next(at.number))
		if len(m.unqueued) > 0 {
			next = min(next, now.Add(settleRetry/10))
		}
		if at.unanswered != 0 {
			next = min(next, at.unanswered.Add(patience))
		}
	}
	if agg := m.agg.Load(); agg != nil && !m.closing && !agg.Quiet() {
		next = min(next, agg.NextWake())
	}
	if m.closing {
		next = min(next, m.deadline)
	}
	return next
}

// send queues reports, and returns those for which the queue has no room.
func (m *member) send(now quota.Time, at *session, reports []quota.Report) (rest []quota.Report) {
	for i := range reports {
		at.expect(now)
		if !at.send(&quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Report{Report: peerproto.EncodeReport(&reports[i])}}) {
			return reports[i:]
		}
		m.stats.reports.Add(1)
	}
	return nil
}

// maxRefused bounds the limits in one message of refusals, as nodes do.
const maxRefused = 1000

// sendRefused reports refusals of costs that can never pass, which no other report contains. What
// does not fit is sent the next time.
func (m *member) sendRefused(at *session) {
	if at == nil || at.shut || len(at.out) == cap(at.out) {
		return
	}
	var list []*quoratev1.LimitRefusals
	m.agg.Load().TallyUnfit(func(l quota.LimitName, u quota.Units) bool {
		if len(list) == maxRefused {
			return false
		}
		list = append(list, &quoratev1.LimitRefusals{Namespace: l.Namespace, Limit: l.Limit, Refused: int64(min(u, quota.Most))})
		return true
	})
	if len(list) > 0 {
		at.send(&quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Refusals{Refusals: &quoratev1.Refusals{Limits: list}}})
	}
}

// handle handles an event of a session.
func (m *member) handle(e event) {
	now := m.clock.now()
	if e.msg == nil {
		m.ended(now, e.from, e.complete, e.err)
		return
	}
	if h := e.msg.GetHello(); h != nil && e.from == m.trying {
		m.attach(now, e.from, h)
		return
	}
	if e.from != m.attached.Load() {
		return // a late word of one that has been given up
	}
	e.from.unanswered = 0
	switch body := e.msg.GetBody().(type) {
	case *quoratev1.AttachResponse_Grant:
		m.apply(now, e.from, body)
	case *quoratev1.AttachResponse_Limits:
		m.setLimits(now, body.Limits)
	case *quoratev1.AttachResponse_Overrides:
		m.override(now, e.from, body.Overrides)
	case *quoratev1.AttachResponse_Settled:
		m.unsettled.answered(body.Settled.GetAttachment())
	case *quoratev1.AttachResponse_Peers:
		m.agg.Load().SetPeers(int(min(body.Peers.GetCount(), maxPeers)))
	case *quoratev1.AttachResponse_Goodbye:
		e.from.end()
	}
}

func (m *member) apply(now quota.Time, at *session, body *quoratev1.AttachResponse_Grant) {
	g, err := peerproto.ParseGrant(at.node, m.self, body.Grant)
	if err != nil {
		m.stats.bad.Add(1)
		return
	}
	m.stats.grants.Add(1)
	m.acknowledged(&g)
	agg := m.agg.Load()
	if gone := m.own.confirm(at.number, &g); len(gone) > 0 {
		agg.Overridden(now, gone)
	}
	agg.Apply(now, g)
	m.wait.Notify(&g)
}

func (m *member) setLimits(now quota.Time, msg *quoratev1.ClientLimits) {
	limits, err := limitproto.DecodeLimits(msg.GetVersion(), msg.GetLimits())
	if err != nil { // of a later version of the program: keep the known limits
		m.stats.bad.Add(1)
		return
	}
	agg := m.agg.Load()
	agg.SetLimits(now, limits)
	first := m.known.Load() == nil
	m.known.Store(newRules(limits, msg.GetNoReport()))
	if first {
		close(m.ready)
	}
}

// override applies the node's overrides of single keys.
func (m *member) override(now quota.Time, at *session, msg *quoratev1.ClientOverrides) {
	var keys []quota.Key
	for _, o := range msg.GetOverrides() {
		k := limitproto.DecodeKey(o.GetKey())
		if o.GetOverride() == nil {
			m.own.remove(k)
			keys = append(keys, k)
			continue
		}
		parsed, err := limitproto.ParseOverride(o.GetOverride())
		if err != nil {
			m.stats.bad.Add(1)
			continue
		}
		if m.own.set(&parsed, at.number, m.opts.maxKeys) {
			keys = append(keys, parsed.Key)
		}
	}
	if len(keys) > 0 {
		m.agg.Load().Overridden(now, keys)
	}
}
