package clientledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// world is one leader, one node and its clients, connected without a network.
type world struct {
	t      testing.TB
	now    quota.Time
	limits *quota.Limits
	ledger *leader.Ledger
	node   *aggregator.Aggregator
	b      *Ledger
	procs  []*proc

	committed quota.Time
}

// proc is a client process.
type proc struct {
	id   quota.NodeID
	agg  *aggregator.Aggregator
	term quota.Term
	sum  int64 // tokens admitted
}

const start = quota.Time(1_000_000_000_000_000_000)

func newWorld(t testing.TB, l quota.Limit, clients int) *world {
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, now: start, limits: limits}
	w.ledger = leader.New(leader.Config{}, 0, 1, "l", []quota.NodeID{"l", "n"}, limits, nil, w.now)
	w.node = aggregator.New(aggregator.Config{Self: "n", Incarnation: 1, Nodes: 2, Ranges: 1}, w.now)
	w.node.SetLimits(w.now, limits)
	w.node.SetLeader(0, "l", 1)
	w.b = New(Config{Self: "n"}, w.node)
	for i := range clients {
		p := &proc{id: quota.NodeID(fmt.Sprintf("c%d", i))}
		p.agg = aggregator.New(aggregator.Config{Self: p.id, Incarnation: 1, Nodes: 1000, Ranges: 1}, w.now)
		p.agg.SetLimits(w.now, limits)
		w.procs = append(w.procs, p)
		w.attach(p)
	}
	return w
}

func (w *world) attach(p *proc) {
	p.term++
	if err := w.b.Attach(w.now, p.id, "", 1, p.term); err != nil {
		w.t.Fatal(err)
	}
	p.agg.SetLeader(0, "n", p.term)
}

// pump delivers all pending messages.
func (w *world) pump() {
	for range 4 {
		for _, p := range w.procs {
			for _, r := range p.agg.Collect(w.now) {
				if g, err := w.b.Report(w.now, &r); err == nil {
					p.agg.Apply(w.now, g)
				}
			}
		}
		for _, r := range w.node.Collect(w.now) {
			if g, err := w.ledger.Report(w.now, r); err == nil {
				w.node.Apply(w.now, g)
			}
		}
		for _, g := range w.ledger.Pushed() {
			w.node.Apply(w.now, g)
		}
		w.commit()
		for _, g := range w.b.Push(w.now) {
			for _, p := range w.procs {
				if p.id == g.To {
					p.agg.Apply(w.now, g)
				}
			}
		}
	}
	w.prove()
}

// commit commits the leader's checkpoints.
func (w *world) commit() {
	if w.ledger.Wants() || w.now.Sub(w.committed) >= time.Second {
		w.committed = w.now
		w.ledger.Checkpoint(w.now, 1<<20)
		for _, g := range w.ledger.Saved(w.now, w.ledger.Written()) {
			w.node.Apply(w.now, g)
		}
	}
}

// prove checks the invariants of the client ledger.
func (w *world) prove() {
	w.t.Helper()
	if err := w.b.Check(w.now); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) clock() quota.Time { return w.now }

// try decides one request, or returns what the decision needs.
func (w *world) try(a *aggregator.Aggregator, l quota.LimitName, key string, cost int64) (quota.Decision, aggregator.Need) {
	return w.decide(a, l, key, cost, false)
}

// check decides one request, with neither a grant nor a leader.
func (w *world) check(a *aggregator.Aggregator, l quota.LimitName, key string, cost int64) quota.Decision {
	d, _ := w.decide(a, l, key, cost, true)
	return d
}

func (w *world) decide(a *aggregator.Aggregator, l quota.LimitName, key string, cost int64, final bool) (quota.Decision, aggregator.Need) {
	var c aggregator.Call
	c.Reset([]quota.Request{{Key: quota.Key{LimitName: l, Key: key}, Cost: cost, MaxWait: quota.LimitsWait}}, make([]quota.Decision, 1))
	c.Final, c.Alone = final, final
	a.Decide(w.clock, &c)
	return c.Out[0], c.Need
}

