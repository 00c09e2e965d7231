package share

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

const (
	// cutTime, in seconds, is the time until a cut takes effect. The rest of a window must last
	// as long (TestLoads/window, hard). Under hard, what the limit yields in that time stays out
	// of new buckets (TestMovingSpot/hard 2s).
	cutTime = 0.75
	// priorDemand is the fraction of the limit that every node adds to its demand when the nodes
	// divide the capacity that is not in demand, so that a surge finds capacity on any node
	// (TestLoads/quiet, soft).
	priorDemand = 0.1
	// partGrowth is the growth factor of the node's part while the bucket is more than half full
	// (TestDivision/little hard).
	partGrowth = 1.05
	// demandTime and surplusTime, in seconds, are the averaging times of demand and of the
	// capacity that is not in demand (TestMovingSpot/hard 2s and TestLoads/surge).
	demandTime, surplusTime = 0.4, 1.0
)

// part returns this node's part of the limit in tokens per second. While demand exceeds the
// limit, it is the rate that the leader grants. Otherwise it is the demand of the members
// plus a part of the remaining capacity. The parts of all nodes add up to the limit.
func (p *sharedQuota) part() float64 {
	d := p.demand()
	weight := (d + priorDemand*p.limit) / (d + p.others + float64(p.st.Nodes)*priorDemand*p.limit)
	if math.IsNaN(weight) {
		weight = 0
	}
	level := tokens(p.st.Level)
	var rate float64
	switch {
	case p.windowed():
		// TestLoads/window, soft fails without the first bound, TestWindow without the second.
		rate = min(p.asked()+weight*p.limit, max(level, 0)*weight/cutTime)
	case d+p.others > p.limit:
		if rate = p.granted; rate == 0 { // the leader grants single tokens, in turn
			rate = min(p.yield, p.limit*max(d/(d+p.others), 1/float64(max(p.st.Nodes, 1))))
		}
		// Rates paid for in advance may exceed the limit's rate while the bucket is more than
		// half full: no member is cut before that.
		if p.hard() && !p.starved && level > float64(p.st.Tier.Burst)/2 {
			rate = max(rate, p.rate*partGrowth)
		}
	default:
		rate = d + (p.limit-d-p.others)*weight
	}
	if p.hard() { // pay in advance for chance (TestLoads/quiet, hard) and for single requests (TestLoads/rare)
		rate = min(rate, 2*p.asked()-d+1)
	}
	if p.reserve < 0 {
		rate += p.reserve / debtRepayTime
	}
	if !p.windowed() { // without this bound, TestLoads/one node, hard fails
		rate = min(rate, p.limit)
	}
	return max(rate, 0)
}

// divide sets the rate that every member should have: max-min fair by demand, plus an equal
// share of the remaining capacity. It first subtracts the rates that members whose stream has
// ended may still use.
func (p *sharedQuota) divide(now quota.Time, cfg Config, dt float64) {
	if p.mode() != sharing {
		return
	}
	p.smooth(p.part(), dt)
	left, n := p.rate, 0
	for _, h := range p.members {
		if h.gone {
			left -= h.charged(now, cfg.Settle)
		} else {
			n++
		}
	}
	left = max(left, 0)
	most := fairshare.Level(len(p.members), func(i int) float64 {
		if h := p.members[i]; !h.gone {
			return h.asks()
		}
		return 0
	}, left)
	if !math.IsInf(most, 1) {
		for _, h := range p.members {
			h.want = min(h.asks(), most)
		}
		return
	}
	left -= p.asked()
	for _, h := range p.members {
		h.want = h.asks() + left/float64(n)
	}
}

// smooth moves p.rate towards part: at once if it must fall by more than 30 percent, within
// demandTime if it falls by less or rises to meet demand. The rest of a rise takes surplusTime,
// which gives all nodes the time to learn of each other's demand.
func (p *sharedQuota) smooth(part, dt float64) {
	if part < p.rate*0.7 { // without this step, TestWindow/hard fails
		p.rate = part
		return
	}
	if part < p.rate {
		p.rate += (part - p.rate) * min(dt/demandTime, 1)
		return
	}
	p.rate += max(min(part, p.demand())-p.rate, 0) * min(dt/demandTime, 1)
	p.rate += (part - p.rate) * min(dt/surplusTime, 1)
}

const (
	// minCutAge is the minimum age of an assignment before a cut replaces it, and minRaiseAge
	// before a raise does. Both bound how often a client starts with a full bucket again
	// (TestLoads/ten; TestLoads/near the limit, hard).
	minCutAge   = 250 * time.Millisecond
	minRaiseAge = time.Second
	// minChange is the relative change of a rate that justifies a new assignment
	// (TestLoads/ten). minRepeatChange suffices when the assignment must be repeated anyway:
	// otherwise members that keep a little more than their part could starve another one
	// (TestLoads/many).
	minChange, minRepeatChange = 0.1, 0.02
	// largeRaise is the growth factor of a rate above which a raise waits only for minCutAge
	// (TestLoads/window, hard).
	largeRaise = 1.5
	// nearDemand is the fraction of its demand from which a rate counts as serving a member:
	// request counts are no more precise (TestDivision/ten on two nodes soft).
	nearDemand = 0.75
	// savedTime, in seconds, is how much of a rate must have been saved before it is assigned
	// (TestLoads/ten).
	savedTime = 0.25
)

