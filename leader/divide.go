package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// The constants of the division. Each was chosen by the accuracy tests in
// internal/sim; docs/ARCHITECTURE.md has the figures.
const (
	// grantIntervals is how many intervals of demand a member is granted: more than one, so that a late
	// report does not starve it.
	grantIntervals = 1.5
	// debtRepayTime is the time within which debt is paid back.
	debtRepayTime = 500 * time.Millisecond
	// surplusPart is the part of the pool beyond all expected demand that is granted under hard, where
	// members cannot overdraw for a surge.
	surplusPart = 0.7
)

// terms are the inputs of one division, in Units. They are floats because they are estimates, and
// none of them is replicated.
type terms struct {
	rate, burst float64     // gain of the level per second; burst of the limit
	avail       float64     // to be divided, per second
	total       float64     // demand of all members
	mine        float64     // of this member
	fair        float64     // max-min fair part of the rate for this member
	parts       float64     // sum of all fair parts
	weight      float64     // fair / parts: this member's part of a surplus
	members     int         // members with demand
	least       float64     // least useful amount: one request
	margin      float64     // size of one event, for the deviation of counts
	returned    quota.Units // by the member, with this report
	scattered   bool        // the member's part of the burst is less than half a batch
}

// grant answers one entry of a report. asks is false for a member that counted nothing: it gets
// none of the tokens back that it returned. The bucket has been advanced; others are the tokens
// outstanding at the other members.
func (l *Ledger) grant(now quota.Time, b *bucket, al *allocation, e *quota.ReportEntry, d *delta, ack quota.Seq, asks bool, others quota.Units, g *quota.GrantEntry) {
	again := l.cfg.Sync
	var tokens, short quota.Units
	lease := now.Add(l.cfg.Lease)
	if l.mayGrant(now, b) {
		capped := al.capped
		t := l.weigh(now, b, al)
		t.returned = max(0, d.back)
		l.bookDeficit(now, b, al, d.used+d.over, t.parts)
		again = l.cfg.Sync * time.Duration(fairshare.Quiet(t.total, t.avail, t.burst, l.cfg.Sync))
		switch b.central = l.scarce(b, t); {
		case b.central:
			al.rate = 0
			al.setUnmet(0, 0)
			again = max(again, centralEvery*l.cfg.Sync) // decide requests show the demand
			l.recallAll(now, b, al)
		case l.setRate(b, al, t):
			l.recall(now, b, al, ofRate)
		}
		if asks && !b.central {
			if tokens, short = l.tokens(now, b, al, e, t, again); short > 0 && b.limit.Ceiling == quota.Hard {
				l.recall(now, b, al, shortOf(e.Want))
			}
			al.setUnmet(min(short, max(0, e.Want-tokens)), now)
		}
		l.setCap(b, al, t, tokens)
		if b.promises() {
			tokens, lease = l.limitToPromise(now, b, al, tokens, capped)
		}
	}
	al.within = uint8(again / l.cfg.Sync)
	if r := al.editRare(min(tokens, e.Want) != 0); r != nil {
		r.awaited = min(tokens, e.Want)
	}
	l.deliver(now, b, al, tokens, lease)
	l.grantAt(now, b, al, tokens, b.levelWith(others.Plus(al.standing())), g)
	g.Ack = ack
	if short > 0 && b.limit.Ceiling == quota.Soft {
		g.Free = max(0, g.Free-l.reservedBefore(now, b, al))
	}
	g.Free = g.Free.Plus(l.recallPresumed(now, b, al, g))
	l.pushReturned(now, b, al)
}

// scarce reports whether there are too few tokens to divide among the members that use the key. Then, if the
// limit allows a hop, no tokens are granted and the leader decides, since tokens held by one member would
// be missing at another. Tokens are few if half of an equal part of the burst is less than two requests
// or eight tokens. Under soft, where members overdraw, one request or eight tokens are enough, unless the
// limit is contended and its rate refills the burst within an interval, faster than reports can follow.
// To end this, the part must be half as much again, so that no key alternates.
func (l *Ledger) scarce(b *bucket, t terms) bool {
	switch {
	case !b.limit.MayAsk() || b.limit.AsksLeader():
		return false
	case b.tier.Kind == quota.SlidingWindow: // its returning tokens are either divided or decided, not both
		return true
	}
	members := 0
	for i := range b.allocations {
		if al := &b.allocations[i]; !al.dead && (!al.closed || b.central) {
			members++
		}
	}
	more := 1.0
	if b.central {
		more = 1.5
	}
	least := b.smallAmount()
	if fast := t.burst < t.rate*l.cfg.Sync.Seconds() && t.total*more > t.avail/2; b.limit.Ceiling == quota.Soft && !fast {
		least = min(b.batchSize(), 8*float64(quota.Token))
	}
	return members > 1 && t.burst/float64(2*members) < least*more
}

// smallAmount is the number of Units that is worth little to a member: two requests or eight tokens.
func (b *bucket) smallAmount() float64 { return max(2*b.batchSize(), 8*float64(quota.Token)) }

