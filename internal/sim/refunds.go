package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// refundWithin is the longest time from an admission until its caller gives tokens back, unless the load has another.
const refundWithin = time.Second

// givesBack returns a function that gives back, at the node or client that admitted a request, what its caller does not
// use. ideal says whether the ideal admitted the request too.
//
// The property: what was admitted, less what was given back, is at most what the limit allows. A
// refund counts from the moment at which the process receives it, and in a window only if the use was in the
// same window. What was taken before a reset and is given back after it may count in addition: the key that was
// full has no room for it, but others may have used some when the leader learns of it.
func (r *run) givesBack(w wanted, ideal bool, by []asked, taken *aggregator.Taken) func(*aggregator.Aggregator, aggregator.Clock) {
	decided, takenAt := r.now, r.takenAt(by)
	return func(agg *aggregator.Aggregator, clock aggregator.Clock) {
		agg.RefundTaken(clock, r.Limit.LimitName, w.key, w.back, taken)
		r.refunded(w.key, w.back, takenAt)
		if ideal {
			r.tally(w.key).ideal.Refund(r.now, quota.FromTokens(w.back), decided)
		}
	}
}

// takenAt returns when an admission that is concluded now was decided in each tier.
func (r *run) takenAt(by []asked) []quota.Time {
	at := make([]quota.Time, len(r.tiers))
	for i := range at {
		at[i] = r.now
	}
	for _, a := range by {
		at[a.tier-1] = a.at
	}
	return at
}

// refunded books a refund on the envelopes.
func (r *run) refunded(key string, tokens int64, takenAt []quota.Time) {
	r.res.Refunded += tokens
	if slices.Min(takenAt) <= r.resetAt {
		r.regained += tokens
	}
	t, cost := r.tally(key), quota.FromTokens(tokens)
	t.envelop.Refund(r.now, cost, takenAt)
	t.backing.Refund(r.now, cost, takenAt)
	for i := range r.above {
		r.above[i].Refund(r.now, cost, []quota.Time{slices.Min(takenAt)})
	}
	if r.mayAsk {
		for i, at := range takenAt {
			r.answered = append(r.answered, answered{at: r.now, key: key, cost: cost, tier: i, refund: true, takenAt: at})
		}
	}
}
