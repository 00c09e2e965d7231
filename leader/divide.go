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
	// ahead is how many intervals of demand a member is granted: more than one,
	// so that a late report does not starve it.
	ahead = 1.5
	// deviations of a count are granted on top.
	deviations = fairshare.Deviations
	// repay is how fast debt is paid back.
	repay = 500 * time.Millisecond
	// calm is how many sync intervals a member may stay silent when its use is
	// far below the limit.
	calm = 10
	// calmShare of the burst is the most that a calm member uses in that time.
	calmShare = 0.05
	// spare of the pool beyond all foreseen demand is handed out under hard,
	// where members cannot overdraw for a surge.
	spare = 0.7
)

// terms is what one division looks at; all amounts are Units, as floats: they
// are estimates, and nothing of them is replicated.
type terms struct {
	rate, burst float64 // what the level gains per second; of the limit
	avail       float64 // to divide per second
	total       float64 // demand of all members
	mine        float64 // of this member
	fair        float64 // max-min fair part of the rate for this member
	parts       float64 // sum of all fair parts
	weight      float64 // fair / parts: this member's part of a surplus
	members     int     // with demand
	least       float64 // that is worth having: a request
	margin      float64 // the clump that a count strays by
	scattered   bool    // its part of the bucket is less than half a clump
}

// grant answers one entry of a report. A member that asks for nothing, because
// it has counted nothing, is given back nothing of what it returned. The
// account has been advanced, and others is what stands with the other members.
func (l *Ledger) grant(now quota.Time, a *account, h *holder, e *quota.ReportEntry, ack quota.Seq, asks bool, others quota.Units, g *quota.GrantEntry) {
	again := l.cfg.Sync
	var tokens quota.Units
	lease := now.Add(l.cfg.Lease)
	if l.mayGrant(now, a) {
		capped := h.capped
		t := l.weigh(now, a, h)
		l.turns(now, a, h, t.parts)
		again = l.again(t)
		switch a.central = a.scarce(); {
		case a.central:
			h.rate, h.unmet = 0, 0
			again = max(again, centralEvery*l.cfg.Sync) // decide requests say what is asked for
			l.recallAll(now, a, h)
		case l.setRate(a, h, t):
			l.recall(now, a, h, ofRate)
		}
		if asks && !a.central {
			var short quota.Units
			if tokens, short = l.tokens(now, a, h, e, t, again); short > 0 {
				l.recall(now, a, h, shortOf(e.Want))
			}
			h.unmet, h.unmetAt = min(short, max(0, e.Want-tokens)), now
		}
		l.setCap(a, h, t, tokens)
		if a.promises() {
			tokens, lease = l.promised(now, a, h, tokens, capped)
		}
	}
	h.again = again
	h.spoken = min(tokens, e.Want)
	l.hand(now, a, h, tokens, lease)
	l.told(now, a, h, tokens, a.levelWith(others.Plus(h.standing())), g)
	g.Ack = ack
	g.Free = g.Free.Plus(l.doubt(now, a, h, g))
	l.serve(now, a, h)
}

// scarce reports whether there are too few tokens for the members that use the key: half of an equal part
// of the burst is less than two requests, or than eight tokens. Where the limit allows a hop, none are handed
// out then, and the leader decides: tokens that lie with one member would be missing at another. It is left
// when that part is half as much again, so that no key goes back and forth.
func (a *account) scarce() bool {
	switch {
	case !a.limit.MayAsk() || a.limit.AsksLeader():
		return false
	case a.tier.Kind == quota.SlidingWindow: // what flows back there is divided or decided, not both
		return true
	}
	members := 0
	for i := range a.holders {
		if h := &a.holders[i]; !h.closed && !h.dead {
			members++
		}
	}
	least := max(2*a.clump(), 8*float64(quota.Token))
	if a.central {
		least *= 1.5
	}
	return members > 1 && float64(a.limit.BurstUnits())/float64(2*members) < least
}

// centralEvery is how many sync intervals pass between the reports of a key that the leader decides.
const centralEvery = 5