// centralEvery is how many sync intervals pass between the reports of a key for which scarce holds.
const centralEvery = 5

// deliver charges a grant of tokens to the member, at its present rate.
func (l *Ledger) deliver(now quota.Time, b *bucket, al *allocation, tokens quota.Units, lease quota.Time) {
	al.grants++
	al.lease = lease
	if al.granted == 0 {
		al.granted = now
	}
	al.charged = max(al.charged, al.rate)
	l.recordLease(al)
	if b.promises() {
		b.wakeBy(al.renewAt(l.cfg.Lease))
	}
	if tokens > 0 {
		b.pool.Add(-tokens)
		al.out, al.returnable = al.out+tokens, al.returnable+tokens
		al.addUnacked(tokens)
	}
}

// grantAt sets g to the newest grant to a member. level is that of the bucket.
func (l *Ledger) grantAt(now quota.Time, b *bucket, al *allocation, tokens, level quota.Units, g *quota.GrantEntry) {
	*g = quota.GrantEntry{
		Key: b.key(), Epoch: al.epoch, Seq: al.grants, Central: b.central,
		Tokens: tokens, Rate: al.rate, Cap: min(al.cap, quota.Most), Lease: al.lease.Sub(now), Saved: min(al.saved(), quota.Most),
		Level: b.levelFor(al, level), Others: b.othersDemand(al), Free: max(b.pool.Level(), l.lendable(b, al)), Unseen: b.unseen(now, al, level), Aside: l.aside(now, b), Again: al.reportWithin(l.cfg.Sync),
	}
	b.addWindow(g)
}

// weigh computes the fair share of the rate by water-filling: members that demand less than an
// equal share get their demand, and the rest is divided equally among the others.
func (l *Ledger) weigh(now quota.Time, b *bucket, al *allocation) terms {
	t := terms{rate: float64(b.gainPerSecond()), burst: float64(b.limit.BurstUnits()), mine: float64(al.demand), least: float64(quota.Token), margin: float64(quota.Token)}
	avail := t.rate
	if level := float64(b.pool.Level()); level < 0 && t.rate > 0 {
		avail = max(0, t.rate+level/debtRepayTime.Seconds())
	} else if !b.mayHaveRates() { // only the present level can be divided
		avail += max(0, level) / (grantIntervals * l.cfg.Sync.Seconds())
	}
	for i := range b.allocations {
		o := &b.allocations[i]
		o.updateLive(now, l.cfg.Sync)
		if d := float64(o.live); d > 0 {
			t.total += d
			t.members++
		}
	}
	t.avail = max(avail, t.rate)
	size := b.batchSize()
	if b.limit.Ceiling == quota.Hard { // no member can overdraw for the rest of a request
		t.least = size
	}
	if !fairshare.Contended(t.total, t.avail) { // under contention, tokens kept for batches are missing elsewhere
		t.margin = size
	}
	b.waterLevel = math.Inf(1)
	if t.total > avail {
		b.waterLevel = fairshare.Level(len(b.allocations), func(i int) float64 { return float64(b.allocations[i].live) }, avail)
	}
	t.fair = min(t.mine, b.waterLevel)
	if t.parts = b.parts(); t.parts > 0 {
		t.weight = t.fair / t.parts
	}
	t.scattered = b.limit.Ceiling == quota.Soft && size > float64(quota.Token) && t.burst*t.weight < size/2
	return t
}

// setRate sets the member's rate to its fair share, as far as the rates charged to others leave
// room, and adds what it is owed (withDeficit) as far as the fair shares of the others leave room: else
// members that are owed tokens would keep the rate from those without one (TestShareBesideDeficits in
// internal/sim). It reports whether the rate is too small because others are charged.
func (l *Ledger) setRate(b *bucket, al *allocation, t terms) (short bool) {
	if !b.mayHaveRates() {
		al.rate = 0
		return false
	}
	others, due := quota.Units(0), quota.Units(0)
	for i := range b.allocations {
		o := &b.allocations[i]
		if o == al {
			continue
		}
		others += o.charged
		if fair := b.fairOf(o); float64(o.charged) < recallBelow*fair {
			due += quota.RoundUnits(fair) - o.charged
		}
	}
	want := b.withDeficit(al, t.fair)
	room := b.gains - others
	rate := min(quota.RoundUnits(want), max(room-due, min(room, quota.RoundUnits(t.fair))))
	if !l.worthRate(b, rate, t) {
		rate = 0
	}
	al.rate = max(0, rate)
	return float64(al.rate) < recallBelow*min(want, t.fair)
}

// recallBelow is the part of a fair share below which others are recalled, and get no more than their own.
const recallBelow = 0.8

