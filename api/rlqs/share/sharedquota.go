package share

import (
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// sharedQuota is the state of one key: the node's tokens and the members that share them.
type sharedQuota struct {
	key     quota.Key
	members []*member
	at      quota.Time // of the last tick

	st          quota.Standing
	limit       float64 // tokens per second
	others      float64 // demand of the other nodes, from grants
	grantMedian median  // rate granted to this node, from grants
	granted     float64
	reserve     float64    // drawn and not known to be spent; debt if negative
	missed      float64    // refused by members and not yet passed to Miss
	spare       float64    // part of the reserve that covers random variation
	spared      quota.Time // when the spare was last refunded
	yield       float64    // average yield of draws, per second
	starved     bool       // the last draw returned less than it asked for
	rate        float64    // this node's part of the limit, per second
}

// mode says how a key's requests are decided.
type mode uint8

const (
	sharing  mode = iota
	allowing      // refuse nothing; usage of a counted limit is charged
	denying
	nothing // no limit applies to the key
)

func (p *sharedQuota) mode() mode {
	l := p.st.Limit
	switch {
	case l == nil:
		return nothing
	case l.Class == quota.Unlimited, l.Enforcement == quota.Off, p.st.Shadow:
		return allowing
	case l.Class == quota.Banned:
		return denying
	case l.Kind == quota.Concurrency: // RLQS has no release of tokens
		if l.Ceiling == quota.Hard {
			return denying
		}
		return allowing
	}
	return sharing
}

func (p *sharedQuota) hard() bool { return p.st.Limit != nil && p.st.Limit.Ceiling == quota.Hard }

func tokens(u quota.Units) float64 { return float64(u) / float64(quota.Token) }

func (p *sharedQuota) find(id MemberID) *member {
	for _, h := range p.members {
		if h.id == id && !h.gone {
			return h
		}
	}
	return nil
}

// adopt gives the member of an ended stream from the same origin to the new stream id and returns
// it; nil if there is no such member or the origin has no proxy.
func (p *sharedQuota) adopt(id MemberID, from Origin) *member {
	if p == nil || from.Proxy == "" {
		return nil
	}
	for _, h := range p.members {
		if h.gone && h.origin == from {
			h.id, h.gone = id, false
			return h
		}
	}
	return nil
}

// update reads the key's standing from source and derives the limit, the other nodes' demand
// and the granted rate.
func (p *sharedQuota) update(now quota.Time, source TokenSource, settle time.Duration) {
	window := p.st.Window
	p.st = source.Standing(p.key)
	if window != 0 && p.st.Window > window && p.hard() {
		p.newWindow(now, settle)
	}
	if p.st.Limit == nil {
		p.limit = 0
		return
	}
	p.limit = tokens(p.st.Tier.Rate.PerSecond())
	if p.windowed() {
		p.limit = float64(p.st.Tier.Burst) / max(p.st.Tier.Rate.Per.Seconds(), 1)
	}
	if !p.st.HasLevel {
		return
	}
	p.others = tokens(p.st.Others)
	// Grants change in steps: without the median, TestLoads/near the limit, soft fails.
	p.granted = p.grantMedian.add(tokens(p.st.Rate))
}

// newWindow begins a window. Tokens drawn from the last window are void. Tokens that may
// still lie in buckets will be spent in this window, so they become debt that must be drawn
// from it.
func (p *sharedQuota) newWindow(now quota.Time, settle time.Duration) {
	p.reserve, p.spare = 0, 0
	for _, h := range p.members {
		h.booked = min(h.booked, h.unspent(now, settle))
		p.reserve -= h.booked
	}
}

// median keeps the last seven values and returns their median.
type median struct {
	last [7]float64
	n    int
}

func (m *median) add(v float64) float64 {
	m.last[m.n%len(m.last)] = v
	m.n++
	sorted := m.last
	list := sorted[:min(m.n, len(sorted))]
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

func (p *sharedQuota) windowed() bool { return p.st.Tier.Kind != quota.TokenBucket }

// report books a member's usage. Tokens that it spent beyond those booked for it become debt,
// up to p.debt; any excess is added to t.Unpaid. Unspent tokens return to the reserve.
func (p *sharedQuota) report(now quota.Time, t *Table, h *member, u Usage) {
	h.measure(now, u)
	h.back = h.back || h.assigned.Action == Abandon && u.Allowed+u.Denied > 0
	spent := float64(u.Allowed)
	if p.st.Limit == nil {
		p.update(now, t.source, t.cfg.Settle)
	}
	switch p.mode() {
	case allowing:
		if p.st.Limit.Class == quota.Counted && u.Allowed > 0 {
			t.source.Draw(p.key, u.Allowed)
		}
		fallthrough
	case denying, nothing:
		h.booked = 0
		return
	}
	keep := 0.0
	if p.hard() {
		keep = min(max(h.booked-spent, 0), h.unspent(now, t.cfg.Settle))
	}
	p.reserve += h.booked - spent - keep
	h.booked = keep
	if u.Denied > 0 { // its bucket is empty: without this, TestLoads/surge fails
		h.level = 0
	}
	if floor := -p.debt(); p.reserve < floor {
		t.Unpaid += floor - p.reserve
		p.reserve = floor
	}
}

// debt returns the most tokens that the key may owe: a burst, or one second of the limit if
// that is more.
func (p *sharedQuota) debt() float64 { return max(float64(p.st.Tier.Burst), p.limit) }

// tick advances the key to now: it drops ended, silent and idle members, spends, draws and
// divides. It appends the assignments to send to out.
func (p *sharedQuota) tick(now quota.Time, t *Table, out []Assignment) []Assignment {
	dt := min(now.Sub(p.at).Seconds(), 1)
	p.at = now
	p.update(now, t.source, t.cfg.Settle)
	for _, h := range slices.Clone(p.members) {
		switch {
		case h.gone && h.expired(now, t.cfg), h.silent(now, t.cfg), h.assigned.Action == Abandon && p.mode() != nothing:
			t.drop(p, h)
		case !h.gone && h.idle > 0 && now.Sub(h.idle) >= t.cfg.Idle:
			out = append(out, Assignment{Member: h.id, Key: p.key, Action: Abandon})
			p.reserve += h.booked // the reports say that the member did not use them
			t.drop(p, h)
		}
	}
	if p.mode() == sharing && dt > 0 {
		p.spend(now, t, dt)
		p.draw(now, t, dt)
	}
	p.divide(now, t.cfg, dt)
	for _, h := range p.members {
		if a, ok := p.assign(now, t, h, false); ok {
			out = append(out, a)
		}
	}
	return out
}

// spend moves the tokens that members are assumed to spend in dt seconds from the reserve to
// their bookings, and counts the demand beyond that as missed.
func (p *sharedQuota) spend(now quota.Time, t *Table, dt float64) {
	for _, h := range p.members {
		use := h.uses(p.hard(), dt)
		p.reserve -= use
		h.booked += use
		if !h.gone {
			p.missed += max(0, h.demand*dt-min(use, h.demand*dt))
		}
		h.charged(now, t.cfg.Settle)
	}
}

// demand returns the sum of the demand of members with a stream, in tokens per second.
func (p *sharedQuota) demand() (sum float64) {
	for _, h := range p.members {
		if !h.gone {
			sum += h.demand
		}
	}
	return sum
}

// asked returns the sum of the rates that serve the members' demand and its random variation.
func (p *sharedQuota) asked() (sum float64) {
	for _, h := range p.members {
		if !h.gone {
			sum += h.asks()
		}
	}
	return sum
}

// draw draws the tokens that the reserve lacks from the node. It asks for a debt in small
// steps while the level does not cover it, because every refused draw counts as demand
// (TestLoads/few tokens).
func (p *sharedQuota) draw(now quota.Time, t *Table, dt float64) {
	p.spare += p.chance() * dt
	owed := p.spare - p.reserve
	if p.hard() {
		owed += p.charges() * hardReserve
	}
	if level := tokens(p.st.Level); owed > level && owed > 0 {
		owed = max(level, min(owed, (p.charges()+owed/debtRepayTime)*dt))
	}
	want := int64(min(owed, float64(p.st.Tier.Burst)))
	got := int64(0)
	if want > 0 {
		got = t.source.Draw(p.key, want)
		p.reserve += float64(got)
		p.starved = got < want
	}
	p.averageYield(float64(got), dt)
	if n := int64(p.missed); n > 0 {
		t.source.Miss(p.key, n)
		p.missed -= float64(n)
	}
	if now.Sub(p.spared) >= time.Second {
		p.refund(t)
		p.spared = now
	}
}

// refund returns the part of the reserve that is not needed to the node.
func (p *sharedQuota) refund(t *Table) {
	keep := 0.0
	if p.hard() {
		keep = p.charges() * hardReserve
	}
	if n := int64(p.reserve - keep); n > 0 {
		t.source.Refund(p.key, n)
		p.reserve -= float64(n)
	}
	p.spare = 0
}

// chance returns the rate that served members need beyond their demand for its random
// variation, while demand exceeds the limit. The node then gets no more than it asks for, so
// draw asks for this rate too, and refund returns what is left (TestLoads/ten).
func (p *sharedQuota) chance() (sum float64) {
	if p.demand()+p.others <= p.limit {
		return 0
	}
	for _, h := range p.members {
		if !h.gone && h.want >= servedForChance*h.demand {
			sum += h.asks() - h.demand
		}
	}
	return sum
}

// charges returns the sum of the highest rates that members may use, in tokens per second.
func (p *sharedQuota) charges() (sum float64) {
	for _, h := range p.members {
		sum += max(h.rate, h.settlingRate, 0)
	}
	return sum
}

// averageYield updates p.yield, the average yield of draws, for keys without a granted rate.
// The average grows while draws get all that they ask for.
func (p *sharedQuota) averageYield(got, dt float64) {
	if p.starved {
		tau := min(max(manyTokens/max(p.yield, 1e-9), 1), 10)
		p.yield += (got/dt - p.yield) * (1 - math.Exp(-dt/tau))
		return
	}
	p.yield = min(max(p.yield*(1+dt), got/dt, p.limit*dt), max(p.limit, p.demand()))
}

const (
	// debtRepayTime, in seconds, is the time in which a debt is paid back (TestLoads/few tokens).
	debtRepayTime = 1.0
	// hardReserve, in seconds, is how much of the members' rates the reserve keeps under hard
	// (TestDivision/little hard).
	hardReserve = 0.4
	// servedForChance is the fraction of a member's demand that its rate must serve for the node to
	// draw for its random variation too (TestDivision/little hard).
	servedForChance = 0.8
	// manyTokens is the number of tokens over which the yield of draws is averaged
	// (TestDivision/little hard).
	manyTokens = 10
)

// close refunds the rest of the reserve.
func (p *sharedQuota) close(source TokenSource) {
	if n := int64(p.reserve); n > 0 {
		source.Refund(p.key, n)
	}
}
