package rules

import (
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

const (
	start  = quota.Time(1_000_000_000_000)
	tokens = quota.Token
)

// oneRange connects some members with the real ledger of their range. Messages arrive at once,
// except while the connection is cut.
type oneRange struct {
	t       *testing.T
	now     quota.Time
	members []*aggregator.Aggregator
	ledger  *leader.Ledger
	set     *quota.Limits
	over    overrides
	term    quota.Term
	version uint64
	cut     bool                   // nothing arrives, and the leader cannot be asked
	silent  *aggregator.Aggregator // messages of this member are lost
	logged  map[quota.Key]quota.KeyLevel
	asked   int // questions to the leader
	wrote   quota.Time
}

// overrides is the simplest store of overrides.
type overrides map[quota.Key]*quota.Override

func (o overrides) Override(k quota.Key) *quota.Override { return o[k] }

// newOneRange returns n members that serve the limits.
func newOneRange(t *testing.T, n int, limits ...quota.Limit) *oneRange {
	t.Helper()
	g := &oneRange{t: t, now: start, over: overrides{}, logged: map[quota.Key]quota.KeyLevel{}}
	for i := range n {
		g.members = append(g.members, aggregator.New(aggregator.Config{
			Self: quota.NodeID("m" + strconv.Itoa(i)), Incarnation: 1, Nodes: n, Ranges: 1, Overrides: g.over,
		}, g.now))
	}
	g.limits(limits...)
	g.elect(nil)
	return g
}

// elect begins a new term, with the levels of a checkpoint.
func (g *oneRange) elect(levels []quota.KeyLevel) {
	g.term++
	ids := make([]quota.NodeID, len(g.members))
	for i := range g.members {
		ids[i] = quota.NodeID("m" + strconv.Itoa(i))
	}
	g.ledger = leader.New(leader.Config{Overrides: g.over}, 0, g.term, "m0", ids, g.set, leader.LinesOf(levels), g.now)
	for _, m := range g.members {
		m.SetLeader(0, "m0", g.term)
	}
	g.sync()
}

func (g *oneRange) limits(list ...quota.Limit) {
	g.t.Helper()
	g.version++
	set, err := quota.NewLimits(g.version, list)
	if err != nil {
		g.t.Fatal(err)
	}
	g.set = set
	if g.ledger != nil {
		g.ledger.SetLimits(g.now, set)
	}
	for _, m := range g.members {
		m.SetLimits(g.now, set)
	}
}

// override sets the override of a key, or deletes it if o is nil.
func (g *oneRange) override(k quota.Key, o *quota.Override) {
	if o == nil {
		delete(g.over, k)
	} else {
		o.Key = k
		g.over[k] = o
	}
	g.ledger.Overridden(g.now, []quota.Key{k})
	for _, m := range g.members {
		m.Overridden(g.now, []quota.Key{k})
	}
}

func (g *oneRange) clock() quota.Time { return g.now }

// sync delivers all due reports and their answers.
func (g *oneRange) sync() {
	for _, m := range g.members {
		for _, r := range m.Collect(g.now) {
			if g.cut || m == g.silent {
				continue
			}
			if grant, err := g.ledger.Report(g.now, r); err == nil {
				m.Apply(g.now, grant)
			}
		}
	}
	for _, grant := range g.ledger.Pushed() {
		g.deliver(grant)
	}
	if (g.ledger.Wants() || g.now >= g.wrote.Add(time.Second)) && !g.cut {
		g.write()
	}
}

func (g *oneRange) deliver(grant quota.Grant) {
	for i, m := range g.members {
		if grant.To == quota.NodeID("m"+strconv.Itoa(i)) {
			m.Apply(g.now, grant)
		}
	}
}

// write commits a checkpoint to the log.
func (g *oneRange) write() {
	g.wrote = g.now
	for _, kl := range g.ledger.Checkpoint(g.now, 1000) {
		g.logged[kl.Key] = kl
	}
	for _, grant := range g.ledger.Saved(g.now, g.ledger.Written()) {
		for i, m := range g.members {
			if grant.To == quota.NodeID("m"+strconv.Itoa(i)) {
				m.Apply(g.now, grant)
			}
		}
	}
}

// pass advances time in steps of at most 10 ms.
func (g *oneRange) pass(d time.Duration) {
	for end := g.now.Add(d); g.now < end; {
		g.now = min(end, g.now.Add(10*time.Millisecond))
		g.sync()
	}
}

// settle passes enough time for everything to be reported: a calm member reports once a second.
func (g *oneRange) settle() { g.pass(1200 * time.Millisecond) }

// level returns what the cluster could still spend, according to the leader.
func (g *oneRange) level(k quota.Key) quota.Units {
	return g.ask(quota.Ask{Key: k}).Level
}

// ask asks the leader, whose answer may wait for the log to commit.
func (g *oneRange) ask(q quota.Ask) quota.Answer {
	a := g.ledger.Ask(g.now, []quota.Ask{q})[0]
	if a.Unsaved {
		g.write()
		a = g.ledger.Ask(g.now, []quota.Ask{q})[0]
	}
	return a
}

// call decides a call on a member as a node does: it waits a moment for grants and then asks the
// leader.
func (g *oneRange) call(m int, acquires bool, reqs ...quota.Request) (bool, []quota.Decision) {
	g.t.Helper()
	c := aggregator.Call{}
	out := make([]quota.Decision, len(reqs))
	c.Reset(reqs, out)
	c.Acquires = acquires
	return g.decide(m, &c), out
}

// checkNow decides a check on a member without waiting and without asking the leader.
func (g *oneRange) checkNow(m int, k quota.Key, cost int64) quota.Decision {
	return checkNow(g.members[m], g.clock, k, cost)
}

func checkNow(a *aggregator.Aggregator, clock aggregator.Clock, k quota.Key, cost int64) quota.Decision {
	var c aggregator.Call
	c.Reset([]quota.Request{ask(k.LimitName, k.Key, cost)}, make([]quota.Decision, 1))
	c.Final, c.Alone = true, true
	a.Decide(clock, &c)
	return c.Out[0]
}

func (g *oneRange) decide(m int, c *aggregator.Call) bool {
	g.t.Helper()
	for round := 0; ; round++ {
		ok := g.members[m].Decide(g.clock, c)
		switch {
		case c.Need == aggregator.Nothing:
			return ok
		case round > 50:
			g.t.Fatalf("a call never ends: needs %d of %v", c.Need, c.Key)
		case c.Need == aggregator.Leader && g.cut:
			c.Alone = true
		case c.Need == aggregator.Leader:
			g.asked++
			c.Answer(g.ask(c.Ask))
		case round >= 3:
			c.Final = true
		default:
			g.now = g.now.Add(5 * time.Millisecond)
			g.sync()
		}
	}
}

func ask(l quota.LimitName, key string, cost int64) quota.Request {
	return quota.Request{Key: quota.Key{LimitName: l, Key: key}, Cost: cost, MaxWait: quota.LimitsWait}
}

// take requests tokens of one key from a member.
func (g *oneRange) take(m int, k quota.Key, cost int64) quota.Decision {
	g.t.Helper()
	_, out := g.call(m, true, ask(k.LimitName, k.Key, cost))
	return out[0]
}

// drain takes single tokens, at most n, until one is refused, and returns how many passed.
func (g *oneRange) drain(m int, k quota.Key, n int) (passed int) {
	g.t.Helper()
	for range n {
		if !g.take(m, k, 1).Allowed {
			return passed
		}
		passed++
	}
	return passed
}

// ruleOf returns a limit n/l with one tier.
func ruleOf(name string, tier quota.Tier, set ...func(*quota.Limit)) quota.Limit {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "n", Limit: name}}
	l.SetFirst(tier)
	for _, f := range set {
		f(&l)
	}
	return l
}