// hand makes a grant of tokens, at the member's present rate.
func (l *Ledger) hand(now quota.Time, a *account, h *holder, tokens quota.Units, lease quota.Time) {
	h.grants++
	h.lease = lease
	if h.granted == 0 {
		h.granted = now
	}
	h.charged = max(h.charged, h.rate)
	l.leased(h)
	if a.promises() {
		a.wakeBy(h.renewAt(l.cfg.Lease))
	}
	if tokens > 0 {
		a.pool.Add(-tokens)
		h.out, h.ret = h.out+tokens, h.ret+tokens
		h.fly(tokens)
	}
}

// told sets g to the newest grant to a member, at this level.
func (l *Ledger) told(now quota.Time, a *account, h *holder, tokens, level quota.Units, g *quota.GrantEntry) {
	*g = quota.GrantEntry{
		Key: a.key, Epoch: h.epoch, Seq: h.grants,
		Tokens: tokens, Rate: h.rate, Cap: min(h.cap, quota.Most), Lease: h.lease.Sub(now), Saved: min(h.saved, quota.Most),
		Level: a.levelFor(h, level), Others: a.others(h), Free: a.pool.Level(), Unseen: a.unseen(now, h, level), Aside: l.aside(now, a), Again: h.again,
	}
	a.window(g)
}

// weigh computes the fair part of the rate by water-filling: those who demand
// less than an equal part get what they demand, the rest is shared equally.
func (l *Ledger) weigh(now quota.Time, a *account, h *holder) terms {
	t := terms{rate: float64(a.perSecond()), burst: float64(a.limit.BurstUnits()), mine: h.demand, least: float64(quota.Token), margin: float64(quota.Token)}
	avail := t.rate
	if level := float64(a.pool.Level()); level < 0 && t.rate > 0 {
		avail = max(0, t.rate+level/repay.Seconds())
	} else if !a.rates() { // the present level is all that can be divided
		avail += max(0, level) / (ahead * l.cfg.Sync.Seconds())
	}
	for i := range a.holders {
		o := &a.holders[i]
		o.fade(now, l.cfg.Sync)
		if d := o.live; d > 0 {
			t.total += d
			t.members++
		}
	}
	t.avail = max(avail, t.rate)
	size := a.clump()
	if a.limit.Ceiling == quota.Hard { // where nobody can overdraw for the rest of it
		t.least = size
	}
	if !t.contended() { // else what lies there for clumps is missing elsewhere
		t.margin = size
	}
	a.most = math.Inf(1)
	if t.total > avail {
		a.most = fairshare.Level(len(a.holders), func(i int) float64 { return a.holders[i].live }, avail)
	}
	t.fair = min(t.mine, a.most)
	if t.parts = a.parts(); t.parts > 0 {
		t.weight = t.fair / t.parts
	}
	t.scattered = a.limit.Ceiling == quota.Soft && size > float64(quota.Token) && t.burst*t.weight < size/2
	return t
}

func (t terms) contended() bool { return t.total > t.avail/2 }

// again is when the member should report next: at every interval while the
// limit is contended, rarely when the use is far below it.
func (l *Ledger) again(t terms) time.Duration {
	if t.total <= 0 || t.contended() {
		return l.cfg.Sync
	}
	quiet := time.Duration(calmShare * t.burst / t.total * float64(time.Second))
	n := min(max(quiet/l.cfg.Sync, 1), calm)
	return n * l.cfg.Sync
}

// setRate gives the fair part as a refill rate, as far as what is charged to
// the others leaves room. Less than a token per interval is not worth a rate.
// It reports whether others are charged what would be its part.
func (l *Ledger) setRate(a *account, h *holder, t terms) (short bool) {
	if !a.rates() {
		h.rate = 0
		return false
	}
	others := quota.Units(0)
	for i := range a.holders {
		if o := &a.holders[i]; o != h {
			others += o.charged
		}
	}
	want := a.evened(h, t.fair)
	rate := min(quota.RoundUnits(want), a.gains-others)
	if !l.worthRate(a, rate, t) {
		rate = 0
	}
	h.rate = max(0, rate)
	return float64(h.rate) < enough*min(want, t.fair)
}

// enough of its fair part is no reason to disturb others.
const enough = 0.8

