package share_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/api/rlqs/share"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

const (
	step  = 5 * time.Millisecond // of the virtual clock
	way   = 5 * time.Millisecond // one-way delay between a proxy and its node
	every = 50 * time.Millisecond
	began = quota.Time(1_700_000_000_000_000_000)
)

var key = quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "all"}, Key: quota.WholeKey}

// world simulates a leader, nodes with their tables, and proxies on the nodes, in virtual
// time.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     quota.Time
	ledger  *leader.Ledger
	nodes   []*node
	proxies []*proxy
	nextID  share.MemberID
	posts   []post

	fore    foresight
	ideal   bucket // sees all requests at once
	passed  int64  // requests that the ideal admits
	level   float64
	levelAt quota.Time
	lowest  float64 // lowest level of a bucket that is charged with every admitted request
	limit   quota.Limit
	sumRate float64 // the highest sum of assigned rates
}

// post is a message in flight.
type post struct {
	at quota.Time
	do func()
}

type node struct {
	w     *world
	id    quota.NodeID
	agg   *aggregator.Aggregator
	table *share.Table
	drawn int64
}

func (n *node) clock() quota.Time { return n.w.now }
func (n *node) Draw(k quota.Key, want int64) int64 {
	got := n.agg.Draw(n.clock, k, want)
	for rest := want - got; rest > 0 && n.w.limit.MayAsk(); rest /= 2 { // as a node does
		q := quota.Ask{From: n.id, Incarnation: 1, Key: k, Cost: quota.FromTokens(rest)}
		if n.w.ledger.Ask(n.w.now, []quota.Ask{q})[0].Allowed {
			got += rest
			break
		}
	}
	n.drawn += got
	return got
}
func (n *node) Miss(k quota.Key, cost int64) { n.agg.Miss(n.clock, k, cost) }
func (n *node) Refund(k quota.Key, cost int64) {
	n.drawn -= cost
	n.agg.Refund(n.clock, k.LimitName, k.Key, cost)
}
func (n *node) Standing(k quota.Key) quota.Standing { return n.agg.Standing(n.clock, k) }

func newWorld(t *testing.T, seed uint64, nodes int, limit quota.Limit) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: began, limit: limit}
	limit.LimitName = key.LimitName
	limits, err := quota.NewLimits(1, []quota.Limit{limit})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]quota.NodeID, nodes)
	for i := range ids {
		ids[i] = quota.NodeID("n" + string(rune('1'+i)))
	}
	w.ledger = leader.New(leader.Config{}, 0, 1, ids[0], ids, limits, nil, w.now)
	for _, id := range ids {
		n := &node{w: w, id: id}
		n.agg = aggregator.New(aggregator.Config{Self: id, Incarnation: 1, Nodes: nodes, Ranges: 1}, w.now)
		n.agg.SetLimits(w.now, limits)
		n.agg.SetLeader(0, ids[0], 1)
		n.table = share.New(share.Config{}, n)
		w.nodes = append(w.nodes, n)
	}
	rate, burst := limit.Rate.PerSecond(), float64(limit.Burst)
	w.ideal = newBucket(w.now, burst, float64(rate)/1e6)
	w.level, w.levelAt, w.lowest = burst, w.now, burst
	w.fore = foresight{w: w, level: newBucket(w.now, burst, w.rate())}
	return w
}

// rate returns the refill rate of the limit's bucket in tokens per second.
func (w *world) rate() float64 { return float64(w.limit.Rate.PerSecond()) / 1e6 }

func (w *world) later(d time.Duration, do func()) { w.posts = append(w.posts, post{w.now.Add(d), do}) }

// run advances the world by d in steps.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now < end; {
		w.now = w.now.Add(step)
		w.deliver()
		for _, p := range w.proxies {
			p.step()
		}
		for _, n := range w.nodes {
			if int64(w.now)%int64(every) == 0 {
				w.send(n, n.table.Tick(w.now))
			}
			for _, r := range n.agg.Collect(w.now) {
				w.later(step, func() {
					if g, err := w.ledger.Report(w.now, r); err == nil {
						w.later(step, func() { n.agg.Apply(w.now, g) })
					}
				})
			}
		}
		w.lead()
	}
}

func (w *world) deliver() {
	due := w.posts
	w.posts = nil
	for _, p := range due {
		if p.at <= w.now {
			p.do()
		} else {
			w.posts = append(w.posts, p)
		}
	}
}

func (w *world) lead() {
	push := func(gs []quota.Grant) {
		for _, g := range gs {
			i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.id == g.To })
			w.later(step, func() { w.nodes[i].agg.Apply(w.now, g) })
		}
	}
	push(w.ledger.Pushed())
	if w.ledger.Wants() || int64(w.now)%int64(time.Second) == 0 {
		w.ledger.Checkpoint(w.now, 100)
		push(w.ledger.Saved(w.now, w.ledger.Written()))
	}
	if int64(w.now)%int64(time.Second) == 0 {
		w.ledger.Sweep(w.now)
		for _, n := range w.nodes {
			n.agg.Sweep(w.now)
		}
	}
	sum := 0.0
	for _, p := range w.proxies {
		if p.assigned && p.has.Action == share.Bucket {
			sum += p.bucket.rate
		}
	}
	w.sumRate = max(w.sumRate, sum)
}

