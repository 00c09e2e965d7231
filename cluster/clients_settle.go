package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/branch"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// settling are the settlements of one session that are under way: one goroutine
// makes them, one after the other.
type settling struct {
	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	all    *atomic.Int64 // bytes of all sessions

	mu    sync.Mutex
	list  []*last // complete; the first is under way
	begun *last   // whose last part has not come
	bytes int64   // of all of them
}

// last is the last report of an attachment.
type last struct {
	term   quota.Term
	parts  []attach.Settlement // in order
	bytes  int64
	spoilt bool // a part is missing, or had no room: what follows is dropped too
}

// Bounds of settlements that wait, in bytes: those of one session, and of all. What finds no
// room is repeated by the process.
const (
	maxSettling    = 64 << 20
	maxAllSettling = 512 << 20
)

func (q *settling) init(all *atomic.Int64) {
	q.all = all
	q.ctx, q.cancel = context.WithCancel(context.Background())
}

// add takes a part, and reports whether somebody has to begin with the list.
func (q *settling) add(m *attach.Settlement) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, l := &m.Report, q.begun
	if m.Part == 1 { // maybe again, from the first
		q.free(l)
		l = &last{term: r.Term}
		q.begun = l
	}
	if l == nil || l.term != r.Term {
		return false
	}
	if l.spoilt = l.spoilt || m.Part != len(l.parts)+1 || !q.book(l, settlementSize(r)); l.spoilt {
		q.free(l)
	} else {
		l.parts = append(l.parts, *m)
	}
	if !r.Full {
		return false
	}
	q.begun = nil
	same := func(o *last) bool { return o.term == l.term }
	if l.spoilt || len(q.list) >= attach.MaxSettling || slices.ContainsFunc(q.list, same) {
		q.free(l)
		return false
	}
	q.list = append(q.list, l)
	return len(q.list) == 1
}

// settlementSize is about what a part takes in memory.
func settlementSize(r *quota.Report) int64 {
	size := 1 << 10
	for i := range r.Entries {
		size += quota.EntrySize(r.Entries[i].Key.LimitName, r.Entries[i].Key.Key)
	}
	return int64(size)
}

// book counts the bytes of a part; false if there is no room. mu is held.
func (q *settling) book(l *last, size int64) bool {
	if q.bytes+size > maxSettling {
		return false
	}
	if q.all.Add(size) > maxAllSettling {
		q.all.Add(-size)
		return false
	}
	q.bytes, l.bytes = q.bytes+size, l.bytes+size
	return true
}

// free drops what there is of a settlement. mu is held.
func (q *settling) free(l *last) {
	if l == nil {
		return
	}
	q.all.Add(-l.bytes)
	q.bytes -= l.bytes
	l.parts, l.bytes = nil, 0
}

// next takes the first off the list, and returns the one that follows; nil if there
// is none.
func (q *settling) next() *last {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(q.list[0])
	if q.list = q.list[1:]; len(q.list) == 0 {
		return nil
	}
	return q.list[0]
}

// end says that no more parts come. What is complete is still settled, as far as it is
// under way.
func (q *settling) end() {
	q.cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(q.begun)
	q.begun = nil
}

// Settle implements attach.Session.
func (s *session) Settle(m *attach.Settlement) {
	if s.settling.add(m) {
		go s.settleAll()
	}
}

// settleAll makes the settlements on the list.
func (s *session) settleAll() {
	q := &s.settling
	q.mu.Lock()
	l := q.list[0]
	q.mu.Unlock()
	for ; l != nil; l = q.next() {
		node := l.parts[0].Node
		if node != s.node.cfg.Self { // it may take a while: say that it is being worked on
			s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Overrides{Overrides: &quoratev1.ClientOverrides{}}})
		}
		outcome, err := s.node.settleClient(q.ctx, l.parts)
		if err != nil {
			s.node.log.Debug("final report of a client session is pending", "client", s.id, "attachment", l.term, "node", node, "err", err)
			outcome = "later"
		}
		s.node.stats.settlements.WithLabelValues(outcome).Inc()
		if err == nil {
			s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Settled{Settled: &quoratev1.Settled{Attachment: uint64(l.term)}}})
		}
	}
}

// outcomes of settlements, for metrics.
var settlementOutcomes = []string{"own", "relayed", "inherited", "later"}

// settleClient books the last report of an attachment, once: at the node that it was
// to if that process lives, or at a later process of that node; else here, as far as
// the client does not know it to be acknowledged. An error says that nobody knows yet
// which it is, or that a part is not booked: repeated, what is booked changes nothing.
func (n *Node) settleClient(ctx context.Context, parts []attach.Settlement) (outcome string, err error) {
	node := parts[0].Node
	if node == n.cfg.Self {
		return "own", n.settleOwn(ctx, parts)
	}
	switch life, alive := n.lifeOf(node); {
	case alive:
		for i := range parts {
			if err = n.relaySettlement(ctx, &parts[i]); err != nil {
				break
			}
		}
		return "relayed", err
	case life == unknownLife, life == lostLife:
	default:
		return "", fmt.Errorf("node %s is not connected, and may live", node)
	}
	return "inherited", n.inherit(ctx, parts)
}

// lives of other nodes, as far as is known here.
type life uint8

const (
	unknownLife life = iota // no member
	lostLife                // its process has ended, or is out of reach for longer than a lease and refuses connections
	hiddenLife              // not connected
	presentLife
)

// lifeOf says what is known of a node's process, and whether it can be called.
func (n *Node) lifeOf(id quota.NodeID) (l life, alive bool) {
	if !slices.Contains(n.members.View().IDs, id) {
		return unknownLife, false
	}
	l = hiddenLife
	n.routes.peer(id, func(p *peer) {
		switch {
		case p.up:
			l = presentLife
		case p.dead, p.refused && time.Since(p.since) >= n.lease():
			l = lostLife
		}
	})
	return l, l == presentLife
}

