package clients

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/clientledger"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// Max is the maximum number of client processes attached to one node.
const Max = 20_000

// maxMessage bounds one message to a client, in bytes, except messages of limits. Clients of earlier
// versions read at most 4 MiB.
const maxMessage = 3 << 20

// releaseWait bounds how long a stopping node waits for its clients to attach to
// another node and settle their attachments here.
const releaseWait = 500 * time.Millisecond

// Node is the part of its node that Service uses. Methods must be safe for concurrent use.
type Node interface {
	// Now returns the cluster's time.
	Now() quota.Time
	// Sync returns the interval of reports; Lease returns how long tokens are valid without a report.
	Sync() time.Duration
	Lease() time.Duration
	// Limits returns the limits in the meta group; Override returns its override of a key, or nil.
	Limits() *quota.Limits
	Override(k quota.Key) *quota.Override
	// Members returns the number of nodes, and the gRPC addresses of the others.
	Members() (count int, others []string)
	// Up returns the connected nodes other than this one.
	Up() []quota.NodeID
	// Process returns the state of another node's process, as far as this node knows it.
	Process(id quota.NodeID) Process
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Wake makes the node report to the leaders at once.
	Wake()
	// ReportRefused counts a report of an old attachment.
	ReportRefused()
}

// Process is the state of another node's process.
type Process uint8

// The states of a process.
const (
	Connected Process = iota
	Away              // not connected, but perhaps alive
	Ended             // ended, or refusing connections for at least a lease
	NoMember
)

// Config configures a Service.
type Config struct {
	Cluster     string
	Self        quota.NodeID
	Incarnation quota.Incarnation
	Dir         string // the node's data directory; "" if the node is never started
	MaxKeys     int
	Aggregator  *aggregator.Aggregator
	Log         *slog.Logger
	Registry    prometheus.Registerer
}

// Service serves the client processes that are attached to this node. The goroutines that read
// reports book them under one mutex, which takes about a microsecond a key. A separate goroutine
// sends what answers no report. All methods are safe for concurrent use.
type Service struct {
	cfg  Config
	node Node
	wake chan struct{}

	mu       sync.Mutex // guards the client ledger too; locked before session.keysMu
	ledger   *clientledger.Ledger
	sessions map[quota.NodeID]*session
	places   *fairshare.Pool // for sessions
	stopping bool
	// inheriting holds the attachments to dead nodes that are being settled here.
	inheriting map[sessionID]struct{}
	ended      chan struct{} // closed when the last session ends while the node stops

	settling *fairshare.Pool // bytes of pending settlements

	peers   int // last number of clients sent to all sessions
	news    news
	journal reportJournal

	reports     prometheus.Counter
	settlements *prometheus.CounterVec

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// news collects pending notifications to the sessions, and keys that leaders recall.
type news struct {
	mu       sync.Mutex
	limits   bool
	keys     []quota.Key // whose overrides have changed
	allKeys  bool
	recalled []quota.Key
}

// maxNews bounds the keys whose changed overrides await sending. Beyond it all overrides are compared.
const maxNews = 4096

// New returns a service without clients. Call Start to run it and Close to end it.
func New(cfg Config, node Node) *Service {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{
		cfg: cfg, node: node, wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel,
		sessions: map[quota.NodeID]*session{}, places: fairshare.NewPerFree(Max), settling: fairshare.NewPerFree(maxAllSettling), inheriting: map[sessionID]struct{}{},
		reports: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_client_reports_total", Help: "Reports of client processes attached to this node.",
		}),
		settlements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_client_final_reports_total",
			Help: "Final reports of broken client sessions, by outcome: own (to this node), relayed (to another), inherited (of a dead node), later (not decided yet; the report is repeated).",
		}, []string{"outcome"}),
	}
	for _, o := range []string{"own", "relayed", "inherited", "later"} {
		s.settlements.WithLabelValues(o)
	}
	gauge := func(name, help string, f func(clients, keys int) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(f(s.Count())) })
	}
	cfg.Registry.MustRegister(s.reports, s.settlements,
		gauge("quorate_clients", "Client processes attached to this node.", func(clients, _ int) int { return clients }),
		gauge("quorate_client_keys", "Keys that client processes have open at this node; a key that ten of them use counts as ten.", func(_, keys int) int { return keys }))
	s.ledger = clientledger.New(clientledger.Config{Self: cfg.Self, Sync: node.Sync(), Lease: node.Lease(), MaxClients: Max, MaxKeys: cfg.MaxKeys}, parent{cfg.Aggregator, &s.news})
	s.journal.open(&cfg)
	return s
}