// tokens returns what the member gets out of the pool, and by how much that falls short of its expected
// need: under hard, where others may hold more than they need, and while a share is less than a token an
// interval, so that single tokens go to the members in turn.
func (l *Ledger) tokens(now quota.Time, b *bucket, al *allocation, e *quota.ReportEntry, t terms, again time.Duration) (got, short quota.Units) {
	if al.unacked.Full() || b.limit.AsksLeader() || b.limit.Class != quota.Counted {
		return 0, 0
	}
	pool := float64(max(0, b.pool.Level()))
	const token = float64(quota.Token)
	horizon := grantIntervals * again.Seconds()
	need := max(fairshare.Most(t.mine*horizon, t.margin), float64(e.Want))
	want := max(0, need-float64(b.holds(al)))
	if t.total*horizon > pool {
		pool = max(0, pool-float64(l.reservedBefore(now, b, al)))
	}
	part := min(want, fairPart(pool, t, horizon, max(token, min(float64(e.Want), t.least))))
	if b.limit.Ceiling == quota.Hard {
		if left := pool - part - t.total*horizon; left > 0 {
			part += left * surplusPart * t.part(token/l.cfg.Sync.Seconds(), len(l.members))
		}
		room := l.capRoom(b, al)
		if al.rate > 0 && t.total*horizon > pool {
			room = min(room, max(t.burst*t.weight, token)-float64(b.holds(al)))
		}
		part = min(part, max(0, room))
	}
	u := max(quota.RoundUnits(min(part, pool)), min(quota.RoundUnits(want), max(l.lendable(b, al), b.keptOfReturned(al, t.returned))))
	if al.rate == 0 {
		u -= u % quota.Token // without a rate a fraction is never used
	}
	singly := al.rate == 0 && b.tracksDeficit() && b.waterLevel*l.cfg.Sync.Seconds() < token
	if left := quota.RoundUnits(want) - u; (b.limit.Ceiling == quota.Hard || singly) && left >= quota.Token {
		short = left
	}
	return max(0, u), short
}

// part is the member's part of a surplus, by demand. prior is added to the demand of every member,
// for those about which little is known.
func (t terms) part(prior float64, nodes int) float64 {
	return (t.mine + prior) / (t.total + float64(max(t.members, nodes, 1))*prior)
}

// fairPart is how much of the pool a member may take: all of it if the pool covers the expected
// need of all, else its share, but at least one request of this cost.
func fairPart(pool float64, t terms, horizon, cost float64) float64 {
	if t.total*horizon <= pool {
		return pool
	}
	part := pool * max(t.weight, 1/float64(max(t.members, 1)))
	if part < cost && pool >= cost {
		part = cost
	}
	return part
}

// capRoom returns how many more tokens the member may hold: the caps of all members together are at most the burst.
// Only hard limits need it.
func (l *Ledger) capRoom(b *bucket, al *allocation) float64 {
	return float64(max(0, b.limit.BurstUnits()-othersCap(b, al)-b.holds(al)))
}

// othersCap is the most that the members other than al may hold.
func othersCap(b *bucket, al *allocation) quota.Units {
	sum := b.outstandingTokens()
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al {
			sum = sum.Plus(o.mayHold())
		}
	}
	return sum
}

// holds returns the most that al can have at one moment; caps, room and new tokens are based on it.
// Under hard, al.out may be larger, because it includes what al may have spent beyond its cap while
// its report was late.
func (b *bucket) holds(al *allocation) quota.Units {
	if b.limit.Ceiling == quota.Hard {
		return al.standing()
	}
	return al.out
}

// mayHold is the member's summand where the caps of all members are added up.
func (al *allocation) mayHold() quota.Units {
	if al.charged == 0 { // it accrues nothing
		return al.standing()
	}
	return max(al.capped, al.standing())
}

// capRooms computes the room of several members of a bucket, while nothing is granted in between: the
// sum over all members is computed once, on first use.
type capRooms struct {
	bucket *bucket
	all    quota.Units
	known  bool
}

func (s *capRooms) of(l *Ledger, al *allocation) float64 {
	if !s.known {
		s.all, s.known = othersCap(s.bucket, nil), true
	}
	if s.all == math.MaxInt64 { // the sum is saturated
		return l.capRoom(s.bucket, al)
	}
	return float64(max(0, s.bucket.limit.BurstUnits()-(s.all-al.mayHold())-s.bucket.holds(al)))
}

// setCap sets where accrual stops: high enough for a late report, and under hard, together with the
// caps of others, within the burst.
func (l *Ledger) setCap(b *bucket, al *allocation, t terms, tokens quota.Units) {
	base := b.holds(al) + tokens
	want := base + accrued(al.rate, time.Duration(grantIntervals*float64(l.cfg.Sync))) + quota.Token
	limit := max(base, quota.RoundUnits(t.burst*t.weight))
	if b.limit.Ceiling == quota.Hard {
		limit = min(limit, b.limit.BurstUnits()-othersCap(b, al))
	}
	al.cap = max(base, min(want, limit))
	if b.limit.Ceiling == quota.Hard && al.rate > 0 {
		// base contains the tokens on their way and the yield of the rate in that time. The member
		// accrues to its cap with both, so base may exceed the limit.
		al.cap = min(al.cap, max(0, limit))
	}
	al.capped = max(al.capped, al.cap)
}