// settleOwn settles an attachment to this node, which may have been to an earlier process.
// One that this process should know and does not never was: nothing is booked then, and
// there is nothing more to settle.
func (n *Node) settleOwn(ctx context.Context, parts []attach.Settlement) error {
	for i := range parts {
		m := &parts[i]
		if m.Life != n.inc {
			n.clients.journal.know(m)
			continue
		}
		switch err := n.final(&m.Report); {
		case errors.Is(err, branch.ErrForgotten):
			n.clients.journal.know(m)
			n.inheritNow(parts[i : i+1])
		case errors.Is(err, branch.ErrUnknown):
			n.log.Debug("final report of an unknown client session", "client", m.Report.From, "attachment", m.Report.Term)
			return nil
		case err != nil:
			return err
		}
	}
	if parts[0].Life == n.inc {
		return nil
	}
	return n.inherit(ctx, parts)
}

func (n *Node) final(r *quota.Report) error {
	n.clients.mu.Lock()
	defer n.clients.mu.Unlock()
	defer n.clients.poke()
	err := n.clients.branch.Final(n.clock.now(), r)
	if err == nil && r.Full {
		n.clients.journal.drop(inheritance{r.From, r.Incarnation, r.Term})
	}
	return err
}

func (n *Node) inheritNow(parts []attach.Settlement) {
	n.clients.mu.Lock()
	defer n.clients.mu.Unlock()
	defer n.clients.poke()
	for i := range parts {
		n.clients.branch.Inherit(n.clock.now(), &parts[i].Report)
	}
}

// inherit books what a dead process had not acknowledged, unless another node has
// done so: the client may have begun to settle with that.
func (n *Node) inherit(ctx context.Context, parts []attach.Settlement) error {
	r, life := &parts[0].Report, parts[0].Life
	done, err := n.beginInheriting(r)
	switch {
	case errors.Is(err, errSettled): // it is repeated
		return nil
	case err != nil:
		return err
	}
	defer done()
	ask := &peerv1.CallClient{Client: string(r.From), Incarnation: uint64(r.Incarnation), Attachment: uint64(r.Term), NodeIncarnation: uint64(life)}
	for _, id := range n.routes.upNodes() {
		settled, err := n.callClient(ctx, id, ask)
		if err != nil {
			return fmt.Errorf("whether node %s has settled it: %w", id, err)
		}
		if settled {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n.inheritNow(parts)
	for i := range parts {
		if parts[i].Node != n.cfg.Self {
			n.clients.journal.owe(n.clock.now(), &parts[i])
		}
	}
	return nil
}

// inheritance names an attachment that is being settled here instead of at its node.
type inheritance struct {
	client quota.NodeID
	inc    quota.Incarnation
	term   quota.Term
}

var (
	errInheriting = errors.New("it is being settled just now")
	errSettled    = errors.New("it has been settled here")
)

// beginInheriting sees to it that an attachment is inherited once at a time: others
// that ask are told so. It ends with done.
func (n *Node) beginInheriting(r *quota.Report) (done func(), err error) {
	c, key := &n.clients, inheritance{r.From, r.Incarnation, r.Term}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, busy := c.inheriting[key]; busy {
		return nil, errInheriting
	}
	if c.branch.Settled(r.From, r.Incarnation, r.Term) {
		return nil, errSettled
	}
	c.inheriting[key] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.inheriting, key)
	}, nil
}

// relaySettlement has another node settle an attachment that was to it.
func (n *Node) relaySettlement(ctx context.Context, m *attach.Settlement) error {
	c := &peerv1.CallClient{
		Client: string(m.Report.From), Incarnation: uint64(m.Report.Incarnation), Attachment: uint64(m.Report.Term),
		NodeIncarnation: uint64(m.Life), Report: peerproto.EncodeReport(&m.Report),
	}
	settled, err := n.callClient(ctx, m.Node, c)
	if err == nil && !settled {
		err = fmt.Errorf("node %s did not settle it", m.Node)
	}
	return err
}

func (n *Node) callClient(ctx context.Context, to quota.NodeID, c *peerv1.CallClient) (settled bool, err error) {
	res, err := n.call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Client{Client: c}})
	return res.GetClientResult().GetSettled(), err
}

// onClient answers another node about an attachment.
func (n *Node) onClient(ctx context.Context, c *peerv1.CallClient) (*peerv1.CallClientResult, error) {
	at := quota.Report{From: quota.NodeID(c.GetClient()), Incarnation: quota.Incarnation(c.GetIncarnation()), Term: quota.Term(c.GetAttachment())}
	if c.GetReport() == nil {
		settled, err := n.hasSettled(&at)
		return &peerv1.CallClientResult{Settled: settled}, err
	}
	r := peerproto.DecodeReport(at.From, c.GetReport())
	r.Incarnation, r.Term = at.Incarnation, at.Term
	if c.GetBooked() {
		return &peerv1.CallClientResult{Booked: n.clients.journal.booked(quota.Incarnation(c.GetNodeIncarnation()), &r)}, nil
	}
	err := n.settleOwn(ctx, []attach.Settlement{{Node: n.cfg.Self, Life: quota.Incarnation(c.GetNodeIncarnation()), Report: r}})
	return &peerv1.CallClientResult{Settled: err == nil}, err
}

// hasSettled says whether an attachment to another node was settled here.
func (n *Node) hasSettled(at *quota.Report) (bool, error) {
	c := &n.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, busy := c.inheriting[inheritance{at.From, at.Incarnation, at.Term}]; busy {
		return false, errInheriting
	}
	return c.branch.Settled(at.From, at.Incarnation, at.Term), nil
}
