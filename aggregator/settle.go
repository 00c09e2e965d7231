package aggregator

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Charge books use that has already happened, however little is left: down to quota.Limit.OwedUnits below zero in
// every tier; parents owe as much of it as they can. It returns how many tokens were booked; the rest is beyond that
// bound, and is not booked as debt anywhere. Concurrency limits book nothing.
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
	return booked, a.checkNow(clock, n, key, 0)
}

// bookAll charges all tiers with the tokens that each of them can owe, and the parents with as many of them as they
// can.
func (a *Aggregator) bookAll(clock Clock, r *rule, key string, used int64) int64 {
	for _, c := range r.charges {
		if c.up == 0 && !c.floor {
			used = min(used, a.owable(clock, c.entry, key))
		}
	}
	for _, c := range r.charges {
		booked, at := used, quota.ParentKey(key, c.up)
		switch {
		case c.floor:
			continue
		case c.up > 0:
			booked = min(used, a.owable(clock, c.entry, at))
		}
		if booked > 0 {
			a.forceCharge(clock, c.entry, at, quota.FromTokens(booked), nil)
		}
	}
	return used
}

// owable returns how many tokens can still be booked on a key.
func (a *Aggregator) owable(clock Clock, s *limitEntry, key string) int64 {
	b := a.table.bucketOrOverflow(s, key, false)
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

// forceCharge charges a counter even beyond its level. It returns the bucket and the level before; nil without room for
// the key.
func (a *Aggregator) forceCharge(clock Clock, s *limitEntry, key string, cost quota.Units, c *Call) (*bucket, quota.Units) {
	for {
		b := a.table.bucketOrOverflow(s, key, false)
		if b == nil || s.gone.Load() {
			return nil, 0
		}
		t := attempt{cost: cost, several: c != nil}
		if was, ok := a.forceChargeBucket(clock(), b, &t); ok {
			if c != nil {
				c.taken = append(c.taken, t.taken)
			}
			return b, was
		}
	}
}

// forceChargeBucket is forceCharge for a bucket. It returns the level before; ok is false, and nothing is charged, if
// the bucket was dropped from the table.
func (a *Aggregator) forceChargeBucket(now quota.Time, b *bucket, t *attempt) (was quota.Units, ok bool) {
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
	beyond := quota.Units(0)
	if !b.take(int64(cost), &a.urgent) {
		beyond = b.spend(cost)
		b.countOverdraft(beyond)
		b.countCharged(beyond)
		b.est, b.estUsed = b.est.Plus(-cost), b.estUsed.Plus(cost)
		a.markUrgent(b)
	}
	t.recordTaken(b, cost, beyond)
	return was, true
}

// Refund gives back tokens that a request took just now and did not use. They count at once on this node, and
// elsewhere after the next report. It never raises a level above the burst. For concurrency limits it does nothing:
// their tokens are released.
func (a *Aggregator) Refund(clock Clock, n quota.LimitName, key string, cost int64) quota.Decision {
	return a.refundAll(clock, n, key, cost, nil)
}

// Taken lists what a call was charged to: RefundTaken and Release give tokens back only there. The zero value has no
// windows.
type Taken struct {
	At       quota.Time // a moment before the decision
	windows  []takenIn
	counters []counter // nil if the call did not acquire: then every counter of the limit counts as charged
}

// counter is a counter that a call charged. A limit that is removed and added again has other entries.
type counter struct {
	entry  *limitEntry
	places bool // of a concurrency limit
}

// charged reports whether the call charged this counter. A nil t did.
func (t *Taken) charged(s *limitEntry, places bool) bool {
	return t == nil || t.counters == nil || slices.Contains(t.counters, counter{s, places})
}

// takenIn is the window of one counter.
type takenIn struct {
	entry *limitEntry
	key   string
	start quota.Time // on the leader's clock
}

// Taken returns what an admitted call was charged to. since is a moment before its decision.
func (c *Call) Taken(since quota.Time) *Taken {
	out := &Taken{At: since, windows: slices.Clone(c.windows)}
	if c.Acquires {
		out.counters = append([]counter{}, c.counters...)
	}
	for _, t := range c.taken {
		if t.win != 0 {
			out.windows = append(out.windows, takenIn{t.b.entry, t.b.key, t.win})
		}
	}
	return out
}

// RefundTaken is Refund of tokens that were taken a while ago: each counter gets them back if it was charged, unless in
// a window that has ended.
func (a *Aggregator) RefundTaken(clock Clock, n quota.LimitName, key string, cost int64, t *Taken) quota.Decision {
	return a.refundAll(clock, n, key, cost, t)
}

// refundAll gives a cost back to all counters of a limit but its floor. A nil taken means that it was taken just now.
func (a *Aggregator) refundAll(clock Clock, n quota.LimitName, key string, cost int64, taken *Taken) quota.Decision {
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
		if !c.floor && cost > 0 && l.Kind != quota.Concurrency && taken.charged(c.entry, false) {
			a.refund(clock, quota.Key{LimitName: c.entry.name, Key: quota.ParentKey(key, c.up)}, quota.FromTokens(cost), taken)
		}
	}
	return a.checkNow(clock, n, key, 0)
}

