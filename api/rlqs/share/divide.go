package share

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const (
	// soon is for how long a window's rest has to last: until a cut is in force.
	soon = 0.75
	// prior is the part of the limit that a node counts as asking for more than it
	// does, when what nobody asks for is divided: so that a surge finds something.
	prior = 0.1
	// more is what a part may grow by while the bucket is half full.
	more = 1.05
	// room is how much more than is asked for is paid for in advance.
	room = 1.5
	// quick and steady, in seconds, are over how long what is asked for and what is
	// left over are averaged.
	quick, steady = 0.4, 1.0
)

// part is this node's part of the limit, tokens per second: what its leader grants
// it while there is not enough for all, else what its members ask for and a part of
// what is left over. All nodes' parts add up to the limit.
func (p *sharedQuota) part() float64 {
	d := p.demand()
	weight := (d + prior*p.limit) / (d + p.others + float64(p.st.Nodes)*prior*p.limit)
	if math.IsNaN(weight) {
		weight = 0
	}
	level := tokens(p.st.Level)
	var rate float64
	switch {
	case p.windowed():
		rate = min(room*d+weight*p.limit, max(level, 0)*weight/soon)
	case d+p.others > p.limit:
		if rate = p.granted; rate == 0 { // tokens come one by one, by turns
			rate = min(p.yield, p.limit*max(d/(d+p.others), 1/float64(max(p.st.Nodes, 1))))
		}
		// What is paid for in advance may be more than the limit's rate while there is
		// something left: nobody is cut before it is.
		if p.hard() && !p.starved && level > float64(p.st.Tier.Burst)/2 {
			rate = max(rate, p.rate*more)
		}
	default:
		rate = d + (p.limit-d-p.others)*weight
	}
	if p.starved && p.granted == 0 {
		rate = min(rate, p.yield)
	}
	if p.toldAt == 0 { // nobody has told what the others do
		rate = min(rate, p.limit/float64(max(p.st.Nodes, 1)))
	}
	if p.hard() {
		rate = min(rate, room*d+1)
	}
	if p.reserve < 0 {
		rate += p.reserve / repay
	}
	if !p.windowed() {
		rate = min(rate, p.limit)
	}
	return max(rate, 0)
}

// divide says what part every member should have: max-min fair by demand, and of
// what is left over all the same. What has gone with a stream is not there.
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
	most := level(p.members, left, n)
	if !math.IsInf(most, 1) {
		for _, h := range p.members {
			h.want = min(h.asks(), most)
		}
		return
	}
	for _, h := range p.members {
		if !h.gone {
			left -= h.asks()
		}
	}
	for _, h := range p.members {
		h.want = h.asks() + left/float64(n)
	}
}

// smooth follows what the part should be: at once when it has to fall by much, and as
// far as members ask for it; what nobody asks for comes slowly, when all nodes know of
// each other.
func (p *sharedQuota) smooth(part, dt float64) {
	if part < p.rate*0.7 {
		p.rate = part
		return
	}
	if part < p.rate {
		p.rate += (part - p.rate) * min(dt/quick, 1)
		return
	}
	if asked := min(part, p.demand()); p.rate == 0 {
		p.rate = asked
	} else {
		p.rate += max(asked-p.rate, 0) * min(dt/quick, 1)
	}
	p.rate += (part - p.rate) * min(dt/steady, 1)
}

// level is the most that anyone gets of what is divided; infinite if that is enough
// for all.
func level(members []*member, avail float64, n int) float64 {
	most, below := 0.0, 0
	left := avail
	for n > below {
		next := left / float64(n-below)
		if next <= most {
			return most
		}
		most, left, below = next, avail, 0
		for _, h := range members {
			if !h.gone && h.asks() <= most {
				left -= h.asks()
				below++
			}
		}
	}
	return math.Inf(1)
}

const (
	// hurry is how soon an assignment may be cut after the last one, and patience how
	// soon it may be raised: each time the client has a full bucket again.
	hurry    = 250 * time.Millisecond
	patience = time.Second
	// enough of a change is worth telling, and little is when the assignment has to be
	// sent again anyway.
	enough, little = 0.1, 0.02
	// much is what a rate has to grow by so that patience has an end.
	much = 1.5
	// almost enough is enough, as far as counts can tell.
	almost = 0.75
	// worth, in seconds, is how much of a rate has to be saved to be handed out.
	worth = 0.25
)

