package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// fakeCluster is a link to nodes in this process. Each node divides separate limits among its
// clients with a real ledger, so a test can compare what clients counted with what the nodes
// booked.
type fakeCluster struct {
	t      *testing.T
	delay  time.Duration // one way
	limits []quota.Limit

	work     sync.WaitGroup
	mu       sync.Mutex
	nodes    map[string]*fakeMember
	order    []string
	attached string
}

// fakeMember is one node's side of MemberService.
type fakeMember struct {
	cluster *fakeCluster
	name    string
	ledger  *leader.Ledger
	version uint64

	mu        sync.Mutex
	up        bool // the node answers
	dead      bool // never answers again
	deaf      bool // accepts streams and answers nothing
	full      bool // refuses new streams with that reason
	refused   map[string]int64
	peers     uint64      // as reported to each new client
	noReport  []string    // namespaces without permission to report
	taken     quota.Units // booked for nodes that are dead
	settled   map[string]bool
	streams   map[*fakeStream]bool
	overrides []*quoratev1.ClientOverride // sent to each new client
}

func newCluster(t *testing.T, names []string, limits ...quota.Limit) *fakeCluster {
	t.Helper()
	c := &fakeCluster{t: t, delay: time.Millisecond, limits: limits, nodes: map[string]*fakeMember{}, order: names}
	set, err := quota.NewLimits(1, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.work.Wait)
	for _, name := range names {
		c.nodes[name] = &fakeMember{
			cluster: c, name: name, version: 1, up: true, settled: map[string]bool{}, refused: map[string]int64{}, streams: map[*fakeStream]bool{},
			ledger: leader.New(leader.Config{First: true}, 0, 1, quota.NodeID(name), nil, set, nil, wall()),
		}
	}
	return c
}

func wall() quota.Time { return quota.Time(time.Now().UnixNano()) }

func (c *fakeCluster) node(name string) *fakeMember {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[name]
}

func (c *fakeCluster) addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.order...)
}

func (c *fakeCluster) learn(_ string, others []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, addr := range others {
		if !slices.Contains(c.order, addr) {
			c.order = append(c.order, addr)
		}
	}
}

func (c *fakeCluster) prefer(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached = addr
}