// refund gives a cost back to one counter, unless it was charged in a window that has ended. A nil taken means just
// now.
func (a *Aggregator) refund(clock Clock, k quota.Key, cost quota.Units, taken *Taken) {
	s := a.table.find(k.LimitName)
	if s == nil {
		return
	}
	b := a.table.bucketOrOverflow(s, k.Key, false)
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
	if taken != nil && !b.windowContinues(l, taken) {
		return
	}
	if est := b.estimate(now, l, b.cutOff(now, a.cfg.Lease)); l.Ceiling == quota.Hard && l.Kind == quota.TokenBucket {
		cost = min(cost, max(0, l.BurstUnits()-est-b.presumed)) // a full level gains nothing, not even later
	}
	b.countRefund(now, cost)
	b.writeSlot()
	b.estimate(now, l, b.cutOff(now, a.cfg.Lease))
	a.markUrgent(b)
}

// countRefund counts tokens that callers have given back since then. Of a hard bucket, the epoch's first such time is kept.
func (b *bucket) countRefund(since quota.Time, u quota.Units) {
	if l := b.limit(); u > 0 && b.refunded == 0 && l.Ceiling == quota.Hard && l.Kind == quota.TokenBucket {
		b.rare().refundedFrom = since
	}
	b.refunded = b.refunded.Count(u)
}

// windowContinues reports whether the window in which a request was charged continues. If that is uncertain, it does not
// under hard. A periodic window begins with the first use that the leader receives: there, soft compares the time of
// the request, with a tolerance for how late the leader may have received it.
func (b *bucket) windowContinues(l *quota.Limit, taken *Taken) bool {
	if !l.Kind.Windowed() {
		return true
	}
	for _, w := range taken.windows {
		if w.entry == b.entry && w.key == b.key && b.sameWindow(l, w.start) {
			return true
		}
	}
	switch {
	case l.Ceiling == quota.Hard:
		return false
	case l.Kind == quota.PeriodicRefill:
		return taken.At >= b.since.Add(-firstUseDelay)
	}
	return taken.At >= b.since
}

// firstUseDelay is the time that the leader mostly needs at most to receive the first use of a window.
const firstUseDelay = time.Second

// Release ends requests in flight that acquired tokens of a concurrency limit.
func (a *Aggregator) Release(clock Clock, n quota.LimitName, key string, count int64, taken *Taken) {
	s, key := a.table.resolve(n, key)
	if s == nil || !taken.charged(s, true) {
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
	b.rare().inFlight -= u
	b.refunded = b.refunded.Count(u)
	b.estimate(now, l, b.cutOff(now, a.cfg.Lease))
	paid := min(u, b.beyond)
	b.payBeyond(paid)
	if b.phase == open && now < b.lease {
		b.addHeld(u - paid)
	}
	a.markUrgent(b)
}
