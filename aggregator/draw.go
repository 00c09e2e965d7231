package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// drawParts is the number of requests into which a Draw is split. With fewer, a node that holds a little less than
// want gets nothing; with more, each costs its time.
const drawParts = 10

// Draw charges up to want tokens of a key for a caller that passes them on, and returns how many it got: as many as a
// series of small requests would get now. It blocks on nothing but the lock of the key. The rest counts as refused.
// Of a limit that is not enforced it gets all.
func (a *Aggregator) Draw(clock Clock, k quota.Key, want int64) (got int64) {
	step := max(1, (want+drawParts-1)/drawParts)
	for got < want {
		n := min(step, want-got)
		if !a.checkNow(clock, k.LimitName, k.Key, n).Allowed {
			if rest := want - got - n; rest > 0 {
				a.Miss(clock, k, rest)
			}
			return got
		}
		got += n
	}
	return got
}

// Refused notes that a node has refused a cost because that was not left, and for how long. Until then, or until the
// level in a grant covers the cost, checks of that cost or more do not ask again; the estimate is no higher than the
// refusal implies, so that they are refused for the same time. Only limits with one counter that may ask the leader
// remember it.
func (a *Aggregator) Refused(clock Clock, k quota.Key, cost int64, retry time.Duration) {
	s, key := a.table.resolve(k.LimitName, k.Key)
	if s == nil || cost <= 0 || retry <= 0 || len(s.rule.Load().charges) != 1 {
		return
	}
	b := a.table.lookup(s, key)
	if b == nil {
		return
	}
	b.lock()
	defer b.unlock()
	l, now := b.limit(), clock()
	if b.dead || b.phase == closed || !b.asks(l) || l.AsksLeader() {
		return
	}
	b.setDenied(now.Add(min(retry, a.cfg.Lease)), quota.FromTokens(cost))
	missing := quota.Units(1)
	if l.Kind == quota.TokenBucket {
		missing = quota.Units(quota.MulDiv(int64(quota.FromTokens(l.Rate.Tokens)), int64(retry), int64(l.Rate.Per)))
	}
	if left := quota.FromTokens(cost) - max(1, missing); b.estimate(now, l, false).Plus(b.presumed) > left {
		b.est, b.presumed = left, 0
	}
}

// Miss counts a refusal elsewhere, by a process that spends tokens which this node drew: it is demand, and nothing
// else.
func (a *Aggregator) Miss(clock Clock, k quota.Key, cost int64) {
	s, key := a.table.resolve(k.LimitName, k.Key)
	if s == nil || cost <= 0 {
		return
	}
	for _, c := range s.rule.Load().charges {
		if c.up == 0 && !c.floor {
			a.miss(clock, c.entry, key, quota.FromTokens(cost))
		}
	}
}

// miss counts the cost as refused by one counter.
func (a *Aggregator) miss(clock Clock, s *limitEntry, key string, cost quota.Units) {
	b := a.table.bucket(s, key)
	if b == nil {
		return
	}
	b.lock()
	defer b.unlock()
	l := b.limit()
	if b.dead || l.Class != quota.Counted || l.Enforcement == quota.Off {
		return
	}
	now := clock()
	if b.phase == closed {
		a.openBucket(now, b, l)
	}
	b.roll(now, l)
	b.refused = b.refused.Count(cost)
}

// Standing returns the state of a key, without opening it. For a key that is unknown here, only Limit and Tier are
// known, and Level is the burst.
func (a *Aggregator) Standing(clock Clock, k quota.Key) quota.Standing {
	s, key := a.table.resolve(k.LimitName, k.Key)
	if s == nil {
		return quota.Standing{}
	}
	r := s.rule.Load()
	l := a.effective(s, r, key)
	st := quota.Standing{
		Limit: l, Tier: l.First(), Level: l.BurstUnits(),
		Shadow: l.Enforcement != quota.Enforce || !inFraction(l, key), Nodes: a.nodes(),
	}
	at := slowest(r, s)
	b := a.table.lookup(at, key)
	if b == nil {
		if at != s {
			st.Tier = at.rule.Load().limit.First()
			st.Level = quota.FromTokens(st.Tier.Burst)
		}
		return st
	}
	b.lock()
	defer b.unlock()
	own := b.limit()
	st.Tier = own.First()
	now := clock()
	st.Level = b.estimate(now, own, b.cutOff(now, a.cfg.Lease))
	if own.Kind != quota.SlidingWindow {
		st.Window = b.win
	}
	if b.phase == open {
		st.Rate, st.Others, st.HasLevel = b.rate, b.others, b.hasLevel && !b.cutOff(now, a.cfg.Lease)
	}
	return st
}

// slowest returns the counter with the lowest rate among the limit's own.
func slowest(r *rule, s *limitEntry) *limitEntry {
	at := s
	for _, c := range r.charges {
		if c.up > 0 || c.floor {
			continue
		}
		if c.entry.rule.Load().limit.Rate.PerSecond() < at.rule.Load().limit.Rate.PerSecond() {
			at = c.entry
		}
	}
	return at
}
