package cluster

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/branch"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// MaxClients is the most client processes that attach to one node.
const MaxClients = 20_000

// maxClientTold bounds one message to a client in bytes, its limits apart: clients of earlier
// versions read 4 MiB.
const maxClientTold = 3 << 20

// clientsGo bounds how long a node that stops waits for its clients to take up with
// another one, and settle what they had here.
const clientsGo = 500 * time.Millisecond

// clients are the processes attached to this node. Reports are booked on the
// goroutines that read them, under one mutex: that is about a microsecond a key. What
// answers no report is sent by a goroutine of its own (clientLoop).
type clients struct {
	node *Node
	wake chan struct{}

	mu       sync.Mutex // also of the branch; taken before that of a session
	branch   *branch.Branch
	sessions map[quota.NodeID]*session
	owners   map[string]int // sessions of each identity that is known
	stopping bool
	// inheriting are the attachments of dead nodes that are being settled here.
	inheriting map[inheritance]struct{}
	ended      chan struct{} // closed when the last session ends while the node stops

	settling atomic.Int64 // bytes of settlements that wait

	peers   int // as all sessions were told
	news    clientNews
	journal clientJournal
}

// clientNews is what the sessions have to be told, and what leaders want back.
type clientNews struct {
	mu       sync.Mutex
	limits   bool
	keys     []quota.Key // whose overrides have changed
	allKeys  bool
	recalled []quota.Key
}

// maxNews bounds the keys of overrides that wait to be told; beyond it all are looked at.
const maxNews = 4096

func (c *clients) init(n *Node) {
	c.node, c.wake, c.sessions, c.inheriting = n, make(chan struct{}, 1), map[quota.NodeID]*session{}, map[inheritance]struct{}{}
	c.owners = map[string]int{}
	c.branch = branch.New(branch.Config{
		Self: n.cfg.Self, Sync: n.sync(), Lease: n.lease(), MaxClients: MaxClients, MaxKeys: n.cfg.MaxKeys,
	}, trunk{n.agg, &c.news})
}

// trunk is the aggregator, whose recalls the member loop collects.
type trunk struct {
	*aggregator.Aggregator
	news *clientNews
}

// Recalls implements branch.Trunk.
func (t trunk) Recalls() []quota.Key {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	out := t.news.recalled
	t.news.recalled = nil
	return out
}

// collected is called by the member loop after it has applied grants.
func (c *clients) collected() {
	if keys := c.node.agg.Recalls(); len(keys) > 0 {
		c.news.mu.Lock()
		if len(c.news.recalled) < maxNews {
			c.news.recalled = append(c.news.recalled, keys...)
		}
		c.news.mu.Unlock()
	}
	c.poke()
}

func (c *clients) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// count is how many are attached, and how many keys they have open.
func (c *clients) count() (clients, keys int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.branch.Len(), c.branch.Keys()
}

// Attach begins an attachment of a client process; see attach.Host.
func (n *Node) Attach(h *attach.Hello, out *attach.Outbox) (attach.Session, error) {
	c := &n.clients
	s := &session{clients: c, id: h.Client, owner: h.Owner, inc: h.Incarnation, term: h.Attachment, may: h.May, out: out, open: map[quota.Key]overrideTold{}}
	s.settling.init(&c.settling)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, attach.ErrStopping
	}
	if c.sessions[s.id] == nil && !c.mayOwn(s.owner) {
		return nil, attach.ErrShare
	}
	switch err := c.branch.Attach(n.clock.now(), s.id, s.owner, s.inc, s.term); {
	case errors.Is(err, branch.ErrFull):
		return nil, attach.ErrFull
	case err != nil:
		return nil, attach.ErrStale
	}
	if was := c.sessions[s.id]; was != nil {
		was.out.End(goodbye("the process has attached again"))
		c.disown(was.owner)
	}
	c.sessions[s.id] = s
	c.owners[s.owner]++
	c.poke()
	out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Hello{Hello: n.nodeHello()}})
	c.tellPeers()
	s.tellLimits(n.meta.Current(), limitsCache{})
	return s, nil
}

// sharePerFree is how many clients one identity may have at a node for each place that is free: so it
// has seven eighths of them at most, and however many identities take what they can, one more finds places.
const sharePerFree = 7

// mayOwn says whether an identity may have one more client here. c.mu is held.
func (c *clients) mayOwn(owner string) bool {
	return owner == "" || c.owners[owner] < sharePerFree*(MaxClients-len(c.sessions))
}