func (c *fakeCluster) open(ctx context.Context, addr string) (stream, error) {
	n := c.node(addr)
	if n == nil {
		return nil, fmt.Errorf("no node %s", addr)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.full { // with gRPC this error comes with the first answer; the client treats both alike
		return nil, status.Error(codes.ResourceExhausted, attach.ErrFull.Error())
	}
	if !n.up {
		return nil, fmt.Errorf("%s is down", addr)
	}
	s := &fakeStream{ctx: ctx, n: n, up: make(chan *quoratev1.AttachRequest, 16), down: make(chan *quoratev1.AttachResponse, 64), broken: make(chan struct{})}
	n.streams[s] = true
	c.work.Go(s.serve)
	return s, nil
}

// booked returns what all nodes have booked of a limit.
func (c *fakeCluster) booked(n quota.LimitName) quota.Units {
	var sum quota.Units
	for _, name := range c.addrs() {
		f := c.node(name)
		f.mu.Lock()
		sum += f.ledger.Booked(n) + f.taken
		f.mu.Unlock()
	}
	return sum
}

// set starts or stops the node: a started node answers, a stopped one breaks its streams.
func (n *fakeMember) set(up bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = up
	for s := range n.streams {
		if !up {
			s.cut()
		}
	}
}

// kill stops the node for good.
func (n *fakeMember) kill() {
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	n.set(false)
}

// fakeStream is both ends of one stream.
type fakeStream struct {
	ctx    context.Context
	n      *fakeMember
	up     chan *quoratev1.AttachRequest
	down   chan *quoratev1.AttachResponse
	broken chan struct{}
	once   sync.Once
	closed sync.Once
	client quota.NodeID
	term   quota.Term
}

var errBroken = errors.New("the stream is broken")

func (s *fakeStream) cut() { s.once.Do(func() { close(s.broken) }) }

func (s *fakeStream) Send(m *quoratev1.AttachRequest) error {
	select {
	case s.up <- m:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-s.broken:
		return errBroken
	}
}

func (s *fakeStream) CloseSend() error {
	s.closed.Do(func() { close(s.up) })
	return nil
}

func (s *fakeStream) Recv() (*quoratev1.AttachResponse, error) {
	select {
	case <-s.broken:
		return nil, errBroken
	default:
	}
	select {
	case m, more := <-s.down:
		if !more {
			return nil, io.EOF
		}
		return m, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	case <-s.broken:
		return nil, errBroken
	}
}

// serve runs the node's side.
func (s *fakeStream) serve() {
	defer func() {
		s.n.mu.Lock()
		delete(s.n.streams, s)
		s.n.mu.Unlock()
		close(s.down)
	}()
	for {
		select {
		case m, more := <-s.up:
			if !more || !s.take(m) {
				return
			}
		case <-s.ctx.Done():
			return
		case <-s.broken:
			return
		}
	}
}

// delivery is a message of a node to a stream.
type delivery struct {
	to  *fakeStream
	msg *quoratev1.AttachResponse
}

// take handles one message a one-way delay after it was sent. What the node sends then, to this
// stream and to others, takes another one-way delay, and arrives in that order, as on a connection.
func (s *fakeStream) take(m *quoratev1.AttachRequest) bool {
	time.Sleep(s.n.cluster.delay) // in the time of the bubble
	s.n.mu.Lock()
	out := s.n.answer(s, m)
	s.n.mu.Unlock()
	time.Sleep(s.n.cluster.delay) // in the time of the bubble
	for _, d := range out {
		if d.to != s {
			s.n.push(d)
			continue
		}
		select {
		case s.down <- d.msg:
		case <-s.ctx.Done():
			return false
		case <-s.broken:
			return false
		}
	}
	return true
}

// push delivers to a stream of another client, if it is open and has room.
func (n *fakeMember) push(d delivery) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.streams[d.to] {
		select {
		case d.to.down <- d.msg:
		default:
		}
	}
}

func (n *fakeMember) answer(s *fakeStream, m *quoratev1.AttachRequest) []delivery {
	if n.deaf {
		return nil
	}
	switch body := m.Body.(type) {
	case *quoratev1.AttachRequest_Hello:
		s.client, s.term = quota.NodeID(body.Hello.Client), quota.Term(body.Hello.Attachment)
		out := []*quoratev1.AttachResponse{{Body: &quoratev1.AttachResponse_Hello{Hello: &quoratev1.NodeHello{
			Node: n.name, Incarnation: 1, SyncNanos: int64(100 * time.Millisecond), LeaseNanos: int64(3 * time.Second), Cluster: "fake", Others: n.cluster.addrs(), Peers: n.peers,
		}}}, n.limitsMessage()}
		if len(n.overrides) > 0 {
			out = append(out, &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Overrides{Overrides: &quoratev1.ClientOverrides{Overrides: n.overrides}}})
		}
		return s.deliveries(out...)
	case *quoratev1.AttachRequest_Report:
		r, err := peerproto.ParseReport(member1(s.client, s.term), body.Report)
		if err != nil {
			n.cluster.t.Errorf("%s: a report that cannot be: %v", n.name, err)
			return nil
		}
		if r.Term != s.term {
			n.cluster.t.Errorf("a report of term %d; the attachment is %d", r.Term, s.term)
		}
		return n.book(s, s.term, r)
	case *quoratev1.AttachRequest_Settlement:
		return s.deliveries(n.settle(s, body.Settlement))
	case *quoratev1.AttachRequest_Refusals:
		for _, l := range body.Refusals.Limits {
			n.refused[l.Namespace+"/"+l.Limit] += l.Refused
		}
	}
	return nil
}

func (n *fakeMember) limitsMessage() *quoratev1.AttachResponse {
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Limits{Limits: &quoratev1.ClientLimits{Version: n.version, Limits: limitproto.EncodeLimits(n.cluster.limits), NoReport: n.noReport}}}
}