// send delivers assignments to their proxies after the delay way, plus the proxy's slow.
func (w *world) send(n *node, list []share.Assignment) {
	for _, a := range list {
		for _, p := range w.proxies {
			if p.id == a.Member && p.node == n {
				w.later(p.slow+way, func() {
					if p.id == a.Member {
						p.apply(a)
					}
				})
			}
		}
	}
}

// admitted charges one request to the limit's bucket and records its lowest level.
func (w *world) admitted() {
	r := float64(w.limit.Rate.PerSecond()) / 1e6
	w.level = min(w.level+r*w.now.Sub(w.levelAt).Seconds(), float64(w.limit.Burst))
	w.levelAt = w.now
	w.level--
	w.lowest = min(w.lowest, w.level)
}

// bucket is a token bucket like Envoy's: it starts full and refills continuously.
type bucket struct {
	max, rate, level float64
	at               quota.Time
}

func newBucket(now quota.Time, burst, rate float64) bucket { return bucket{burst, rate, burst, now} }

func (b *bucket) take(now quota.Time) bool {
	b.spend(now, 0)
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}

// spend takes an amount, even if the level becomes negative.
func (b *bucket) spend(now quota.Time, amount float64) {
	b.level = min(b.max, b.level+b.rate*now.Sub(b.at).Seconds()) - amount
	b.at = now
}

// proxy behaves like Envoy's filter: it decides requests by its assignment, counts them,
// reports every interval, and sends the first report of a bucket at once.
type proxy struct {
	w      *world
	node   *node
	id     share.MemberID
	twin   *twin
	origin string
	load   func(since time.Duration) float64 // requests per second
	report time.Duration                     // between reports
	slow   time.Duration                     // extra delay of assignments

	open     bool // has the bucket
	assigned bool
	has      share.Assignment
	bucket   bucket
	expires  quota.Time
	nextAt   quota.Time
	last     quota.Time

	allowed, denied int64 // since the last report
	admit, asked    int64
	unassigned      int64 // admitted without an assignment
	pushes          int
	deny            bool // refuse requests of an open bucket that has no assignment
}

func (w *world) proxy(n int, report time.Duration, load func(time.Duration) float64) *proxy {
	p := &proxy{w: w, load: load, report: report, origin: string(rune('a' + len(w.proxies)))}
	p.nextAt = w.now.Add(time.Duration(w.rng.Int64N(int64(report))))
	w.proxies = append(w.proxies, p)
	p.twin = w.fore.add(p)
	p.connect(n)
	return p
}

func (p *proxy) connect(n int) {
	p.w.nextID++
	p.id, p.node = p.w.nextID, p.w.nodes[n]
}

func (p *proxy) disconnect() {
	if p.node != nil {
		p.node.table.Gone(key, p.id)
	}
	p.node, p.id = nil, 0
}

func flat(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

func (p *proxy) step() {
	if p.assigned && p.w.now >= p.expires {
		p.assigned = false
	}
	if p.w.now >= p.nextAt {
		p.nextAt = p.nextAt.Add(p.report)
		p.w.fore.report(p.twin)
		if p.open {
			p.tell()
		}
	}
	for range poisson(p.w.rng, p.load(p.w.now.Sub(began))*step.Seconds()) {
		p.request()
	}
}

func (p *proxy) request() {
	w := p.w
	p.asked++
	if w.ideal.take(w.now) {
		w.passed++
	}
	w.fore.request(p.twin)
	ok := true
	switch {
	case !p.assigned && p.open && p.deny:
		ok = false
	case !p.assigned:
		p.unassigned++
	case p.has.Action == share.DenyAll:
		ok = false
	case p.has.Action == share.Bucket:
		ok = p.bucket.take(w.now)
	}
	if !ok {
		p.denied++
		return
	}
	p.allowed++
	p.admit++
	w.admitted()
	if !p.open {
		p.open, p.last = true, w.now
		p.tell()
	}
}

// tell reports the counted requests. Like Envoy, it truncates the elapsed time to whole
// seconds.
func (p *proxy) tell() {
	if p.node == nil {
		return // keep the counts for the next report; Envoy would drop them
	}
	u := share.Usage{Key: key, Allowed: p.allowed, Denied: p.denied, Elapsed: p.w.now.Sub(p.last).Truncate(time.Second)}
	p.allowed, p.denied, p.last = 0, 0, p.w.now
	n, id := p.node, p.id
	p.w.later(way, func() {
		if p.id != id {
			return
		}
		a, ok, err := n.table.Report(p.w.now, id, share.Origin{Proxy: p.origin}, u)
		if err != nil {
			p.w.t.Fatal(err)
		}
		if ok {
			p.w.send(n, []share.Assignment{a})
		}
	})
}

func (p *proxy) apply(a share.Assignment) {
	p.pushes++
	if a.Action == share.Abandon {
		p.open, p.assigned = false, false
		return
	}
	same := p.assigned && p.has.Action == a.Action && p.has.Max == a.Max && p.has.PerFill == a.PerFill // as Envoy compares
	if a.Action == share.Bucket && !same {
		p.bucket = newBucket(p.w.now, float64(a.Max), float64(a.PerFill)/math.Trunc(a.Fill.Seconds()))
	}
	p.has, p.assigned, p.expires = a, true, p.w.now.Add(a.TTL.Truncate(time.Second))
}

func poisson(rng *rand.Rand, mean float64) int {
	if mean > 30 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*rng.NormFloat64())))
	}
	n, p := 0, math.Exp(-mean)
	for s, u := p, rng.Float64(); u > s && n < 200; {
		n++
		p *= mean / float64(n)
		s += p
	}
	return n
}