func (c *clients) disown(owner string) {
	if c.owners[owner]--; c.owners[owner] <= 0 {
		delete(c.owners, owner)
	}
}

func (n *Node) nodeHello() *quoratev1.NodeHello {
	h := &quoratev1.NodeHello{
		Node: string(n.cfg.Self), Incarnation: uint64(n.inc), Cluster: n.cfg.Cluster,
		SyncNanos: int64(n.sync()), LeaseNanos: int64(n.lease()), Peers: uint64(n.clients.guessPeers()),
	}
	v := n.members.View()
	for _, id := range v.IDs {
		if m := v.Member(id); m != nil && id != n.cfg.Self && m.GRPC != "" {
			h.Others = append(h.Others, m.GRPC)
		}
	}
	return h
}

// guessPeers is how many clients the cluster has if each node has as many as this one.
// c.mu is held.
func (c *clients) guessPeers() int { return c.branch.Len() * max(1, len(c.node.members.View().IDs)) }

// tellPeers tells all sessions how many clients there are when they know of no more than
// half as many: so a session is told of twenty thousand in fifteen messages. c.mu is held.
func (c *clients) tellPeers() {
	peers := c.guessPeers()
	if peers < 2*c.peers {
		return
	}
	c.peers = peers
	m := &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Peers{Peers: &quoratev1.Peers{Count: uint64(peers)}}}
	for _, s := range c.sessions {
		s.out.Put(m)
	}
}

func goodbye(reason string) *quoratev1.AttachResponse {
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Goodbye{Goodbye: &quoratev1.Goodbye{Reason: reason}}}
}

// clientLoop sends what answers no report: grants that came for clients who wait,
// recalls, limits and overrides that changed.
func (n *Node) clientLoop() {
	defer n.done.Done()
	c := &n.clients
	timer := time.NewTimer(0)
	defer timer.Stop()
	swept := n.clock.now()
	for {
		select {
		case <-n.stop:
			return
		case <-c.wake:
		case <-timer.C:
		}
		c.tellNews()
		c.mu.Lock()
		now := n.clock.now()
		if now.Sub(swept) >= time.Second {
			swept = now
			c.branch.Sweep(now)
			c.journal.sweep(now)
			c.peers = min(c.peers, c.guessPeers()) // those that attach next know
		}
		c.push(now)
		pause := n.sync() / 2
		if c.branch.Len() == 0 {
			pause = time.Second // whoever attaches wakes it
		}
		c.mu.Unlock()
		n.correct()
		if n.agg.Urgent() {
			n.poke()
		}
		timer.Reset(pause)
	}
}

// push sends what the branch has for clients, one message to each. c.mu is held.
func (c *clients) push(now quota.Time) {
	pushed := c.branch.Push(now)
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
		if m.grant != nil && m.grant.Term == g.Term && m.grant.At == g.At && len(m.grant.Entries)+len(g.Entries) <= peerproto.MaxEntries && m.bytes+size <= maxClientTold {
			m.grant.Entries = append(m.grant.Entries, g.Entries...)
			m.bytes += size
			merged[g.To] = m
			continue
		}
		c.send(m.grant)
		merged[g.To] = message{g, size}
	}
	for _, m := range merged {
		c.send(m.grant)
	}
}

// send puts a grant into the outbox of its client. c.mu is held.
func (c *clients) send(g *quota.Grant) {
	if g == nil {
		return
	}
	if s := c.sessions[g.To]; s != nil && s.term == g.Term {
		s.out.Put(grantMessage(g))
	}
}

func grantMessage(g *quota.Grant) *quoratev1.AttachResponse {
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Grant{Grant: peerproto.EncodeGrant(g)}}
}

// ReleaseClients tells all client processes to attach to other nodes, takes no more,
// and waits a moment until they have gone. It is for a node that is about to stop.
func (n *Node) ReleaseClients() {
	c := &n.clients
	c.mu.Lock()
	c.stopping = true
	left := len(c.sessions)
	if left > 0 && c.ended == nil {
		c.ended = make(chan struct{})
	}
	ended := c.ended
	for _, s := range c.sessions {
		s.out.End(goodbye("the node stops"))
	}
	c.mu.Unlock()
	if left == 0 {
		return
	}
	timer := time.NewTimer(clientsGo)
	defer timer.Stop()
	select {
	case <-ended:
		time.Sleep(clientsGo / 4) // they settle by way of others
	case <-timer.C:
	}
}

// cutClients ends all streams without a word.
func (c *clients) cutClients() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for _, s := range c.sessions {
		s.out.End(nil)
	}
}