// member1 names a session as a separate member, with which counters begin again.
func member1(client quota.NodeID, term quota.Term) quota.NodeID {
	return quota.NodeID(fmt.Sprintf("%s.%d", client, term))
}

func (s *fakeStream) deliveries(msgs ...*quoratev1.AttachResponse) (out []delivery) {
	for _, m := range msgs {
		if m != nil {
			out = append(out, delivery{s, m})
		}
	}
	return out
}

// book books a report that came over s, if that is not nil, and returns the answer and what other streams hear of it.
func (n *fakeMember) book(s *fakeStream, term quota.Term, r quota.Report) []delivery {
	r.Term = n.ledger.Term()
	g, err := n.ledger.Report(wall(), r)
	if err != nil {
		return nil
	}
	var out []delivery
	if s != nil {
		out = append(out, delivery{s, granted1(term, &g)})
	}
	for _, g := range append(n.log(), n.ledger.Pushed()...) {
		for to := range n.streams {
			if member1(to.client, to.term) == g.To {
				out = append(out, delivery{to, granted1(to.term, &g)})
			}
		}
	}
	return out
}

// log commits everything to a log without delay.
func (n *fakeMember) log() []quota.Grant {
	n.ledger.Checkpoint(wall(), 4096)
	return n.ledger.Saved(wall(), n.ledger.Written())
}

func granted1(term quota.Term, g *quota.Grant) *quoratev1.AttachResponse {
	g.Term = term
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Grant{Grant: peerproto.EncodeGrant(g)}}
}

// settle passes what an earlier session had counted to that session's node. If that node is dead,
// settle books what it had not acknowledged.
func (n *fakeMember) settle(s *fakeStream, msg *quoratev1.Settlement) *quoratev1.AttachResponse {
	r, err := peerproto.ParseReport(member1(s.client, quota.Term(msg.Attachment)), msg.Report)
	if err != nil || len(msg.Acknowledged) != len(r.Entries) {
		n.cluster.t.Errorf("a settlement that cannot be: %v, %d entries, %d acknowledged", err, len(r.Entries), len(msg.Acknowledged))
		return nil
	}
	old := n.cluster.node(msg.Node)
	if old != n {
		n.mu.Unlock() // the other node may settle a client here at the same time
		old.mu.Lock()
		defer func() {
			old.mu.Unlock()
			n.mu.Lock()
		}()
	}
	id := fmt.Sprintf("%s/%d/%d", s.client, msg.Attachment, r.Seq)
	switch {
	case !old.dead:
		old.book(nil, 1, r)
	case !old.settled[id]:
		for i := range r.Entries {
			old.taken += r.Entries[i].Used + r.Entries[i].Overdrawn - quota.Units(msg.Acknowledged[i])
		}
	}
	old.settled[id] = true
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Settled{Settled: &quoratev1.Settled{Attachment: msg.Attachment}}}
}

// attachTo returns an in-process client of a fake cluster.
func attachTo(t *testing.T, c *fakeCluster, opts ...Option) *Client {
	t.Helper()
	o := defaultOptions()
	for _, opt := range opts {
		opt(&o)
	}
	cl, err := assemble(o)
	if err != nil {
		t.Fatal(err)
	}
	if cl.nodes, err = newNodes(nil, nil); err != nil {
		t.Fatal(err)
	}
	cl.start(c)
	return cl
}

// bucketLimit returns a token bucket.
func bucketLimit(name, rate string, burst int64, ceiling quota.Ceiling) quota.Limit {
	r, err := quota.ParseRate(rate)
	if err != nil {
		panic(err)
	}
	return quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: name}, Rate: r, Burst: burst, Ceiling: ceiling}
}

// bannedKey returns an override that refuses everything.
func bannedKey(n quota.LimitName, key string) *quoratev1.ClientOverride {
	o := quota.Override{Key: quota.Key{LimitName: n, Key: key}, Class: quota.Banned, Burst: -1}
	return &quoratev1.ClientOverride{Key: limitproto.EncodeKey(o.Key), Override: limitproto.EncodeOverride(&o)}
}
