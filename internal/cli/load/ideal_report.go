package load

import (
	"fmt"

	"github.com/quorate/quorate/internal/cli/render"
)

// idealReport is what was admitted beside what one ideal limiter per key would have
// admitted of the same requests.
type idealReport struct {
	IdealAdmitted int64   `json:"ideal_admitted"`
	OverTokens    int64   `json:"over_tokens"`
	UnderTokens   int64   `json:"under_tokens"`
	NetTokens     int64   `json:"net_tokens"`
	OverPct       float64 `json:"over_pct"`
	UnderPct      float64 `json:"under_pct"`
	NetPct        float64 `json:"net_pct"`
	KeysOver      int64   `json:"keys_over_tokens"` // as over, but of each key's total
	KeysUnder     int64   `json:"keys_under_tokens"`
	WorstExcess   int64   `json:"worst_excess_tokens"`
	WorstKey      string  `json:"worst_excess_key,omitempty"`
}

// newIdealReport says it of a comparison; name is what the i-th key is called.
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

// table adds it to a page. excess says what the worst excess is over.
func (r *idealReport) table(p *render.Page, excess string) {
	tbl := render.NewTable("", "TOKENS", "OF IDEAL", "")
	share := func(n int64) string { return fmt.Sprintf("%.2f%%", render.Percent(n, r.IdealAdmitted)) }
	tbl.Row("ideal admitted", r.IdealAdmitted, "", "")
	tbl.Row("net", fmt.Sprintf("%+d", r.NetTokens), fmt.Sprintf("%+.2f%%", r.NetPct), "admitted less what the ideal admitted")
	tbl.Row("over", r.OverTokens, fmt.Sprintf("%.2f%%", r.OverPct), "admitted, the ideal refused")
	tbl.Row("under", r.UnderTokens, fmt.Sprintf("%.2f%%", r.UnderPct), "refused, the ideal admitted")
	tbl.Row("keys over", r.KeysOver, share(r.KeysOver), "what keys got beyond the ideal's total for them")
	tbl.Row("keys under", r.KeysUnder, share(r.KeysUnder), "what keys got short of it")
	if r.WorstKey != "" {
		excess += ", by " + render.Show(r.WorstKey)
	}
	tbl.Row("worst excess", r.WorstExcess, "", excess)
	p.Table(tbl)
}
