package sim

import (
	"slices"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// chargeUse books use that has already happened at a node or a client.
//
// The property: of a charge, the part for which the process holds tokens counts like an admission. The rest is debt: other
// processes may hold tokens that it should have taken, so the envelopes do not count it; a charge never lets more requests
// pass. All of it must be in the books in the end ([CountsOnce]).
func (r *run) chargeUse(agg *aggregator.Aggregator, clock aggregator.Clock, limits *quota.Limits, key string, used int64) {
	held := make([]quota.Units, len(r.tiers))
	charges := limits.Charges(r.Limit.LimitName) // one per tier
	for i := range held {
		held[i] = agg.Held(quota.Key{LimitName: charges[i].Limit.LimitName, Key: key})
	}
	booked, _ := agg.Charge(clock, r.Limit.LimitName, key, used)
	r.res.Charged += booked
	t := r.tally(key)
	t.ideal.Owe(r.now, quota.FromTokens(booked))
	paid := make([]quota.Units, len(held))
	for i := range paid {
		paid[i] = min(held[i], quota.FromTokens(booked))
	}
	if slices.Max(paid) > 0 {
		r.paid(t, key, paid)
	}
}

// paid books what was paid in each tier on the envelopes.
func (r *run) paid(t *tally, key string, paid []quota.Units) {
	all, window := t.envelop.ChargeEach(r.now, paid)
	r.res.Excess = max(r.res.Excess, inTokens(all))
	r.res.WorstWindow = max(r.res.WorstWindow, inTokens(window))
	t.backing.ChargeEach(r.now, paid)
	if r.mayAsk {
		for i := range paid {
			r.answered = append(r.answered, answered{at: r.now, key: key, cost: paid[i], tier: i})
		}
	}
}
