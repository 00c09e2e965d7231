package load

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// decision is the cluster's answer to one request.
type decision struct {
	key     int32
	moment  time.Duration // since the start; halfway between request and answer
	cost    int64
	allowed bool
	why     quota.Why
	tier    int16 // the tier that decided, from 1; 0 is unknown
	valid   bool  // the request was answered
}

// comparison is the difference between a cluster and one ideal limiter per key. The ideal limiters
// run independently: they continue from what they admit themselves, not from what the cluster
// admitted.
type comparison struct {
	Admitted      int64 // tokens
	IdealAdmitted int64
	Over          int64 // admitted, while the ideal refused
	Under         int64 // refused, while the ideal admitted
	// WorstExcess is the most that the cluster admitted beyond burst + rate x time, over any span
	// of time and any key. WorstKey is that key.
	WorstExcess int64
	WorstKey    int32
	IdealByKey  []int64 // tokens that the ideal admitted, per key
	ByKey       []int64 // tokens that the cluster admitted, per key
}

// compare replays the decisions through ideal limiters of one limit, without its parents. The limit
// may have tiers of any kind but concurrency. The decisions are ordered by moment; start, the
// origin of the moments, only matters to windows. compare sorts decisions in place.
func compare(decisions []decision, keys int, l *quota.Limit, start quota.Time) comparison {
	slices.SortStableFunc(decisions, func(a, b decision) int { return cmp.Compare(a.moment, b.moment) })
	tiers := l.Tiers()
	type limiters struct {
		ideal    sim.Ideal
		admitted sim.Envelope // of what the cluster admitted
		used     bool
	}
	byKey := make([]limiters, keys)
	c := comparison{WorstKey: -1, IdealByKey: make([]int64, keys), ByKey: make([]int64, keys)}
	var worst quota.Units
	for _, d := range decisions {
		if !d.valid {
			continue
		}
		k, now, cost := &byKey[d.key], start.Add(d.moment), quota.FromTokens(d.cost)
		if !k.used {
			*k = limiters{sim.NewIdeal(l, tiers, now), sim.NewEnvelope(tiers, now), true}
		}
		ideal, _ := k.ideal.Take(now, cost)
		if ideal {
			c.IdealAdmitted += d.cost
			c.IdealByKey[d.key] += d.cost
		}
		if d.allowed {
			c.Admitted += d.cost
			c.ByKey[d.key] += d.cost
			debt, _ := k.admitted.Charge(now, cost)
			if excess := debt - l.DebtUnits(); excess > worst { // waiting callers may reserve DebtUnits
				worst, c.WorstKey = excess, d.key
			}
		}
		switch {
		case d.allowed && !ideal:
			c.Over += d.cost
		case !d.allowed && ideal:
			c.Under += d.cost
		}
	}
	c.WorstExcess = (worst + quota.Token - 1).Tokens()
	return c
}

// byKey returns what keys got more and less than from the ideal limiter. It does not see two
// decisions on a key that only swapped places, which happens when their moments are closer than a
// round trip.
func (c *comparison) byKey() (over, under int64) {
	for i, ideal := range c.IdealByKey {
		over += max(c.ByKey[i]-ideal, 0)
		under += max(ideal-c.ByKey[i], 0)
	}
	return over, under
}

// idealReport compares what was admitted with what one ideal limiter per key would have admitted of
// the same requests.
type idealReport struct {
	IdealAdmitted int64   `json:"ideal_admitted"`
	OverTokens    int64   `json:"over_tokens"`
	UnderTokens   int64   `json:"under_tokens"`
	NetTokens     int64   `json:"net_tokens"`
	OverPct       float64 `json:"over_pct"`
	UnderPct      float64 `json:"under_pct"`
	NetPct        float64 `json:"net_pct"`
	KeysOver      int64   `json:"keys_over_tokens"` // like over, but from each key's total
	KeysUnder     int64   `json:"keys_under_tokens"`
	WorstExcess   int64   `json:"worst_excess_tokens"`
	WorstKey      string  `json:"worst_excess_key,omitempty"`
}

// newIdealReport returns the report of a comparison; name returns the name of the i-th key.
func newIdealReport(c *comparison, name func(i int32) string) idealReport {
	net := c.Admitted - c.IdealAdmitted
	r := idealReport{
		IdealAdmitted: c.IdealAdmitted, OverTokens: c.Over, UnderTokens: c.Under, NetTokens: net, WorstExcess: c.WorstExcess,
		OverPct: render.Percent(c.Over, c.IdealAdmitted), UnderPct: render.Percent(c.Under, c.IdealAdmitted), NetPct: render.Percent(net, c.IdealAdmitted),
	}
	r.KeysOver, r.KeysUnder = c.byKey()
	if c.WorstKey >= 0 {
		r.WorstKey = name(c.WorstKey)
	}
	return r
}

// table adds the report to a page. excess says what the worst excess is measured against.
func (r *idealReport) table(p *render.Page, excess string) {
	tbl := render.NewTable("", "TOKENS", "OF IDEAL", "")
	share := func(n int64) string { return fmt.Sprintf("%.2f%%", render.Percent(n, r.IdealAdmitted)) }
	tbl.Row("ideal admitted", r.IdealAdmitted, "", "")
	tbl.Row("net", fmt.Sprintf("%+d", r.NetTokens), fmt.Sprintf("%+.2f%%", r.NetPct), "admitted less what the ideal admitted")
	tbl.Row("over", r.OverTokens, fmt.Sprintf("%.2f%%", r.OverPct), "admitted, the ideal refused")
	tbl.Row("under", r.UnderTokens, fmt.Sprintf("%.2f%%", r.UnderPct), "refused, the ideal admitted")
	tbl.Row("keys over", r.KeysOver, share(r.KeysOver), "by how much keys got more than their ideal total")
	tbl.Row("keys under", r.KeysUnder, share(r.KeysUnder), "by how much keys got less than that")
	if r.WorstKey != "" {
		excess += ", by " + phrase.Show(r.WorstKey)
	}
	tbl.Row("worst excess", r.WorstExcess, "", excess)
	p.Table(tbl)
}
