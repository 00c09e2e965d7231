package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/clientledger"
	"github.com/quorate/quorate/internal/quota"
)

// clients are the client processes one level below the nodes. Each decides with its own aggregator
// and is attached to one node by a stream, which delivers messages in order until it breaks.
type clients struct {
	rng   *rand.Rand // used for clients only
	procs []*proc
	home  [][]*proc // by node: the clients that get the requests for it
}

// proc is one client process.
type proc struct {
	id    quota.NodeID
	agg   *aggregator.Aggregator
	clock aggregator.Clock
	home  *node

	node *node             // attached node; nil while detached
	inc  quota.Incarnation // of that node
	term quota.Term

	limits *quota.Limits   // the limits that its node has sent last
	over   *quota.Override // the override of the only key, likewise; nil for none

	last     []lastReport // last reports of broken attachments, until they are settled
	asleep   bool
	wakeAt   quota.Time
	parked   []parked
	admitted quota.Units // admitted according to callers
}

// lastReport is the last report of an attachment.
type lastReport struct {
	node *node
	inc  quota.Incarnation
	rep  quota.Report
}

// membersPerNode is how many members a client assumes per node, as the real one does (package
// client).
const membersPerNode = 1000

// reconnect is the longest time that a client needs to find another node.
const reconnect = 20 * time.Millisecond

func (r *run) startClients() {
	if r.Clients == 0 || r.baseline != nil {
		return
	}
	r.cl.rng = rand.New(rand.NewPCG(r.Seed, 7))
	r.cl.home = make([][]*proc, r.Nodes)
	for i := range r.Clients {
		p := &proc{id: quota.NodeID("c" + strconv.Itoa(i)), home: r.nodes[i%r.Nodes]}
		skew := quota.Time(0)
		if r.Skew > 0 {
			skew = quota.Time(r.cl.rng.Int64N(int64(r.Skew)))
		}
		p.clock = func() quota.Time { return r.now + skew }
		phase := quota.Time(r.cl.rng.Int64N(int64(r.Sync)))
		p.agg = aggregator.New(aggregator.Config{Self: p.id, Incarnation: 1, Nodes: membersPerNode * r.Nodes, Ranges: 1, Sync: r.Sync, Overrides: p}, p.clock()-phase)
		p.limits = r.limits
		p.agg.SetLimits(p.clock(), r.limits)
		p.asleep = true
		r.cl.procs = append(r.cl.procs, p)
		r.cl.home[p.home.i] = append(r.cl.home[p.home.i], p)
		r.after(time.Duration(r.cl.rng.Int64N(int64(reconnect))), func() { r.attach(p) })
		if r.Breaks > 0 {
			r.breakLater(p)
		}
	}
}

// ledgerOf starts the client ledger of a node's process.
func (r *run) ledgerOf(n *node) {
	if r.Clients == 0 || r.baseline != nil {
		return
	}
	n.ledger = clientledger.New(clientledger.Config{Self: n.id, Sync: r.Sync}, n.agg)
	r.every(n, time.Second, func() {
		n.ledger.Sweep(n.clock())
		r.proveLedger(n)
	})
}

// breakLater breaks the stream of a client at random times.
func (r *run) breakLater(p *proc) {
	r.after(time.Duration(r.cl.rng.ExpFloat64()/r.Breaks*float64(time.Second)), func() {
		if n := p.node; n != nil {
			r.broke(p)
			inc, term := n.inc, p.term
			r.onNode(r.now.Add(time.Duration(r.cl.rng.Int64N(int64(reconnect)))), n, message, func() {
				if n.runs(inc) {
					n.ledger.Detach(n.clock(), p.id, 1, term)
				}
			})
		}
		r.breakLater(p)
	})
}

// lostNode breaks the streams to a dead node.
func (r *run) lostNode(n *node) {
	for _, p := range r.cl.procs {
		if p.node == n {
			r.after(r.Delay, func() {
				if p.node == n && !n.runs(p.inc) {
					r.broke(p)
				}
			})
		}
	}
}

// broke ends an attachment and starts looking for another node.
func (r *run) broke(p *proc) {
	if reps := p.agg.Leave(p.clock(), 0); len(reps) > 0 { // a client sends them as one
		last := reps[len(reps)-1]
		last.Entries = nil
		for i := range reps {
			last.Entries = append(last.Entries, reps[i].Entries...)
		}
		p.last = append(p.last, lastReport{p.node, p.inc, last})
	}
	p.node = nil
	p.agg.SetPeers(0)
	r.after(time.Duration(r.cl.rng.Int64N(int64(reconnect))), func() { r.attach(p) })
}