// tokens is what the member gets out of the pool, and whether that is less than
// it is foreseen to need, while others may hold more than they do.
func (l *Ledger) tokens(now quota.Time, a *account, h *holder, e *quota.ReportEntry, t terms, again time.Duration) (got, short quota.Units) {
	if len(h.flight) >= maxFlight || a.limit.AsksLeader() || a.limit.Class != quota.Counted {
		return 0, 0
	}
	pool := float64(max(0, a.pool.Level()))
	const token = float64(quota.Token)
	horizon := ahead * again.Seconds()
	need := t.mine * horizon
	need += deviations * math.Sqrt(need*t.margin)
	need = max(need, float64(e.Want))
	want := max(0, need-float64(a.holds(h)))
	if t.total*horizon > pool {
		pool = max(0, pool-float64(l.ahead(now, a, h)))
	}
	part := min(want, fairPart(pool, t, horizon, max(token, min(float64(e.Want), t.least))))
	if a.limit.Ceiling == quota.Hard {
		if left := pool - part - t.total*horizon; left > 0 {
			part += left * spare * t.part(token/l.cfg.Sync.Seconds(), len(l.members))
		}
		room := l.room(a, h)
		if h.rate > 0 && t.total*horizon > pool {
			room = min(room, max(t.burst*t.weight, token)-float64(a.holds(h)))
		}
		part = min(part, max(0, room))
	}
	u := max(quota.RoundUnits(min(part, pool)), a.keeps(h, want))
	if h.rate == 0 {
		u -= u % quota.Token // a fraction would lie there unused
	}
	if left := quota.RoundUnits(want) - u; a.limit.Ceiling == quota.Hard && left >= quota.Token {
		short = left
	}
	return max(0, u), short
}

// part is the member's part of a surplus, by demand. A member about which little is known counts as one that
// demands prior more.
func (t terms) part(prior float64, nodes int) float64 {
	return (t.mine + prior) / (t.total + float64(max(t.members, nodes, 1))*prior)
}

// fairPart is how much of the pool a member may take: all of it when the pool
// covers what everybody will need, else its part, at least one request of this cost.
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

// room is what the member may hold more without the caps of all members
// exceeding the burst. Only hard limits need it.
func (l *Ledger) room(a *account, h *holder) float64 {
	return float64(max(0, a.limit.BurstUnits()-othersCap(a, h)-a.holds(h)))
}

func othersCap(a *account, h *holder) quota.Units {
	sum := a.claimed()
	for i := range a.holders {
		if o := &a.holders[i]; o != h {
			sum = sum.Plus(o.mayHold())
		}
	}
	return sum
}

// holds returns the most that h can have at one moment: caps, room and new tokens follow it. Under hard, h.out
// may be larger, because it includes what h may have spent beyond its cap while its report was late.
func (a *account) holds(h *holder) quota.Units {
	if a.limit.Ceiling == quota.Hard {
		return h.standing()
	}
	return h.out
}

// mayHold is what counts of a member where the caps of all are added up.
func (h *holder) mayHold() quota.Units {
	if h.charged == 0 { // holds what it holds, and accrues nothing
		return h.standing()
	}
	return max(h.capped, h.standing())
}

// spaces returns the room of several members of an account, while nothing is handed out:
// what all may hold is added up once, when it is first asked for, and not for each of them.
type spaces struct {
	a     *account
	all   quota.Units
	known bool
}

func (s *spaces) of(l *Ledger, h *holder) float64 {
	if !s.known {
		s.all, s.known = othersCap(s.a, nil), true
	}
	if s.all == math.MaxInt64 { // cut off there
		return l.room(s.a, h)
	}
	return float64(max(0, s.a.limit.BurstUnits()-(s.all-h.mayHold())-s.a.holds(h)))
}

// setCap says where accrual stops: far enough for a late report, and together
// with the others' caps within the burst.
func (l *Ledger) setCap(a *account, h *holder, t terms, tokens quota.Units) {
	base := a.holds(h) + tokens
	want := base + perSecond(h.rate, time.Duration(ahead*float64(l.cfg.Sync))) + quota.Token
	limit := max(base, quota.RoundUnits(t.burst*t.weight))
	if a.limit.Ceiling == quota.Hard {
		limit = min(limit, a.limit.BurstUnits()-othersCap(a, h))
	}
	h.cap = max(base, min(want, limit))
	if a.limit.Ceiling == quota.Hard && h.rate > 0 {
		// What the rate yields on the way is in base beside the tokens on the way, and
		// the member accrues to its cap with both: base may be more than there is.
		h.cap = min(h.cap, max(0, limit))
	}
	h.capped = max(h.capped, h.cap)
}