// perHour is a bucket that refills next to nothing during a test.
func perHour(burst int64) quota.Tier {
	return quota.Tier{Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: burst}
}

func hard(l *quota.Limit)     { l.Ceiling = quota.Hard }
func atLeader(l *quota.Limit) { l.Decide = quota.AtLeader }

func child(parent string) func(*quota.Limit) {
	return func(l *quota.Limit) { l.Parent = parent }
}

func waiting(wait, debt time.Duration) func(*quota.Limit) {
	return func(l *quota.Limit) { l.MaxWait, l.MaxDebt = wait, debt }
}

func key(name, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: name}, Key: k}
}

// eachSlow runs a test for each limit of slow except the parent.
func eachSlow(t *testing.T, members int, test func(t *testing.T, g *oneRange, l quota.Limit, k quota.Key)) {
	for _, l := range slow() {
		if l.LimitName.Limit == "parent" {
			continue
		}
		t.Run(l.LimitName.Limit, func(t *testing.T) {
			test(t, newOneRange(t, members, slow()...), l, quota.Key{LimitName: l.LimitName, Key: "k"})
		})
	}
}

// slow returns limits of all kinds that admit 10 at once and nothing more while a test runs.
func slow() []quota.Limit {
	return []quota.Limit{
		ruleOf("bucket", perHour(10)),
		ruleOf("hard", perHour(10), hard),
		ruleOf("waits", perHour(10), waiting(time.Second, time.Second)),
		ruleOf("precious", perHour(10), atLeader),
		ruleOf("precious-hard", perHour(10), atLeader, hard),
		ruleOf("precious-day", quota.Window(quota.FixedWindow, 10, 24*time.Hour), atLeader),
		ruleOf("fixed", quota.Window(quota.FixedWindow, 10, 24*time.Hour)),
		ruleOf("sliding", quota.Window(quota.SlidingWindow, 10, 24*time.Hour)),
		ruleOf("periodic", quota.Window(quota.PeriodicRefill, 10, 24*time.Hour)),
		ruleOf("calendar", quota.Per(10, quota.Calendar{Unit: quota.Year})),
		ruleOf("tiers", perHour(10), func(l *quota.Limit) {
			l.More = []quota.Tier{perHour(20), quota.Window(quota.FixedWindow, 30, 24*time.Hour)}
		}),
		ruleOf("flight", quota.Tier{Kind: quota.Concurrency, Burst: 10}),
		ruleOf("max-cost", perHour(10), func(l *quota.Limit) { l.MaxCost = 5 }),
		ruleOf("shadow", perHour(10), func(l *quota.Limit) { l.Enforcement = quota.Shadow }),
		ruleOf("parent", perHour(100)),
		ruleOf("child", perHour(10), child("parent")),
		ruleOf("floored", perHour(10), child("parent"), func(l *quota.Limit) {
			l.Floor, l.FloorBurst = quota.Rate{Tokens: 1, Per: time.Hour}, 3
		}),
	}
}
