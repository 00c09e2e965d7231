package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/branch"
	"github.com/quorate/quorate/cluster/wire"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// settling are the settlements of one session that are under way: one goroutine
// makes them, one after the other.
type settling struct {
	ctx    context.Context // ends with the session
	cancel context.CancelFunc

	mu    sync.Mutex
	list  []*last // complete; the first is under way
	parts map[quota.Term]*last
}

// last is the last report of an attachment, of one or several messages.
type last struct {
	attach.Settlement
	messages int
}

// maxLastKeys bounds the keys of one attachment that are settled.
const maxLastKeys = attach.MaxSettling * peerproto.MaxEntries

func (q *settling) init() {
	q.ctx, q.cancel = context.WithCancel(context.Background())
	q.parts = map[quota.Term]*last{}
}

// add takes a message, and reports whether somebody has to begin with the list.
func (q *settling) add(m *attach.Settlement) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.parts[m.Report.Term]
	switch {
	case l == nil:
		l = &last{Settlement: *m}
	case m.Report.Seq <= l.Report.Seq: // it is repeated, from the first
		l = &last{Settlement: *m}
	case len(l.Report.Entries)+len(m.Report.Entries) <= maxLastKeys:
		l.Report.Entries = append(l.Report.Entries, m.Report.Entries...)
		l.Report.Seq, l.Report.Full = m.Report.Seq, m.Report.Full
	default:
		return false
	}
	l.messages++
	if !l.Report.Full {
		if len(q.parts) < attach.MaxSettling {
			q.parts[m.Report.Term] = l
		}
		return false
	}
	delete(q.parts, m.Report.Term)
	same := func(o *last) bool { return o.Report.Term == l.Report.Term }
	if len(q.list) >= attach.MaxSettling || slices.ContainsFunc(q.list, same) {
		return false
	}
	q.list = append(q.list, l)
	return len(q.list) == 1
}

// next takes the first off the list, and returns the one that follows; nil if there
// is none.
func (q *settling) next() *last {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.list = q.list[1:]; len(q.list) == 0 {
		return nil
	}
	return q.list[0]
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
		if l.Node != s.node.cfg.Self { // it may take a while: say that it is being worked on
			s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Overrides{Overrides: &quoratev1.ClientOverrides{}}})
		}
		outcome, err := s.node.settleClient(q.ctx, &l.Settlement)
		if err != nil {
			s.node.log.Debug("an attachment cannot be settled yet", "client", s.id, "attachment", l.Report.Term, "node", l.Node, "err", err)
			outcome = "later"
		}
		s.node.stats.settlements.WithLabelValues(outcome).Inc()
		for range l.messages {
			if err == nil {
				s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Settled{Settled: &quoratev1.Settled{Attachment: uint64(l.Report.Term)}}})
			}
		}
	}
}

// outcomes of settlements, for metrics.
var settlementOutcomes = []string{"own", "relayed", "inherited", "later"}

// settleClient books the last report of an attachment, once: at the node that it was
// to if that process lives, or at a later process of that node; else here, as far as
// the client does not know it to be acknowledged. An error says that nobody knows yet
// which it is; then nothing is booked.
func (n *Node) settleClient(ctx context.Context, m *attach.Settlement) (outcome string, err error) {
	if m.Node == n.cfg.Self {
		return "own", n.settleOwn(ctx, m)
	}
	switch life, alive := n.lifeOf(m.Node); {
	case alive:
		err := n.relaySettlement(ctx, m)
		if remote, ok := errors.AsType[*wire.RemoteError](err); !ok || remote.Text != unknownCall {
			return "relayed", err
		}
		// An earlier version, which never had clients.
	case life == unknownLife, life == lostLife:
	default:
		return "", fmt.Errorf("node %s is not connected, and may live", m.Node)
	}
	return "inherited", n.inherit(ctx, m)
}

// lives of other nodes, as far as is known here.
type life uint8

const (
	unknownLife life = iota // no member
	lostLife                // its process has ended, and there is no other
	hiddenLife              // not connected
	presentLife
)

// lifeOf says what is known of a node's process, and whether it can be called.
func (n *Node) lifeOf(id quota.NodeID) (l life, alive bool) {
	if !slices.Contains(n.view.Load().ids, id) {
		return unknownLife, false
	}
	l = hiddenLife
	n.routes.peer(id, func(p *peer) {
		switch {
		case p.up:
			l = presentLife
		case p.dead:
			l = lostLife
		}
	})
	return l, l == presentLife
}

// settleOwn settles an attachment to this node. One that this process does not know
// was to an earlier process, or has been forgotten.
func (n *Node) settleOwn(ctx context.Context, m *attach.Settlement) error {
	if m.Life == n.inc {
		err := n.final(&m.Report)
		if !errors.Is(err, branch.ErrUnknown) {
			return err
		}
		n.inheritNow(&m.Report)
		return nil
	}
	n.clients.journal.know(m)
	return n.inherit(ctx, m)
}

func (n *Node) final(r *quota.Report) error {
	n.clients.mu.Lock()
	defer n.clients.mu.Unlock()
	defer n.clients.poke()
	err := n.clients.branch.Final(n.clock.now(), r)
	if err == nil {
		n.clients.journal.drop(inheritance{r.From, r.Incarnation, r.Term})
	}
	return err
}

func (n *Node) inheritNow(r *quota.Report) {
	n.clients.mu.Lock()
	defer n.clients.mu.Unlock()
	defer n.clients.poke()
	n.clients.branch.Inherit(n.clock.now(), r)
}

// inherit books what a dead process had not acknowledged, unless another node has
// done so: the client may have begun to settle with that.
func (n *Node) inherit(ctx context.Context, m *attach.Settlement) error {
	done, err := n.beginInheriting(&m.Report)
	switch {
	case errors.Is(err, errSettled): // it is repeated
		return nil
	case err != nil:
		return err
	}
	defer done()
	ask := &peerv1.CallClient{Client: string(m.Report.From), Incarnation: uint64(m.Report.Incarnation), Attachment: uint64(m.Report.Term), NodeIncarnation: uint64(m.Life)}
	for _, id := range n.routes.upNodes() {
		settled, err := n.callClient(ctx, id, ask)
		if remote, ok := errors.AsType[*wire.RemoteError](err); ok && remote.Text == unknownCall {
			continue
		}
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
	n.inheritNow(&m.Report)
	if m.Node != n.cfg.Self {
		n.clients.journal.owe(n.clock.now(), m)
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
	r.Incarnation, r.Term, r.Full = at.Incarnation, at.Term, true
	if c.GetBooked() {
		return &peerv1.CallClientResult{Booked: n.clients.journal.booked(quota.Incarnation(c.GetNodeIncarnation()), &r)}, nil
	}
	err := n.settleOwn(ctx, &attach.Settlement{Node: n.cfg.Self, Life: quota.Incarnation(c.GetNodeIncarnation()), Report: r})
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