// saved reports whether a short member should get a new bucket because the node has more
// tokens than lie in the assigned buckets, because no member has asked for them until now
// (TestLoads/surge).
func (p *sharedQuota) saved(h *member, rate float64, age time.Duration) bool {
	return h.short() && age >= minCutAge && p.burst(h, rate) >= max(savedTime*rate, h.level+1, 2)
}

// assign returns the assignment to send to a member, and whether there is one to send.
func (p *sharedQuota) assign(now quota.Time, t *Table, h *member, first bool) (Assignment, bool) {
	if h.gone {
		return Assignment{}, false
	}
	first = first || h.sentAt == 0
	switch p.mode() {
	case nothing:
		if h.back { // in use: after an Abandon the proxy would subscribe with every request
			return p.blanket(now, h, AllowAll, t.cfg)
		}
		return p.blanket(now, h, Abandon, t.cfg)
	case allowing:
		return p.blanket(now, h, AllowAll, t.cfg)
	case denying:
		return p.blanket(now, h, DenyAll, t.cfg)
	}
	rate := min(h.want, h.charged(now, t.cfg.Settle)+p.free(now, t.cfg))
	age := now.Sub(h.sentAt)
	change := minChange
	if age >= t.cfg.TTL/2 {
		change = minRepeatChange
	}
	cut := rate < h.rate*(1-change) && age >= minCutAge
	raise := rate > h.rate*(1+change) && age >= minRaiseAge || rate > h.rate*largeRaise && age >= minCutAge
	if !first && !cut && !raise && !p.saved(h, rate, age) {
		return p.again(now, h, t.cfg)
	}
	a := bucketOf(rate, p.burst(h, rate))
	if p.hard() && a.Action == Bucket {
		a = p.pay(t, h, a)
	}
	a.distinguish(h.assigned)
	return p.give(now, h, a, t.cfg), true
}

// free returns the part of the node's rate that no member may use. The rate before a cut
// counts until the cut takes effect (TestLoads/one node, soft).
func (p *sharedQuota) free(now quota.Time, cfg Config) float64 {
	left := p.rate
	for _, h := range p.members {
		left -= h.charged(now, cfg.Settle)
	}
	return max(left, 0)
}

// burst returns the capacity of a new bucket: the member's part of the tokens available now,
// but at least a tenth of a second of its rate (TestMovingSpot/hard 2s). If the rate serves the
// member's demand, the minimum also covers the random variation of requests (TestLoads/many).
func (p *sharedQuota) burst(h *member, rate float64) float64 {
	part := min(rate/max(p.limit, rate, 1e-9), 1)
	most := float64(p.st.Tier.Burst) * part
	least := rate / 10
	if h.demand*nearDemand <= rate {
		least = max(least, min(2*math.Sqrt(rate), most))
	}
	if p.hard() && p.windowed() { // drawn at once, which the leader would see as a surge
		return max(1, least)
	}
	left := tokens(p.st.Level)
	if p.hard() { // keep tokens for rates whose cut has not taken effect yet
		left -= p.limit * cutTime
	} else {
		left -= p.committed()
	}
	return max(1, least, min(max(left, 0)*part, most))
}

// committed returns the tokens that lie in the buckets of members that will spend them
// (TestLoads/near the limit, soft; TestLoads/surge).
func (p *sharedQuota) committed() (sum float64) {
	for _, h := range p.members {
		if h.short() {
			sum += h.level
		}
	}
	return sum
}

// pay takes the content of a new bucket out of the reserve before the bucket is assigned, and
// draws what the reserve lacks. It lowers Max to the tokens that it could pay for, and
// returns DenyAll if that is less than one.
func (p *sharedQuota) pay(t *Table, h *member, a Assignment) Assignment {
	if lack := float64(a.Max) - p.reserve; lack > 0 {
		p.reserve += float64(t.source.Draw(p.key, int64(math.Ceil(lack))))
	}
	a.Max = min(a.Max, int64(p.reserve))
	if a.Max < 1 {
		return Assignment{Action: DenyAll}
	}
	p.reserve -= float64(a.Max)
	h.booked += float64(a.Max)
	return a
}

// blanket assigns AllowAll, DenyAll or Abandon to a member. It sends Abandon once; a member
// that has AllowAll keeps it instead of being sent Abandon.
func (p *sharedQuota) blanket(now quota.Time, h *member, act Action, cfg Config) (Assignment, bool) {
	if h.assigned.Action == act || act == Abandon && h.assigned.Action == AllowAll {
		return p.again(now, h, cfg)
	}
	return p.give(now, h, Assignment{Action: act, Unknown: act == Abandon}, cfg), true
}

// again repeats the member's assignment when half of its time to live has passed.
func (p *sharedQuota) again(now quota.Time, h *member, cfg Config) (Assignment, bool) {
	if h.assigned.Action == None || h.assigned.Action == Abandon || now.Sub(h.sentAt) < cfg.TTL/2 {
		return Assignment{}, false
	}
	h.sentAt = now
	return h.assigned, true
}

// give makes a the member's assignment. The bucket of a replaces the current one.
func (p *sharedQuota) give(now quota.Time, h *member, a Assignment, cfg Config) Assignment {
	a.Member, a.Key, a.TTL = h.id, p.key, cfg.TTL
	h.settlingRate = max(h.charged(now, cfg.Settle), 0)
	if now.Sub(h.replacedAt) >= cfg.Settle {
		h.settlingTokens = 0
	}
	h.settlingTokens += float64(h.assigned.Max)
	h.replacedAt = now
	h.level = float64(a.Max)
	h.rate, h.assigned, h.sentAt = a.Rate(), a, now
	return a
}
