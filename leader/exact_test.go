package leader

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// TestExact compares a hard limit with one central bucket that charges every admission when it
// happens: neither the tokens that members hold, nor these plus the free pool, which may be in debt,
// ever exceed the level of that bucket. Reports and answers are lost, members are silent for
// seconds, keys are reset, or callers give tokens back, and leaders die with the record of what they
// answered since the last line of the log.
func TestExact(t *testing.T) {
	for seed := range uint64(600) {
		playExact(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// exactGame is a random test of one key.
type exactGame struct {
	t       *testing.T
	rng     *rand.Rand
	limits  *quota.Limits
	limit   *quota.Limit
	l       *Ledger
	now     quota.Time
	central limiter.Bucket
	members [3]exactMember
	log     []quota.KeyLevel // lines that the next leader reads
	written []exactLine      // checkpoints that are not committed yet
	names   quota.Seq
	resets  bool          // keys are reset; otherwise callers give tokens back
	parts   int64         // parts of the burst; a decide request costs at most one
	pace    time.Duration // the longest time between two steps
	odds    [6]int        // cumulative odds of each kind of step
}

type exactLine struct {
	seq   quota.Seq
	lines []quota.KeyLevel
}

type exactMember struct {
	fakeKey
	id        quota.NodeID
	seq       quota.Seq
	told      quota.Term  // term of the leader that has the full report
	abandoned []quota.Seq // decide requests whose answers were lost
	asleep    quota.Time  // until then it neither receives nor reports
}

func newExact(t *testing.T, l *quota.Limit) *exactGame {
	l.LimitName, l.Ceiling = examKey.LimitName, quota.Hard
	limits, err := quota.NewLimits(1, []quota.Limit{*l})
	if err != nil {
		t.Fatal(err)
	}
	g := &exactGame{t: t, limits: limits, limit: l, now: start, central: limiter.NewBucket(l.BurstUnits(), start)}
	for i := range g.members {
		g.members[i] = exactMember{id: quota.NodeID(string(rune('a' + i))), fakeKey: fakeKey{epoch: 1, from: start}}
	}
	g.lead(1)
	return g
}

func playExact(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	pick := func(of ...int64) int64 { return of[rng.IntN(len(of))] }
	g := newExact(t, &quota.Limit{
		Burst: pick(20, 100, 400), Rate: quota.Rate{Tokens: pick(10, 100, 300), Per: time.Second},
		Decide: quota.Decide(pick(int64(quota.DecideDefault), int64(quota.DecideDefault), int64(quota.Locally), int64(quota.AtLeader))),
	})
	g.rng, g.pace, g.parts = rng, time.Duration(pick(10, 30, 200))*time.Millisecond, pick(2, 10, 20)
	g.resets = g.chance(2)
	for i, most := range [...]int{30, 60, 30, 30, 6, 3} {
		g.odds[i] = 1 + rng.IntN(most)
		if i > 0 {
			g.odds[i] += g.odds[i-1]
		}
	}
	for range 400 {
		if g.step(); t.Failed() {
			return
		}
	}
}

// chance is one in n; never in a game without random numbers.
func (g *exactGame) chance(n int) bool { return g.rng != nil && g.rng.IntN(n) == 0 }

func (g *exactGame) lead(term quota.Term) {
	nodes := []quota.NodeID{"a", "b", "c"}
	g.l, g.written = New(Config{}, 0, term, "a", nodes, g.limits, LinesOf(g.log), g.now), nil
}

// step performs one random event.
func (g *exactGame) step() {
	m := &g.members[g.rng.IntN(len(g.members))]
	packAll(g.t, g.l)
	g.pass(time.Duration(g.rng.Int64N(int64(g.pace))))
	n := g.rng.IntN(g.odds[len(g.odds)-1])
	switch i, _ := slices.BinarySearch(g.odds[:], n+1); i {
	case 0:
		u := m.held
		if g.chance(2) {
			u = quota.Units(g.rng.Int64N(int64(u) + 1))
		}
		if g.use(m, u.Tokens()); g.chance(3) {
			m.refused += quota.FromTokens(g.rng.Int64N(20))
		}
	case 1:
		if g.now >= m.asleep {
			g.report(m, max(0, g.rng.Int64N(g.limit.Burst)-g.limit.Burst/2), g.chance(8))
		}
	case 2:
		g.ask(m, 1+g.rng.Int64N(g.limit.Burst/g.parts), g.chance(4))
	case 3:
		g.checkpoint()
	case 4:
		m.asleep = g.now.Add(time.Duration(g.rng.IntN(3000)) * time.Millisecond)
	case 5:
		for len(g.written) > 0 && g.chance(2) {
			g.commit()
		}
		g.lead(g.l.Term() + 1)
	}
	if !g.resets && g.chance(20) {
		g.refund(m, g.rng.Int64N(g.limit.Burst/4))
	}
	if g.resets && g.chance(60) && g.l.bucket(examKey) != nil {
		g.l.Reset(g.now, examKey)
		g.central.Refill(g.now, g.limit.Rate, g.limit.BurstUnits())
		g.central.Add(g.limit.BurstUnits() - g.central.Level())
	}
	g.check()
}

func (g *exactGame) pass(d time.Duration) {
	g.now = g.now.Add(d)
	for i := range g.members {
		g.members[i].accrue(g.now)
	}
}

// admit charges the central bucket.
func (g *exactGame) admit(u quota.Units) {
	g.central.Refill(g.now, g.limit.Rate, g.limit.BurstUnits())
	g.central.Add(-u)
	g.central.Cap(g.limit.BurstUnits())
	if g.central.Level() < -exactRounding {
		g.t.Errorf("%s tokens are admitted that are not there", show(-g.central.Level()))
	}
}

const exactRounding = quota.Token / 100

// use makes a member admit some of its tokens.
func (g *exactGame) use(m *exactMember, n int64) {
	u := quota.FromTokens(n)
	m.held, m.used = m.held-u, m.used+u
	g.admit(u)
}

// refund makes callers of a member give tokens back, as far as the bucket has room for them.
func (g *exactGame) refund(m *exactMember, n int64) {
	g.central.Refill(g.now, g.limit.Rate, g.limit.BurstUnits())
	u := min(quota.FromTokens(n), m.used-m.refunded, g.limit.BurstUnits()-g.central.Level())
	m.refunded += u
	g.central.Add(u)
}

// report makes a member report to the leader. The answer may be lost.
func (g *exactGame) report(m *exactMember, want int64, lost bool) {
	e := m.entry(g.l.Term())
	e.Refunded = m.refunded
	e.Key, e.Want, e.Cancelled, e.Stopped = examKey, quota.FromTokens(want), m.abandoned, e.Applied > 0 && m.grant.Rate == 0
	if e.Learn != nil {
		e.Learn.Age = g.now.Sub(m.at)
	}
	m.seq++
	r := quota.Report{Term: g.l.Term(), From: m.id, Incarnation: 1, Seq: m.seq, Full: m.told < g.l.Term(), Parts: 1, Age: time.Hour, Entries: []quota.ReportEntry{e}}
	answer, err := g.l.Report(g.now, r)
	if err != nil {
		g.t.Fatal(err)
	}
	pushed := g.l.Pushed()
	if len(answer.Entries) == 1 && !lost {
		m.apply(answer.Entries[0], answer, &e)
		m.told, m.abandoned = g.l.Term(), nil
	}
	g.deliver(pushed)
}

// deliver delivers grants that answer no report.
func (g *exactGame) deliver(grants []quota.Grant) {
	for _, p := range grants {
		m := &g.members[p.To[0]-'a']
		if e := p.Entries[0]; !e.Recall && !e.Announced && g.now >= m.asleep && !g.chance(8) {
			m.apply(e, p, nil)
		}
	}
}

// ask makes a member ask the leader, again if the answer waits for the log. The answer may be lost.
func (g *exactGame) ask(m *exactMember, cost int64, lost bool) {
	if !g.limit.MayAsk() || g.now < m.asleep || len(m.abandoned) == quota.MaxCancelled {
		return
	}
	g.names++
	q := quota.Ask{From: m.id, Incarnation: 1, ID: g.names, Key: examKey, Cost: quota.FromTokens(cost)}
	a := g.l.Ask(g.now, []quota.Ask{q})[0]
	if a.Unsaved {
		g.checkpoint()
		a = g.l.Ask(g.now, []quota.Ask{q})[0]
	}
	switch {
	case lost:
		m.abandoned = append(m.abandoned, q.ID)
	case a.Allowed:
		g.admit(q.Cost)
	}
}

// checkpoint writes a checkpoint; the log may commit those written so far.
func (g *exactGame) checkpoint() {
	if lines := g.l.Checkpoint(g.now, 10); len(lines) > 0 {
		g.written = append(g.written, exactLine{g.l.Written(), lines})
	}
	if g.chance(4) {
		return
	}
	for len(g.written) > 0 {
		g.deliver(g.l.Saved(g.now, g.commit()))
	}
}

func (g *exactGame) commit() quota.Seq {
	w := g.written[0]
	g.written = g.written[1:]
	for i := range w.lines {
		w.lines[i].Applied = g.now
	}
	g.log = w.lines
	return w.seq
}

// free is the free pool.
func (g *exactGame) free() quota.Units {
	b := g.l.bucket(examKey)
	b.advance(g.now)
	return b.pool.Level()
}

// all is the free pool plus the tokens that members hold.
func (g *exactGame) all() quota.Units {
	sum := g.free()
	for i := range g.members {
		sum += g.members[i].held
	}
	return sum
}

// overRefund makes callers of a member give back tokens of which the bucket has room only for a part. The member does not
// know that, because others gave tokens back since its last report.
func (g *exactGame) overRefund(m *exactMember, n int64) {
	m.refunded += quota.FromTokens(n)
	g.central.Refill(g.now, g.limit.Rate, g.limit.BurstUnits())
	g.central.Add(quota.FromTokens(n))
	g.central.Cap(g.limit.BurstUnits())
}

// check compares the ledger with the central bucket.
func (g *exactGame) check() {
	g.t.Helper()
	if g.l.bucket(examKey) == nil {
		return
	}
	g.central.Refill(g.now, g.limit.Rate, g.limit.BurstUnits())
	if all := g.all(); all > g.central.Level()+exactRounding {
		g.t.Errorf("%s tokens are free, and %s in all with what members hold; the central bucket has %s", show(g.free()), show(all), show(g.central.Level()))
	}
	if held := g.all() - g.free(); held > g.central.Level()+exactRounding {
		g.t.Errorf("members hold %s tokens; the central bucket has %s", show(held), show(g.central.Level()))
	}
}

// busy makes members use all their tokens for a second, and ask for more, until they have the whole
// rate.
func (g *exactGame) busy(members ...*exactMember) {
	for range 10 {
		g.spend(members...)
		for i := range g.members {
			g.report(&g.members[i], 0, false)
		}
		g.checkpoint()
	}
	var sum quota.Units
	for _, m := range members {
		sum += m.grant.Rate
	}
	if sum != g.limit.Rate.PerSecond() || g.free() >= exactRounding {
		g.t.Fatalf("%s free, and a rate of %s/s: want nothing, and all of the rate", show(g.free()), show(sum))
	}
}

// spend makes members use all their tokens for 100 ms, and ask for more.
func (g *exactGame) spend(members ...*exactMember) {
	g.pass(100 * time.Millisecond)
	for _, m := range members {
		g.use(m, m.held.Tokens())
		m.refused += 10 * quota.Token
	}
}

// TestRefundsTogether: callers of two members give back more than the bucket has room for, and all that is there then is
// used before the second member reports. The leader must not add the refund of the second, which was lost.
func TestRefundsTogether(t *testing.T) {
	g := newExact(t, &quota.Limit{Burst: 20, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Decide: quota.Locally})
	a, b := &g.members[0], &g.members[1]
	use := func(want, least int64, members ...*exactMember) {
		for _, m := range members {
			g.report(m, want, false)
		}
		g.checkpoint()
		for _, m := range members {
			if m.held < quota.FromTokens(least) {
				t.Fatalf("%s holds %s, want %d", m.id, show(m.held), least)
			}
			g.use(m, m.held.Tokens())
		}
		g.check()
	}
	use(9, 6, a, b)
	g.report(a, 0, false)
	g.report(b, 0, false)
	g.pass(9 * time.Second)
	g.report(a, 0, false)
	g.report(b, 0, false)
	g.pass(200 * time.Millisecond)
	g.overRefund(a, a.used.Tokens())
	g.overRefund(b, b.used.Tokens())
	use(20, 10, a)
	g.report(a, 0, false)
	g.report(b, 0, false)
	g.check()
}

// TestCancelledBesideRates: the yield of a rate beyond its member's cap may still return, so it
// fills the bucket as well. Refill that would not have fitted is not returned for an answer that
// was lost, and nothing is taken for it.
func TestCancelledBesideRates(t *testing.T) {
	g := newExact(t, &quota.Limit{Burst: 100, Rate: quota.Rate{Tokens: 100, Per: time.Second}})
	a, b := &g.members[0], &g.members[1]
	g.busy(a)
	g.pass(1500 * time.Millisecond) // no use: the bucket is full
	g.ask(b, -50, false)
	g.ask(b, 10, true)
	g.pass(200 * time.Millisecond) // the ten would have refilled
	g.ask(b, 15, false)
	g.report(b, 0, false)
	g.check()
	if got := g.free() + b.held; got != 25*quota.Token {
		t.Errorf("%s free or at b; want 25, of 50", show(got))
	}
	g.report(a, 0, false)
	g.check()
	if got := g.all(); got != 85*quota.Token {
		t.Errorf("%s in all; want 85, of 100", show(got))
	}
}

// TestAnswersEndBesideRates: when the promise that a leader made to itself has ended, the next one
// frees what the first cannot have admitted, because the bucket did not contain it. Tokens that may
// return from members were part of the bucket, also those beyond what members can hold.
func TestAnswersEndBesideRates(t *testing.T) {
	g := newExact(t, &quota.Limit{Burst: 400, Rate: quota.Rate{Tokens: 100, Per: time.Second}})
	a, b, c := &g.members[0], &g.members[1], &g.members[2]
	g.busy(a, b)
	g.ask(c, -40, false)
	g.ask(c, 20, false) // with the next one, all that is promised
	g.ask(c, 20, false)
	g.lead(2)
	g.report(c, 0, false)
	for range 14 { // a and b do not report
		g.spend(a, b)
		g.check()
	}
	if g.l.bucket(examKey).earlier() != 0 {
		t.Fatal("the promise has not ended")
	}
	for range 2 {
		for i := range g.members {
			g.report(&g.members[i], 0, false)
			g.check()
		}
	}
	if got := g.all(); got < g.central.Level()-exactRounding {
		t.Errorf("%s in all; want all that the central bucket has, %s", show(got), show(g.central.Level()))
	}
}

// TestCapBoundsTokens: a member gets no tokens for which another could accrue the room: when it has,
// both would hold more than the burst.
func TestCapBoundsTokens(t *testing.T) {
	g := newExact(t, &quota.Limit{Burst: 100, Rate: quota.Rate{Tokens: 100, Per: time.Second}})
	a, b := &g.members[0], &g.members[1]
	g.busy(a)
	g.ask(b, -100, false)
	g.report(b, 100, false)
	g.checkpoint() // what the log promises bounds b too
	g.report(b, 100, false)
	if b.held < 80*quota.Token {
		t.Fatalf("b holds %s; want nearly all", show(b.held))
	}
	g.pass(200 * time.Millisecond) // a accrues up to its cap
	g.check()
}

// TestResetOfHeld: tokens that a member holds when a key is reset count when they are used.
func TestResetOfHeld(t *testing.T) {
	g := newExact(t, &quota.Limit{Burst: 100, Rate: quota.Rate{Tokens: 100, Per: time.Second}})
	a := &g.members[0]
	g.report(a, 20, false)
	g.use(a, 10)
	g.l.Reset(g.now, examKey)
	g.central.Add(10 * quota.Token)
	g.check()
	g.use(a, a.held.Tokens())
	g.report(a, 0, true)
	g.check()
}
