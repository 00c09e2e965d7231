package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/clientledger"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// settling holds the pending settlements of one session. One goroutine
// carries them out, one after the other.
type settling struct {
	ctx    context.Context // ends with the session or the Service
	cancel context.CancelFunc
	all    *fairshare.Pool // bytes of all sessions
	owner  string          // identity that they are charged to

	mu    sync.Mutex
	list  []*finalReport // complete; the first is being settled
	begun *finalReport   // its last part has not arrived
	bytes int64          // of list and begun
}

// finalReport is the last report of an attachment.
type finalReport struct {
	term       quota.Term
	parts      []attach.Settlement // in order
	bytes      int64
	incomplete bool // a part is missing or found no room; the following parts are dropped too
}

// Bounds of pending settlements in bytes, of one session and of all, which their owners share. The
// process repeats a settlement that finds no room.
const (
	maxSettling    = 64 << 20
	maxAllSettling = 512 << 20
)

// add adds a part, and reports whether the caller has to start a goroutine for the list.
func (q *settling) add(m *attach.Settlement) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, l := &m.Report, q.begun
	if m.Part == 1 { // a new settlement, or a repetition
		q.free(l)
		l = &finalReport{term: r.Term}
		q.begun = l
	}
	if l == nil || l.term != r.Term {
		return false
	}
	if l.incomplete = l.incomplete || m.Part != len(l.parts)+1 || !q.book(l, settlementSize(r)); l.incomplete {
		q.free(l)
	} else {
		l.parts = append(l.parts, *m)
	}
	if !r.Full {
		return false
	}
	q.begun = nil
	same := func(o *finalReport) bool { return o.term == l.term }
	if l.incomplete || len(q.list) >= attach.MaxSettling || slices.ContainsFunc(q.list, same) {
		q.free(l)
		return false
	}
	q.list = append(q.list, l)
	return len(q.list) == 1
}

// settlementSize estimates the memory of a part, in bytes.
func settlementSize(r *quota.Report) int64 {
	size := 1 << 10
	for i := range r.Entries {
		size += quota.EntrySize(r.Entries[i].Key.LimitName, r.Entries[i].Key.Key)
	}
	return int64(size)
}

// book counts the bytes of a part, or returns false if there is no room. mu must be held.
func (q *settling) book(l *finalReport, size int64) bool {
	if q.bytes+size > maxSettling || q.all.TryAcquire(q.owner, size) != fairshare.NotFull {
		return false
	}
	q.bytes, l.bytes = q.bytes+size, l.bytes+size
	return true
}

// free drops the parts of a settlement and their bytes. mu must be held.
func (q *settling) free(l *finalReport) {
	if l == nil {
		return
	}
	q.all.Release(q.owner, l.bytes)
	q.bytes -= l.bytes
	l.parts, l.bytes = nil, 0
}

// next removes the first settlement from the list, and returns the following one, or nil.
func (q *settling) next() *finalReport {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(q.list[0])
	if q.list = q.list[1:]; len(q.list) == 0 {
		return nil
	}
	return q.list[0]
}

// end cancels ctx, and drops the settlement whose last part has not arrived. Complete settlements
// still run, as far as they need no more calls to other nodes.
func (q *settling) end() {
	q.cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(q.begun)
	q.begun = nil
}

// Settle implements attach.Session.
func (s *session) Settle(m *attach.Settlement) {
	if !s.settling.add(m) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.done.Go(s.settleAll)
	}
}

// settleAll carries out the settlements on the list, until it is empty.
func (s *session) settleAll() {
	q := &s.settling
	q.mu.Lock()
	l := q.list[0]
	q.mu.Unlock()
	for ; l != nil; l = q.next() {
		node := l.parts[0].Node
		if node != s.cfg.Self { // it may take a while: an empty message shows progress
			s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Overrides{Overrides: &quoratev1.ClientOverrides{}}})
		}
		outcome, err := s.settle(q.ctx, l.parts)
		if err != nil {
			s.cfg.Log.Debug("final report of a client session is pending", "client", s.id, "attachment", l.term, "node", node, "err", err)
			outcome = "later"
		}
		s.settlements.WithLabelValues(outcome).Inc()
		if err == nil {
			s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Settled{Settled: &quoratev1.Settled{Attachment: uint64(l.term)}}})
		}
	}
}

// settle books the last report of an attachment exactly once: at the attachment's node, if that
// process or a later one of the node lives, and otherwise here, as far as
// the client does not know it to be acknowledged. On an error the outcome is undecided,
// or a part is not booked. Repeating the settlement books nothing twice.
func (s *Service) settle(ctx context.Context, parts []attach.Settlement) (outcome string, err error) {
	node := parts[0].Node
	if node == s.cfg.Self {
		return "own", s.settleOwn(ctx, parts)
	}
	switch s.node.Process(node) {
	case Connected:
		for i := range parts {
			if err = s.relaySettlement(ctx, &parts[i]); err != nil {
				break
			}
		}
		return "relayed", err
	case Away:
		return "", fmt.Errorf("node %s is not connected, and may live", node)
	default:
		return "inherited", s.inherit(ctx, parts)
	}
}

