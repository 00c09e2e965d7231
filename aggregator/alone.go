package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// decideAlone decides by the limit's when_cut_off: no leader has answered for a whole lease, or none could be asked.
func (a *Aggregator) decideAlone(now quota.Time, t *attempt, b *bucket, l *quota.Limit, est quota.Units) quota.Decision {
	cost := t.cost
	policy, rate := l.CutOff.At(now.Sub(b.lease), l.Ceiling)
	if l.Kind == quota.Concurrency && (policy == quota.CutOffLocal || policy == quota.CutOffShare) {
		return b.inFlightAlone(now, t, l, policy, a.nodes())
	}
	switch policy {
	case quota.CutOffOpen:
		return b.decided(now, l, quota.WhyOpen, true, est, cost)
	case quota.CutOffShare:
		return b.decideLocal(now, t, l, quota.WhyShare, b.shareOf(l, a.nodes()), est)
	case quota.CutOffRate:
		return b.decideLocal(now, t, l, quota.WhyFixedRate, rate, est)
	case quota.CutOffLocal:
		if est >= cost {
			return b.overdraw(now, t, l, quota.WhyLocal, est)
		}
		if l.MaxDebt > 0 {
			return b.reserveAlone(now, t, l, est)
		}
		b.refused = b.refused.Count(cost)
		return b.decided(now, l, quota.WhyOverLimit, false, est, cost)
	}
	b.refused = b.refused.Count(cost)
	d := b.decided(now, l, quota.WhyCutOff, false, est, cost)
	d.RetryAfter = a.leaderRetryAfter(a.leaderless(now, b))
	return d
}

// peekAlone returns the decision of decideAlone for one token, and restores the state. Less than a token is held: it
// is set to 0 during the call, because held is not part of state.
func (a *Aggregator) peekAlone(now quota.Time, t *attempt, b *bucket, l *quota.Limit, est quota.Units) quota.Decision {
	was := b.tryState()
	if b.local != nil {
		own := *b.local
		b.rare().local = &own
	}
	try := *t
	try.cost = quota.Token
	held := b.hot().held.Swap(0)
	d := a.decideAlone(now, &try, b, l, est)
	b.hot().held.Add(held)
	b.state = was
	b.writeSlot()
	if d.Allowed {
		d.Remaining++
	}
	return d
}

// inFlightAlone bounds the requests in flight of this node alone, by the whole limit or by an equal part of it.
func (b *bucket) inFlightAlone(now quota.Time, t *attempt, l *quota.Limit, p quota.CutOffPolicy, nodes int) quota.Decision {
	most, why := l.BurstUnits(), quota.WhyLocal
	if p == quota.CutOffShare {
		most, why = min(most, max(quota.Token, most/quota.Units(nodes))), quota.WhyShare
	}
	left := most - b.inFlight
	if left < t.cost {
		b.refused = b.refused.Count(t.cost)
		return b.decided(now, l, quota.WhyOverLimit, false, left, t.cost)
	}
	return b.overdraw(now, t, l, why, left)
}

// localBucket is a token bucket that this node keeps on its own while it is cut off.
type localBucket struct {
	limiter.Bucket
	since quota.Time // end of the lease that it follows
	rate  quota.Rate
}

// decideLocal decides by a rate of this node's own, with a burst in proportion.
func (b *bucket) decideLocal(now quota.Time, t *attempt, l *quota.Limit, why quota.Why, rate quota.Rate, est quota.Units) quota.Decision {
	cost := t.cost
	burst := b.ensureLocal(now, l, rate, est)
	if !b.local.Take(now, rate, burst, cost) {
		b.refused = b.refused.Count(cost)
		d := b.decided(now, l, quota.WhyOverLimit, false, b.local.Level(), cost)
		d.RetryAfter = max(rate.TimeFor(cost-b.local.Level()), spacing)
		if cost > burst {
			d.RetryAfter = never
		}
		return d
	}
	return b.overdraw(now, t, l, why, est)
}

// ensureLocal makes the bucket for the rate if necessary, and returns its burst.
func (b *bucket) ensureLocal(now quota.Time, l *quota.Limit, rate quota.Rate, est quota.Units) quota.Units {
	burst := burstFor(l, rate)
	if b.local == nil || b.local.since != b.lease || b.local.rate != rate {
		b.rare().local = &localBucket{limiter.NewBucket(min(burst, max(0, est)), now), b.lease, rate}
	}
	return burst
}

// burstFor returns the limit's burst in proportion to a part of its rate, at least one token.
func burstFor(l *quota.Limit, rate quota.Rate) quota.Units {
	if l.Kind == quota.Concurrency || l.Rate.PerSecond() <= 0 || rate.Per <= 0 {
		return quota.Token
	}
	part := quota.MulDiv(int64(l.BurstUnits()), rate.Tokens, l.Rate.Tokens)
	part = quota.MulDiv(part, int64(l.Rate.Per), int64(rate.Per))
	return max(quota.Token, min(l.BurstUnits(), quota.Units(part)))
}

// shareOf returns the part of the limit's rate that was this node's at the last grants: by demand, at least an equal
// part.
func (b *bucket) shareOf(l *quota.Limit, nodes int) quota.Rate {
	parts := max(int64(b.share), (quota.Million+int64(nodes)-1)/int64(nodes))
	return quota.Rate{Tokens: l.Rate.Tokens, Per: time.Duration(quota.MulDiv(int64(l.Rate.Per), quota.Million, parts))}
}

// averageShare averages this node's part of the demand, for the time when it is cut off. since is sinceLevel. A smaller
// part counts nearly at once, a larger one after seconds: a key's first grants do not include the others yet, and
// nodes that are silent for a moment, because machines or networks are overloaded, still have their parts. The next
// event may be the cut.
func (b *bucket) averageShare(l *quota.Limit, e *quota.GrantEntry, since time.Duration) {
	share := min(b.partOf(l, e), quota.Million)
	slow := shareFalls
	if share > int64(b.share) {
		slow = shareRises
	}
	b.share = uint32(int64(b.share) + quota.MulDiv(share-int64(b.share), int64(since), int64(since+slow)))
}

// Time constants of the share: after that time, about two thirds of a change count.
const (
	shareFalls = 200 * time.Millisecond
	shareRises = 3 * time.Second
)

// sinceLevel returns the time since a leader last reported the level, at most a second: one grant says little about a
// longer time.
func (b *bucket) sinceLevel(at quota.Time) time.Duration {
	if !b.hasLevel {
		return 0
	}
	return min(max(0, at.Sub(b.levelAt)), time.Second)
}

// partOf returns this node's part of the demand, as the leader sees it, in millionths.
func (b *bucket) partOf(l *quota.Limit, e *quota.GrantEntry) int64 {
	if whole := l.Rate.PerSecond(); e.Rate > 0 && whole > 0 {
		return quota.MulDiv(int64(e.Rate), quota.Million, int64(whole)) // the granted rate varies less than the demand
	}
	if sum := b.demand + e.Others; sum > 0 {
		return quota.MulDiv(quota.Million, int64(b.demand), int64(sum))
	}
	return 0
}