// attach attaches a client to its own node, or to another one that is alive.
func (r *run) attach(p *proc) {
	n := p.home
	for n.dead || n.paused || r.cl.rng.IntN(4) == 0 && len(p.last) > 0 {
		if n = r.nodes[r.cl.rng.IntN(r.Nodes)]; r.cl.rng.IntN(r.Nodes*2) == 0 {
			break
		}
	}
	if p.node != nil {
		return
	}
	if n.dead || n.paused {
		r.after(reconnect, func() { r.attach(p) })
		return
	}
	p.term++
	term := p.term
	p.node, p.inc = n, n.inc
	r.toNode(p, func() {
		if err := n.ledger.Attach(n.clock(), p.id, "", 1, term); err != nil {
			r.res.Violations = append(r.res.Violations, fmt.Sprintf("%v: %v", r.since(), err)) // there is room, and each is newer
			return
		}
		r.toClient(n, p, term, func() {
			p.agg.SetLeader(0, n.id, term)
			p.agg.SetPeers(r.Clients)
			r.pumpClient(p)
		})
		r.inform(n, p)
		r.settle(p)
	})
}

// settle sends the last reports of earlier attachments to their nodes, through the current one,
// until they are settled.
func (r *run) settle(p *proc) {
	if len(p.last) == 0 || p.node == nil {
		return
	}
	for _, l := range slices.Clone(p.last) {
		via, term := p.node, p.term
		r.toNode(p, func() { r.relay(via, p, term, l) })
	}
	r.after(r.Sync*3, func() { r.settle(p) })
}

// relay forwards a last report to its node. If that process is dead, the report is booked by the
// relaying node.
func (r *run) relay(via *node, p *proc, term quota.Term, l lastReport) {
	done := func() {
		r.toClient(via, p, term, func() {
			p.last = slices.DeleteFunc(p.last, func(o lastReport) bool { return o.rep.Term == l.rep.Term && o.rep.Seq == l.rep.Seq })
		})
	}
	if !l.node.runs(l.inc) {
		via.rouse()
		via.ledger.Inherit(via.clock(), &l.rep)
		r.moved(via)
		done()
		return
	}
	if r.cl.rng.Float64() < r.Loss {
		return
	}
	for range 1 + r.cl.rng.IntN(2) { // perhaps twice
		r.onNode(r.now.Add(r.Delay), l.node, message, func() {
			l.node.rouse()
			if err := l.node.ledger.Final(l.node.clock(), &l.rep); err != nil {
				return
			}
			r.moved(l.node)
			done()
		})
	}
}

// inform sends a client the limits, and the override of the only key, that its node knows.
func (r *run) inform(n *node, p *proc) {
	limits, over := n.limits, n.over
	r.toClient(n, p, p.term, func() {
		if limits.Version != p.limits.Version {
			p.limits = limits
			p.agg.SetLimits(p.clock(), limits)
		}
		if over != p.over {
			p.over = over
			p.agg.Overridden(p.clock(), []quota.Key{r.key(resizable)})
		}
		r.resized()
	})
}

// informAll sends the clients of a node what it has learned.
func (r *run) informAll(n *node) {
	for _, p := range r.cl.procs {
		if p.node == n {
			r.inform(n, p)
		}
	}
}

// Override implements quota.Overrides.
func (p *proc) Override(k quota.Key) *quota.Override { return overrideOf(p.over, k) }

// toNode sends a message up the stream of a client.
func (r *run) toNode(p *proc, f func()) {
	n, term := p.node, p.term
	r.onNode(r.now.Add(r.Delay), n, message, func() {
		if p.node == n && p.term == term {
			f()
		}
	})
}

// toClient sends a message down the stream.
func (r *run) toClient(n *node, p *proc, term quota.Term, f func()) {
	inc := n.inc
	r.after(r.Delay, func() {
		if p.node == n && p.term == term && n.runs(inc) {
			f()
		}
	})
}

// pumpClient sends a client's due reports and schedules its next wake-up.
func (r *run) pumpClient(p *proc) {
	for _, rep := range p.agg.Collect(p.clock()) {
		r.res.ClientReports++
		n, term := p.node, p.term
		if n == nil {
			continue
		}
		r.toNode(p, func() {
			n.rouse()
			g, err := n.ledger.Report(n.clock(), &rep)
			if err != nil {
				return
			}
			r.proveLedger(n)
			r.grantClient(n, p, term, g)
			r.moved(n)
		})
	}
	if p.asleep = p.agg.Quiet(); p.asleep {
		p.wakeAt = 0
		return
	}
	wake := p.agg.NextWake() - (p.clock() - r.now)
	if wake != p.wakeAt {
		p.wakeAt = wake
		r.at(wake, func() {
			if p.wakeAt == wake {
				p.wakeAt = 0
				r.pumpClient(p)
			}
		})
	}
}