// settleOwn settles an attachment to this node, perhaps to an earlier process of it.
// If the attachment names this process and the client ledger does not know it, it never existed, and
// settleOwn books nothing.
func (s *Service) settleOwn(ctx context.Context, parts []attach.Settlement) error {
	for i := range parts {
		m := &parts[i]
		if m.Incarnation != s.cfg.Incarnation {
			s.journal.correctUnreported(m)
			continue
		}
		switch err := s.final(&m.Report); {
		case errors.Is(err, clientledger.ErrForgotten):
			s.journal.correctUnreported(m)
			s.inheritNow(parts[i : i+1])
		case errors.Is(err, clientledger.ErrUnknown):
			s.cfg.Log.Debug("final report of an unknown client session", "client", m.Report.From, "attachment", m.Report.Term)
			return nil
		case err != nil:
			return err
		}
	}
	if parts[0].Incarnation == s.cfg.Incarnation {
		return nil
	}
	return s.inherit(ctx, parts)
}

func (s *Service) final(r *quota.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wakeUp()
	now := s.node.Now()
	err := s.ledger.Final(now, r)
	if err == nil {
		s.journal.noteFinal(now, s.node.Limits(), r)
	}
	return err
}

func (s *Service) inheritNow(parts []attach.Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wakeUp()
	for i := range parts {
		s.ledger.Inherit(s.node.Now(), &parts[i].Report)
	}
}

// inherit books what a dead process had not acknowledged, unless another node has
// done so: the client may have started the settlement there.
//
// It asks the connected nodes only. So a second node books it again if the stream to the first broke
// between the booking and the answer, and the first has died since or is not connected to the
// second. Each books at most what was not acknowledged: mostly the session's use of one sync
// interval, and under hard only overdrafts. To wait for nodes that are not connected would
// delay all settlements with dead processes for as long as any node is away.
func (s *Service) inherit(ctx context.Context, parts []attach.Settlement) error {
	r, incarnation := &parts[0].Report, parts[0].Incarnation
	done, err := s.beginInheriting(r)
	switch {
	case errors.Is(err, errSettled): // a repetition
		return nil
	case err != nil:
		return err
	}
	defer done()
	ask := &peerv1.CallClient{Client: string(r.From), Incarnation: uint64(r.Incarnation), Attachment: uint64(r.Term), NodeIncarnation: uint64(incarnation)}
	for _, id := range s.node.Up() {
		settled, err := s.callClient(ctx, id, ask)
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
	s.inheritNow(parts)
	for i := range parts {
		if parts[i].Node != s.cfg.Self {
			s.journal.inherited(s.node.Now(), &parts[i])
		}
	}
	return nil
}

// sessionID identifies an attachment of a client process.
type sessionID struct {
	client quota.NodeID
	inc    quota.Incarnation
	term   quota.Term
}

var (
	errInheriting = errors.New("it is being settled")
	errSettled    = errors.New("it has been settled here")
)

// beginInheriting reserves the inheritance of an attachment until done is called. Until then
// other attempts get errInheriting; afterwards they get errSettled if it was settled here.
func (s *Service) beginInheriting(r *quota.Report) (done func(), err error) {
	key := sessionID{r.From, r.Incarnation, r.Term}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, busy := s.inheriting[key]; busy {
		return nil, errInheriting
	}
	if s.ledger.Settled(r.From, r.Incarnation, r.Term) {
		return nil, errSettled
	}
	s.inheriting[key] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.inheriting, key)
	}, nil
}

// relaySettlement makes another node settle a part of an attachment to that node.
func (s *Service) relaySettlement(ctx context.Context, m *attach.Settlement) error {
	c := &peerv1.CallClient{
		Client: string(m.Report.From), Incarnation: uint64(m.Report.Incarnation), Attachment: uint64(m.Report.Term),
		NodeIncarnation: uint64(m.Incarnation), Report: peerproto.EncodeReport(&m.Report),
	}
	settled, err := s.callClient(ctx, m.Node, c)
	if err == nil && !settled {
		err = fmt.Errorf("node %s did not settle it", m.Node)
	}
	return err
}

func (s *Service) callClient(ctx context.Context, to quota.NodeID, c *peerv1.CallClient) (settled bool, err error) {
	res, err := s.node.Call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Client{Client: c}})
	return res.GetClientResult().GetSettled(), err
}

// onClient answers another node's call about an attachment: whether it was settled here, what was
// booked of a report, or a relayed settlement.
func (s *Service) onClient(ctx context.Context, _ quota.NodeID, c *peerv1.CallClient) (*peerv1.CallClientResult, error) {
	at := quota.Report{From: quota.NodeID(c.GetClient()), Incarnation: quota.Incarnation(c.GetIncarnation()), Term: quota.Term(c.GetAttachment())}
	if c.GetReport() == nil {
		settled, err := s.hasSettled(&at)
		return &peerv1.CallClientResult{Settled: settled}, err
	}
	r := peerproto.DecodeReport(at.From, c.GetReport())
	r.Incarnation, r.Term = at.Incarnation, at.Term
	if c.GetBooked() {
		return &peerv1.CallClientResult{Booked: s.journal.booked(quota.Incarnation(c.GetNodeIncarnation()), &r)}, nil
	}
	err := s.settleOwn(ctx, []attach.Settlement{{Node: s.cfg.Self, Incarnation: quota.Incarnation(c.GetNodeIncarnation()), Report: r}})
	return &peerv1.CallClientResult{Settled: err == nil}, err
}

// hasSettled reports whether an attachment to another node was settled here.
func (s *Service) hasSettled(at *quota.Report) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, busy := s.inheriting[sessionID{at.From, at.Incarnation, at.Term}]; busy {
		return false, errInheriting
	}
	return s.ledger.Settled(at.From, at.Incarnation, at.Term), nil
}