// saved reports whether a member that is short is to have a new bucket, because there
// is more than lies in those that are out: what nobody has asked for until now.
func (p *sharedQuota) saved(h *member, rate float64, age time.Duration) bool {
	return h.known && h.short() && age >= hurry && p.burst(h, rate) >= max(worth*rate, h.level+1, 2)
}

// assign returns what a member is to be told, if anything.
func (p *sharedQuota) assign(now quota.Time, t *Table, h *member, first bool) (Assignment, bool) {
	if h.gone {
		return Assignment{}, false
	}
	first = first || h.sentAt == 0
	switch p.mode() {
	case nothing:
		if h.back { // it is in use: do not have it subscribe with every request
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
	change := enough
	if age >= t.cfg.TTL/2 {
		change = little
	}
	cut := rate < h.rate*(1-change) && age >= hurry
	raise := rate > h.rate*(1+change) && age >= patience || rate > h.rate*much && age >= hurry
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

// free is what no member may go by: rates that were cut count until that is in
// force.
func (p *sharedQuota) free(now quota.Time, cfg Config) float64 {
	left := p.rate
	for _, h := range p.members {
		left -= h.charged(now, cfg.Settle)
	}
	return max(left, 0)
}

// burst is how many tokens a bucket has: its part of what there is now; at least a
// tenth of a second of its rate, and of one that is enough for the member what chance
// needs.
func (p *sharedQuota) burst(h *member, rate float64) float64 {
	part := min(rate/max(p.limit, rate, 1e-9), 1)
	most := float64(p.st.Tier.Burst) * part
	least := rate / 10
	if h.demand*almost <= rate {
		least = max(least, min(2*math.Sqrt(rate), most))
	}
	if p.hard() && (p.windowed() || !h.short()) { // it is paid for at once, which looks like a surge
		return max(1, least)
	}
	left := tokens(p.st.Level)
	if p.hard() { // half of it is for rates that are not cut yet
		left -= max(float64(p.st.Tier.Burst)/2, p.limit*soon)
	} else {
		left -= p.committed()
	}
	return max(1, least, min(max(left, 0)*part, most))
}

// committed is what lies in the buckets of members that are going to spend it. Of one whose
// demand is not known it is all that it was given: it may have spent that already.
func (p *sharedQuota) committed() (sum float64) {
	for _, h := range p.members {
		switch {
		case !h.known:
			sum += h.bucketTokens
		case h.short():
			sum += h.level
		}
	}
	return sum
}

// pay takes what a full bucket holds out of the reserve first; what cannot be paid is
// not in it.
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

// blanket tells a member that all or nothing passes, or to forget the bucket. Of the
// last it is told once; it stays AllowAll where that followed.
func (p *sharedQuota) blanket(now quota.Time, h *member, act Action, cfg Config) (Assignment, bool) {
	if h.assigned.Action == act || act == Abandon && h.assigned.Action == AllowAll {
		return p.again(now, h, cfg)
	}
	return p.give(now, h, Assignment{Action: act, Unknown: act == Abandon}, cfg), true
}

// again sends what the member has when half of its time is over.
func (p *sharedQuota) again(now quota.Time, h *member, cfg Config) (Assignment, bool) {
	if h.assigned.Action == None || h.assigned.Action == Abandon || now.Sub(h.sentAt) < cfg.TTL/2 {
		return Assignment{}, false
	}
	h.sentAt = now
	return h.assigned, true
}

func (p *sharedQuota) give(now quota.Time, h *member, a Assignment, cfg Config) Assignment {
	a.Member, a.Key, a.TTL = h.id, p.key, cfg.TTL
	h.settlingRate = max(h.charged(now, cfg.Settle), 0)
	h.renew(now, a, cfg.Settle)
	h.rate, h.assigned, h.sentAt = a.Rate(), a, now
	return a
}
