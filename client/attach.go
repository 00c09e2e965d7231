package client

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// link opens streams to nodes and knows which nodes there are.
type link interface {
	// open opens a stream to the node at the address. It ends with the context.
	open(ctx context.Context, addr string) (stream, error)
	// addrs returns the addresses of the nodes: those given to New, then the learned ones.
	addrs() []string
	// learn replaces the learned nodes by those that the node at the address from lists.
	learn(from string, others []string)
	// prefer makes a node the first to be asked by calls.
	prefer(addr string)
}

// stream is a gRPC stream to a node.
type stream interface {
	Send(*quoratev1.AttachRequest) error
	Recv() (*quoratev1.AttachResponse, error)
	CloseSend() error
}

const (
	// helloWait bounds how long a node may take to answer the first message.
	helloWait = 2 * time.Second
	// maxUnsent bounds the queued messages. Reports beyond it are dropped and made again.
	maxUnsent = 64
	// patience is how long a node may leave reports unanswered before the client gives it up.
	patience = time.Second
	// firstPause and lastPause bound the pause before all nodes are tried again. It doubles each
	// time, with full jitter.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// stableAfter is how long a session must last to reset the pause.
	stableAfter = time.Second
)

// session is one session with one node, established or not.
type session struct {
	number uint64
	addr   string
	ctx    context.Context
	end    context.CancelFunc
	out    chan *quoratev1.AttachRequest

	// The fields from here on belong to member.run's goroutine.
	node        quota.NodeID
	incarnation quota.Incarnation
	since       quota.Time
	unanswered  quota.Time // time of the first unanswered report, or 0
	shut        bool       // out is closed
}

// retry determines which node is tried next, and when.
type retry struct {
	at    quota.Time
	order []string // nodes to try before the next pause
	round int      // pauses since the last session that lasted
}

// connect starts a session if the member has no session and the pause is over.
func (m *member) connect(now quota.Time) {
	if m.trying != nil || m.attached.Load() != nil || now < m.retry.at {
		return
	}
	if len(m.retry.order) == 0 {
		m.retry.order = m.order()
	}
	addr := m.retry.order[0]
	m.retry.order = m.retry.order[1:]
	m.number++
	ctx, cancel := context.WithCancel(context.Background())
	at := &session{number: m.number, addr: addr, ctx: ctx, end: cancel, out: make(chan *quoratev1.AttachRequest, maxUnsent)}
	m.trying = at
	m.retry.at = quota.Time(1<<63 - 1)
	m.stats.attempts.Add(1)
	hello := &quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Hello{Hello: &quoratev1.ClientHello{
		Client: string(m.self), Incarnation: uint64(m.incarnation), Attachment: at.number, Namespaces: m.opts.namespaces,
	}}}
	m.work.Go(func() { m.receive(at, hello) })
}

// order returns the order in which nodes are tried: at first the first given one and then the others
// at random; later all at random, so that the clients of a lost node spread over the others, with
// the lost one last.
func (m *member) order() []string {
	addrs := m.link.addrs()
	order := append([]string(nil), addrs...)
	from := 1
	if m.last != nil {
		for i, a := range order {
			if a == m.last.addr {
				order[0], order[i] = order[i], order[0]
			}
		}
		order = append(order[1:], order[0])
		from = 0
	}
	rest := order[from:]
	if m.last != nil {
		rest = rest[:len(rest)-1]
	}
	rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return order
}

// receive opens the stream and forwards its messages until it ends.
func (m *member) receive(at *session, hello *quoratev1.AttachRequest) {
	over := event{from: at}
	defer func() {
		at.end()
		m.post(over)
	}()
	late := time.AfterFunc(helloWait, at.end)
	defer late.Stop()
	s, err := m.link.open(at.ctx, at.addr)
	if over.err = err; err != nil {
		return
	}
	_ = s.Send(hello) // Recv returns its error
	m.work.Go(func() { at.transmit(s) })
	for first := true; ; first = false {
		msg, err := s.Recv()
		if err != nil {
			over.complete, over.err = errors.Is(err, io.EOF), err
			return
		}
		late.Stop()
		if first && msg.GetHello().GetNode() == "" || !m.post(event{from: at, msg: msg}) {
			return
		}
	}
}

// post sends an event to member.run. It returns false if that has ended.
func (m *member) post(e event) bool {
	select {
	case m.events <- e:
		return true
	case <-m.done:
		return false
	}
}

