package aggregator

import (
	"github.com/quorate/quorate/internal/quota"
)

// Charge books what has been used already, however little is left: down to
// quota.Limit.OwedUnits below zero, in every tier; parents owe as much of it as
// they can. It returns how many tokens were booked; the rest is beyond that bound
// and is nobody's debt. Limits that count what is in flight book nothing.
func (a *Aggregator) Charge(clock Clock, n quota.LimitName, key string, used int64) (booked int64, d quota.Decision) {
	s, key := a.table.resolve(n, key)
	if s == nil {
		return 0, quota.Decision{Why: quota.WhyNoLimit}
	}
	r := s.rule.Load()
	l := a.effective(s, r, key)
	if d, ok := fixed(l, 0, false); ok {
		return 0, d
	}
	if l.Kind != quota.Concurrency && used > 0 {
		booked = a.bookAll(clock, r, key, min(used, quota.MaxTokens))
	}
	d, _ = a.check(clock, n, key, 0, true)
	return booked, d
}

// bookAll charges all tiers with what each of them can owe, and the parents with
// as much of that as they can.
func (a *Aggregator) bookAll(clock Clock, r *rule, key string, used int64) int64 {
	for _, c := range r.charges {
		if c.up == 0 && !c.floor {
			used = min(used, a.owable(clock, c.slot, key))
		}
	}
	for _, c := range r.charges {
		booked, at := used, quota.ParentKey(key, c.up)
		switch {
		case c.floor:
			continue
		case c.up > 0:
			booked = min(used, a.owable(clock, c.slot, at))
		}
		if booked > 0 {
			a.force(clock, c.slot, at, quota.FromTokens(booked), nil)
		}
	}
	return used
}

// owable is how many tokens can still be booked on a key.
func (a *Aggregator) owable(clock Clock, s *slot, key string) int64 {
	b := a.table.bucket(s, key)
	if b == nil {
		return 0
	}
	b.lock()
	defer b.unlock()
	now, l := clock(), b.limit()
	if b.phase == closed && !b.dead {
		a.openBucket(now, b, l)
	}
	b.roll(now, l)
	est := b.estimate(now, l, b.cutOff(now, a.cfg.Lease))
	return max(0, est.Plus(l.OwedUnits()).Tokens())
}

// force charges a counter whatever it has left. It returns the bucket and what
// was left before; nil when the table is full.
func (a *Aggregator) force(clock Clock, s *slot, key string, cost quota.Units, c *Call) (*bucket, quota.Units) {
	for {
		b := a.table.bucket(s, key)
		if b == nil || s.gone.Load() {
			return nil, 0
		}
		t := turn{cost: cost}
		if was, ok := a.forceBucket(clock(), b, &t); ok {
			if c != nil {
				c.taken = append(c.taken, t.taken)
			}
			return b, was
		}
	}
}

func (a *Aggregator) forceBucket(now quota.Time, b *bucket, t *turn) (was quota.Units, ok bool) {
	cost := t.cost
	b.lock()
	defer b.unlock()
	if b.dead {
		return 0, false
	}
	l := b.limit()
	if b.phase == closed {
		a.openBucket(now, b, l)
	}
	b.roll(now, l)
	b.accrue(now)
	was = b.estimate(now, l, b.cutOff(now, a.cfg.Lease))
	over := !b.take(int64(cost), &a.urgent)
	if over {
		b.over, b.charged = b.over+cost, b.charged+cost
		b.est, b.estUsed = b.est-cost, b.estUsed+cost
		a.urgent.push(b)
	}
	t.took(b, over)
	return was, true
}

// Refund gives tokens back that a request took and did not use. It counts at
// once here, and for everybody after the next report. It never raises a level
// above the burst. What is in flight is released, not refunded: nothing happens.
func (a *Aggregator) Refund(clock Clock, n quota.LimitName, key string, cost int64) quota.Decision {
	s, key := a.table.resolve(n, key)
	if s == nil {
		return quota.Decision{Why: quota.WhyNoLimit}
	}
	r := s.rule.Load()
	l := a.effective(s, r, key)
	if d, ok := fixed(l, 0, false); ok {
		return d
	}
	for _, c := range r.charges {
		if !c.floor && cost > 0 && l.Kind != quota.Concurrency {
			a.refund(clock, quota.Key{LimitName: c.slot.name, Key: quota.ParentKey(key, c.up)}, quota.FromTokens(cost))
		}
	}
	d, _ := a.check(clock, n, key, 0, true)
	return d
}

// refund gives a cost back to one counter.
func (a *Aggregator) refund(clock Clock, k quota.Key, cost quota.Units) {
	s := a.table.find(k.LimitName)
	if s == nil {
		return
	}
	b := a.table.bucket(s, k.Key)
	if b == nil {
		return
	}
	b.lock()
	defer b.unlock()
	if b.dead {
		return
	}
	now, l := clock(), b.limit()
	if b.phase == closed {
		a.openBucket(now, b, l)
	}
	b.roll(now, l)
	b.refunded += cost
	b.note()
	b.estimate(now, l, b.cutOff(now, a.cfg.Lease))
	a.urgent.push(b)
}

// Release ends what was acquired of a limit that counts what is in flight.
func (a *Aggregator) Release(clock Clock, n quota.LimitName, key string, count int64) {
	s, key := a.table.resolve(n, key)
	if s == nil {
		return
	}
	b := s.keys.Load(key)
	if b == nil {
		return
	}
	b.lock()
	defer b.unlock()
	u := min(quota.FromTokens(count), b.inFlight)
	if b.dead || u <= 0 {
		return
	}
	now, l := clock(), b.limit()
	b.inFlight -= u
	b.refunded += u
	b.estimate(now, l, b.cutOff(now, a.cfg.Lease))
	paid := min(u, b.lent)
	b.lent -= paid
	if b.phase == open && now < b.lease {
		b.put(u - paid)
	}
	a.urgent.push(b)
}