// Start runs, until Close, the goroutine that sends what answers no report.
func (s *Service) Start() { s.done.Go(s.run) }

// Close stops the goroutines, waits for them, and closes the journal.
func (s *Service) Close() error {
	s.mu.Lock()
	s.cancel() // with the lock held: no settlement starts after it
	s.mu.Unlock()
	s.done.Wait()
	return s.journal.close()
}

// AddCalls adds the handler of calls about attachments.
func (s *Service) AddCalls(t peercall.Table) { peercall.Handle(t, peercall.Limit, s.onClient) }

// parent is the aggregator as the client ledger's parent. The member loop collects its recalls.
type parent struct {
	*aggregator.Aggregator
	news *news
}

// Recalls implements clientledger.Parent.
func (t parent) Recalls() []quota.Key {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	out := t.news.recalled
	t.news.recalled = nil
	return out
}

// Collected takes over the aggregator's recalls. The member loop calls it after it has applied grants.
func (s *Service) Collected() {
	if keys := s.cfg.Aggregator.Recalls(); len(keys) > 0 {
		s.news.mu.Lock()
		if len(s.news.recalled) < maxNews {
			s.news.recalled = append(s.news.recalled, keys...)
		}
		s.news.mu.Unlock()
	}
	s.wakeUp()
}

func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Count returns the number of attached clients, and of the keys that they have open.
func (s *Service) Count() (clients, keys int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Len(), s.ledger.Keys()
}

// Attach starts an attachment of a client process; see attach.Host.
func (s *Service) Attach(h *attach.Hello, out *attach.Outbox) (attach.Session, error) {
	c := &session{Service: s, id: h.Client, owner: h.Owner, inc: h.Incarnation, term: h.Attachment, may: h.May, mayReport: h.MayReport, out: out, open: map[quota.Key]sentOverride{}}
	c.settling.all, c.settling.owner = s.settling, c.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, attach.ErrStopping
	}
	was := s.sessions[c.id]
	undo := func() { s.places.Release(c.owner, 1) }
	var full fairshare.Full
	if was == nil {
		full = s.places.TryAcquire(c.owner, 1)
	} else { // it keeps the place of its earlier session
		undo, full = s.places.Move(was.owner, c.owner, 1)
	}
	switch full {
	case fairshare.Total:
		return nil, attach.ErrFull
	case fairshare.Each:
		return nil, attach.ErrShare
	}
	if err := s.ledger.Attach(s.node.Now(), c.id, c.owner, c.inc, c.term); err != nil {
		undo()
		return nil, attach.ErrStale
	}
	if was != nil {
		was.out.End("the process has attached again")
	}
	c.settling.ctx, c.settling.cancel = context.WithCancel(s.ctx)
	s.sessions[c.id] = c
	s.wakeUp()
	_, others := s.node.Members()
	out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Hello{Hello: &quoratev1.NodeHello{
		Node: string(s.cfg.Self), Incarnation: uint64(s.cfg.Incarnation), Cluster: s.cfg.Cluster, Others: others,
		SyncNanos: int64(s.node.Sync()), LeaseNanos: int64(s.node.Lease()), Peers: uint64(s.guessPeers()),
	}}})
	s.sendPeers()
	c.sendLimits(s.node.Limits(), limitsCache{})
	return c, nil
}

// guessPeers estimates the number of clients of the cluster, assuming that each node has as many as
// this one. s.mu must be held.
func (s *Service) guessPeers() int {
	count, _ := s.node.Members()
	return s.ledger.Len() * max(1, count)
}