func (w *world) ask(p *proc, l quota.LimitName, key string, cost int64) bool {
	d, need := w.try(p.agg, l, key, cost)
	for range 4 {
		if need == aggregator.Nothing {
			break
		}
		w.pump()
		d, need = w.try(p.agg, l, key, cost)
	}
	if need != aggregator.Nothing {
		d = w.check(p.agg, l, key, cost)
	}
	if d.Allowed {
		p.sum += cost
	}
	return d.Allowed
}

func (w *world) run(d, step time.Duration) {
	for end := w.now.Add(d); w.now < end; {
		w.now = w.now.Add(step)
		w.pump()
		w.b.Sweep(w.now)
	}
}

func bucketLimit(c quota.Ceiling, rate, burst int64) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: "web", Limit: "l"},
		Rate:      quota.Rate{Tokens: rate, Per: time.Second}, Burst: burst, Ceiling: c,
	}
}

// TestFirstChecks: the node asks its leader for the first tokens of a key at once when a caller
// waits, not in its next report.
func TestFirstChecks(t *testing.T) {
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		l := bucketLimit(c, 5, 5)
		w := newWorld(t, l, 2)
		for _, p := range w.procs {
			p.agg.SetPeers(len(w.procs))
		}
		w.run(time.Second, 10*time.Millisecond)
		for i := range 20 {
			p, key := w.procs[i%2], fmt.Sprint("new", i)
			first := aggregator.Grant // soft waits
			if c == quota.Hard {
				first = aggregator.Leader
			}
			_, need := w.try(p.agg, l.LimitName, key, 1)
			for range 2 { // to the node and its leader, and back
				w.now = w.now.Add(time.Millisecond)
				w.pump()
			}
			d, need2 := w.try(p.agg, l.LimitName, key, 1)
			if need != first || need2 != aggregator.Nothing || !d.Allowed || d.Why != quota.WhyHeld {
				t.Fatalf("%v, key %d: needs %v, and after 2 ms %v: %+v; want held tokens then", c, i, need, need2, d)
			}
		}
	}
}

// TestHeldIsLevel: a client requests tokens of a hard limit that its node holds, although the
// leader takes the limit to be used up because others may have used it.
func TestHeldIsLevel(t *testing.T) {
	for _, c := range []struct {
		ceiling     quota.Ceiling
		level, want quota.Units
	}{
		{quota.Hard, -500 * quota.Token, 40 * quota.Token},
		{quota.Hard, 70 * quota.Token, 70 * quota.Token},
		{quota.Soft, -500 * quota.Token, -500 * quota.Token},
	} {
		l := bucketLimit(c.ceiling, 100, 100)
		w := newWorld(t, l, 0)
		al := &allocation{bucket: &bucket{key: quota.Key{LimitName: l.LimitName, Key: "k"}, limit: &l}}
		if g := w.b.grantState(al, &aggregator.Allocation{Limit: &l, Held: 40 * quota.Token, Level: c.level, NoneFree: true}); g.Level != c.want {
			t.Errorf("%v at %v: a client receives level %v; want %v", c.ceiling, c.level, g.Level, c.want)
		}
	}
}

func TestClientsShareOneBucket(t *testing.T) {
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		l := bucketLimit(c, 100, 100)
		w := newWorld(t, l, 10)
		for i := range 10_000 { // ten seconds at 1000/s
			w.now = w.now.Add(time.Millisecond)
			w.pump()
			w.ask(w.procs[i%len(w.procs)], l.LimitName, "k", 1)
		}
		var sum int64
		for _, p := range w.procs {
			sum += p.sum
			if p.sum < 55 || p.sum > 220 { // half and twice an equal share
				t.Errorf("%v: %s got %d of 1100 tokens among ten", c, p.id, p.sum)
			}
		}
		if most := int64(1100); c == quota.Hard && sum > most || sum > most+30 || sum < 1000 {
			t.Errorf("%v: %d admitted of %d", c, sum, most)
		}
		w.run(6*time.Second, 50*time.Millisecond)
		if lent := w.node.Allocated(quota.Key{LimitName: l.LimitName, Key: "k"}); lent != 0 {
			t.Errorf("%v: %d are lent although nobody asks", c, lent)
		}
		if got := w.ledger.Booked(l.LimitName).Tokens(); got != sum {
			t.Errorf("%v: clients admitted %d, the leader has %d in its books", c, sum, got)
		}
	}
}
