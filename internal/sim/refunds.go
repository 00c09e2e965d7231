package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// refundWithin is the longest time from an admission until its caller gives tokens back.
const refundWithin = time.Second

// refundLater gives back what an admitted caller does not use, at the node that admitted it, unless its process
// has ended by then. ideal says whether the ideal admitted the request too.
//
// The property: what was admitted, less what was given back, is at most what the limit allows. A
// refund counts from the moment at which the node receives it, and in a window only if the use was in the
// same window. What was taken before a reset and is given back after it may count in addition: the key that was
// full has no room for it, but others may have used some when the leader learns of it.
func (r *run) refundLater(n *node, w wanted, ideal bool, by []asked, taken *aggregator.Taken) {
	decided, takenAt, inc := r.now, r.takenAt(by), n.inc
	r.after(w.after, func() {
		r.step(event{at: r.now, to: n, inc: inc, what: message, f: func() {
			n.rouse()
			n.agg.RefundTaken(n.clock, r.Limit.LimitName, w.key, w.back, taken)
			delete(n.seen, w.key)
			r.pump(n)
			r.refunded(w.key, w.back, takenAt)
			if ideal {
				r.tally(w.key).ideal.Refund(r.now, quota.FromTokens(w.back), decided)
			}
		}})
	})
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
	if r.mayAsk {
		for i, at := range takenAt {
			r.answered = append(r.answered, answered{at: r.now, key: key, cost: cost, tier: i, refund: true, takenAt: at})
		}
	}
}