// sendPeers sends all sessions the number of clients once it is at least twice the number last
// sent: a growth to twenty thousand takes fifteen messages to a session. s.mu must be held.
func (s *Service) sendPeers() {
	peers := s.guessPeers()
	if peers < 2*s.peers {
		return
	}
	s.peers = peers
	m := &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Peers{Peers: &quoratev1.Peers{Count: uint64(peers)}}}
	for _, c := range s.sessions {
		c.out.Put(m)
	}
}

// run sends what answers no report: grants for waiting clients,
// recalls, changed limits and overrides.
func (s *Service) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	swept := s.node.Now()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		s.sendNews()
		s.mu.Lock()
		now := s.node.Now()
		if now.Sub(swept) >= time.Second {
			swept = now
			s.sweep(now)
		}
		s.push(now)
		pause := s.node.Sync() / 2
		if s.ledger.Len() == 0 {
			pause = time.Second // the next Attach wakes the loop
		}
		s.mu.Unlock()
		s.verify()
		if s.cfg.Aggregator.Urgent() {
			s.node.Wake()
		}
		timer.Reset(pause)
	}
}

// Sweep removes expired state from the client ledger and the journal.
func (s *Service) Sweep(now quota.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
}

// sweep is Sweep for callers that hold s.mu.
func (s *Service) sweep(now quota.Time) {
	s.ledger.Sweep(now)
	s.journal.sweep(now)
	s.peers = min(s.peers, s.guessPeers()) // clients that attach next get the new number
}

// push sends the client ledger's pending grants, merged into one message per client where they fit. s.mu must be
// held.
func (s *Service) push(now quota.Time) {
	pushed := s.ledger.Push(now)
	if len(pushed) == 0 {
		return
	}
	type message struct {
		grant *quota.Grant
		bytes int
	}
	merged := map[quota.NodeID]message{}
	for i := range pushed {
		g := &pushed[i]
		size := 0
		for j := range g.Entries {
			size += quota.EntrySize(g.Entries[j].Key.LimitName, g.Entries[j].Key.Key)
		}
		m := merged[g.To]
		if m.grant != nil && m.grant.Term == g.Term && m.grant.At == g.At && len(m.grant.Entries)+len(g.Entries) <= peerproto.MaxEntries && m.bytes+size <= maxMessage {
			m.grant.Entries = append(m.grant.Entries, g.Entries...)
			m.bytes += size
			merged[g.To] = m
			continue
		}
		s.send(m.grant)
		merged[g.To] = message{g, size}
	}
	for _, m := range merged {
		s.send(m.grant)
	}
}

// send puts a grant into the outbox of its client, if that attachment is current. s.mu must be held.
func (s *Service) send(g *quota.Grant) {
	if g == nil {
		return
	}
	if c := s.sessions[g.To]; c != nil && c.term == g.Term {
		c.out.Put(grantMessage(g))
	}
}

func grantMessage(g *quota.Grant) *quoratev1.AttachResponse {
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Grant{Grant: peerproto.EncodeGrant(g)}}
}

// Release asks all client processes to attach to other nodes, accepts no more,
// and waits briefly until they have gone. Call it on a node that is about to stop.
func (s *Service) Release() {
	s.mu.Lock()
	s.stopping = true
	left := len(s.sessions)
	if left > 0 && s.ended == nil {
		s.ended = make(chan struct{})
	}
	ended := s.ended
	for _, c := range s.sessions {
		c.out.End("the node stops")
	}
	s.mu.Unlock()
	if left == 0 {
		return
	}
	timer := time.NewTimer(releaseWait)
	defer timer.Stop()
	select {
	case <-ended:
		time.Sleep(releaseWait / 4) // clients now settle here through other nodes
	case <-timer.C:
	}
}

// Cut ends all streams without a goodbye, and accepts no more clients.
func (s *Service) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for _, c := range s.sessions {
		c.out.End("")
	}
}