func (r *run) grantClient(n *node, p *proc, term quota.Term, g quota.Grant) {
	r.toClient(n, p, term, func() {
		p.agg.Apply(p.clock(), g)
		r.unparkClient(p)
		if p.agg.Urgent() {
			r.pumpClient(p)
		}
	})
}

// moved sends what a node owes its clients and its leader after a change of what it holds.
func (r *run) moved(n *node) {
	if n.ledger == nil {
		return
	}
	for _, g := range n.ledger.Push(n.clock()) {
		i, _ := strconv.Atoi(string(g.To[1:]))
		r.grantClient(n, r.cl.procs[i], g.Term, g)
	}
	if n.agg.Urgent() {
		r.pump(n)
	}
}

// requestAt plays a request at one of a node's clients, or at the node if it has none. With a
// skewed load the first client gets the same part of the node's requests as the first node of all.
func (r *run) requestAt(n *node, s Spread, w wanted) {
	if r.cl.procs == nil {
		r.request(n, w)
		return
	}
	home := r.cl.home[n.i]
	if len(home) == 0 || r.Limit.Decide == quota.AtLeader || r.Limit.MaxDebt > 0 || r.Limit.Kind == quota.Concurrency {
		r.request(n, w) // it asks the node
		return
	}
	p := home[0]
	if s.Skew == 0 || r.cl.rng.Float64() >= s.Skew {
		p = home[r.cl.rng.IntN(len(home))]
	}
	r.rouseClient(p)
	if w.charge {
		r.chargeUse(p.agg, p.clock, p.limits, w.key, w.cost)
		r.pumpClient(p)
		return
	}
	r.checkClient(p, parked{wanted: w})
}

func (r *run) countClient(p *proc, w wanted, d quota.Decision, taken *aggregator.Taken) {
	if w.cost == 0 {
		return
	}
	if d.Allowed {
		p.admitted += quota.FromTokens(w.cost)
	}
	ideal := r.count(p.home, w.key, w.cost, d, nil)
	if taken == nil {
		return
	}
	back := r.givesBack(w, ideal, nil, taken)
	r.after(w.after, func() {
		r.rouseClient(p)
		back(p.agg, p.clock)
		r.pumpClient(p)
	})
}

// rouseClient wakes a client that slept because no key was open.
func (r *run) rouseClient(p *proc) {
	if p.asleep {
		p.asleep = false
		p.agg.Collect(p.clock())
	}
}

// checkClient decides a check at a client. It waits for a grant if that would decide; if memory does not
// settle it, the client's node does.
func (r *run) checkClient(p *proc, k parked) {
	c := r.newCall(k.key, k.cost)
	c.Final = k.until > 0 && r.now >= k.until
	c.began = p.clock()
	p.agg.Decide(p.clock, &c.Call)
	if c.Need == aggregator.Grant && r.Hop == 0 {
		c.Final = true
		p.agg.Decide(p.clock, &c.Call)
	}
	n := p.node
	if c.Need == aggregator.Leader && n == nil {
		c.Alone = true
		p.agg.Decide(p.clock, &c.Call)
	}
	d, need := c.out[0], c.Need
	var taken *aggregator.Taken
	if d.Allowed && k.back > 0 {
		taken = c.Taken(c.began)
	}
	r.free(c)
	if p.agg.Urgent() || p.wakeAt == 0 {
		r.pumpClient(p)
	}
	switch need {
	case aggregator.Leader:
		r.toNode(p, func() { r.request(n, k.wanted) })
	case aggregator.Grant:
		if k.until == 0 {
			k.until = r.now.Add(r.Hop)
			r.at(k.until, func() { r.unparkClient(p) })
		}
		p.parked = append(p.parked, k)
	default:
		r.countClient(p, k.wanted, d, taken)
	}
}

// unparkClient decides a client's waiting checks again.
func (r *run) unparkClient(p *proc) {
	waiting := p.parked
	p.parked = nil
	for _, k := range waiting {
		r.checkClient(p, k)
	}
}

// proveLedger checks the books of a node's clients; only sometimes if there are many.
func (r *run) proveLedger(n *node) {
	if !r.Check || len(r.res.Violations) >= maxViolations || r.Clients > 100 && r.cl.rng.IntN(r.Clients) > 0 {
		return
	}
	if err := n.ledger.Check(n.clock()); err != nil {
		r.res.Violations = append(r.res.Violations, fmt.Sprintf("%v, node %s: %v", r.since(), n.id, err))
	}
}