// transmit sends queued messages, and closes the stream after the last.
func (at *session) transmit(s stream) {
	for {
		select {
		case msg, more := <-at.out:
			if !more {
				_ = s.CloseSend() // the node ends the stream then
				return
			}
			if s.Send(msg) != nil {
				at.end()
				return
			}
		case <-at.ctx.Done():
			return
		}
	}
}

// send queues a message. It returns false if the queue is full or closed.
func (at *session) send(msg *quoratev1.AttachRequest) bool {
	if at.shut {
		return false
	}
	select {
	case at.out <- msg:
		return true
	default:
		return false
	}
}

// closeSend closes the queue: the node sees the end of the stream after the queued messages.
func (at *session) closeSend() {
	if !at.shut {
		at.shut = true
		close(at.out)
	}
}

// expect notes that the node has to answer.
func (at *session) expect(now quota.Time) {
	if at.unanswered == 0 {
		at.unanswered = now
	}
}

// checkAnswered ends the session if the node does not answer.
func (at *session) checkAnswered(now quota.Time) {
	if at.unanswered != 0 && now.Sub(at.unanswered) >= patience {
		at.end()
	}
}

// attach activates a session that a node has accepted. The keys of the previous one are closed,
// and settled through this one.
func (m *member) attach(now quota.Time, at *session, h *quoratev1.NodeHello) {
	m.trying = nil
	at.node, at.incarnation, at.since = quota.NodeID(h.GetNode()), quota.Incarnation(h.GetIncarnation()), now
	agg := m.agg.Load()
	if agg == nil {
		agg = aggregator.New(m.config(h), now)
		m.agg.Store(agg)
	}
	if m.last != nil {
		m.stats.dropped.Add(m.unsettled.add(m.last, append(m.finalReports, agg.Leave(now, 0)...)))
		m.finalReports, m.unqueued = nil, nil
		m.stats.reattached.Add(1)
	}
	m.last = at
	agg.SetLeader(0, at.node, quota.Term(at.number))
	agg.SetNodes(membersPerNode * (1 + len(h.GetOthers())))
	agg.SetPeers(int(min(h.GetPeers(), maxPeers)))
	m.link.learn(at.addr, h.GetOthers())
	m.link.prefer(at.addr)
	m.attached.Store(at)
	m.stats.lastErr.Store(nil)
	m.notices.attached(at.addr)
}

// membersPerNode is the assumed number of processes that use a key, per node. The larger it is, the
// less one of them guesses of a burst that all of them may see. With 10,000 of them and a value of
// 4, a surge of 3 times a limit admits half as much again; with 1000 a process first asks its node
// for what it does not hold (internal/sim/clients.go).
const membersPerNode = 1000

// maxPeers bounds the number of clients that a node may report.
const maxPeers = 1 << 30

// config returns the aggregator's configuration, with the intervals of the node.
func (m *member) config(h *quoratev1.NodeHello) aggregator.Config {
	cfg := aggregator.Config{
		Self: m.self, Incarnation: m.incarnation, Ranges: 1, MaxKeys: m.opts.maxKeys, Overrides: &m.own, Removed: m.own.remove,
	}
	cfg.Sync = min(max(time.Duration(h.GetSyncNanos()), 10*time.Millisecond), 10*time.Second)
	cfg.Lease = max(time.Duration(h.GetLeaseNanos()), 3*cfg.Sync)
	return cfg
}

// ended handles the end of a session, or of an attempt.
func (m *member) ended(now quota.Time, at *session, complete bool, err error) {
	at.end()
	switch at {
	case m.trying:
		m.trying = nil
		m.stats.recordAttachError(at.addr, err)
		m.pause(now)
	case m.attached.Load():
		m.attached.Store(nil)
		m.detachedSince = now
		m.agg.Load().SetPeers(0) // there is no node to report to
		if complete && len(m.unqueued) == 0 {
			m.finalReports = nil // the node has received everything
		}
		m.stats.lost.Add(1)
		m.wait.NotifyAll()
		m.retry.order = nil
		if now.Sub(at.since) >= stableAfter {
			m.retry.round = 0
			m.retry.at = now // the others at once
			return
		}
		m.retry.round++
		m.retry.at = now.Add(m.retry.jitter())
	}
}

// pause schedules the next attempt: the next node at once, all of them after a pause.
func (m *member) pause(now quota.Time) {
	if len(m.retry.order) > 0 {
		m.retry.at = now
		return
	}
	m.retry.at = now.Add(m.retry.jitter())
	m.retry.round++
}

// jitter returns the pause, with full jitter because all clients of a node lose it at the same
// moment.
func (r *retry) jitter() time.Duration {
	return rand.N(backoff.Bound(firstPause, lastPause, r.round)) + time.Millisecond
}
