package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// topRefused is how many of the most refused keys a report shows by default.
const topRefused = 10

// replayReport is the output of "quorate replay -o json". Fields may be added, but not renamed.
type replayReport struct {
	Limit    ruleReport `json:"limit"`
	Nodes    int        `json:"nodes"`
	Skew     string     `json:"skew"`
	Speed    float64    `json:"speed"`
	Prefix   string     `json:"key_prefix"`
	Keys     int        `json:"keys"`
	BadLines int        `json:"bad_lines"`
	BadShown []string   `json:"bad_lines_shown,omitempty"`
	Seconds  float64    `json:"seconds"`

	Requests int64            `json:"requests"`
	Admitted int64            `json:"admitted"`
	Refused  int64            `json:"refused"`
	Errors   int64            `json:"errors"`
	Rerouted int64            `json:"rerouted"`
	Why      map[string]int64 `json:"why"`

	idealReport

	Sender      senderReport `json:"sender"`
	MostRefused []keyReport  `json:"most_refused"`
}

type ruleReport struct {
	Name    string `json:"name"`
	Rate    string `json:"rate"`
	Burst   int64  `json:"burst"`
	Ceiling string `json:"ceiling"`
}

func newRuleReport(l *quota.Limit) ruleReport {
	return ruleReport{l.LimitName.String(), l.Rate.String(), l.Burst, l.Ceiling.String()}
}

func (r ruleReport) String() string {
	return fmt.Sprintf("%s: %s, burst %d, %s", r.Name, r.Rate, r.Burst, r.Ceiling)
}

type keyReport struct {
	Key           string `json:"key"`
	Requests      int64  `json:"requests"`
	Admitted      int64  `json:"admitted"`
	Refused       int64  `json:"refused"`
	IdealAdmitted int64  `json:"ideal_admitted"`
}

func (r *replayer) report() *replayReport {
	sent := r.pace.sentSoFar()
	c := compare(r.decisions, len(r.access.keys), &r.rule, 0)
	rep := &replayReport{
		Limit: newRuleReport(&r.rule), Nodes: len(r.addrs), Skew: r.skew, Speed: r.speed, Prefix: r.prefix,
		Keys: len(r.access.keys), BadLines: r.access.bad, BadShown: r.access.badShown,
		Seconds: time.Since(r.pace.start).Seconds(), Requests: sent,
		Admitted: r.allowed.Load(), Refused: r.refused.Load(), Errors: r.errors.Load(), Why: make(map[string]int64),
		idealReport: newIdealReport(&c, func(i int32) string { return strings.TrimPrefix(r.access.keys[i], r.prefix) }),
		Sender:      r.pace.report(),
	}
	for _, n := range r.pool.nodes {
		rep.Rerouted += n.rerouted
	}
	keys := make([]keyReport, len(r.access.keys))
	for i, k := range r.access.keys {
		keys[i] = keyReport{Key: strings.TrimPrefix(k, r.prefix), IdealAdmitted: c.IdealByKey[i]}
	}
	for _, d := range r.decisions {
		if !d.valid {
			continue
		}
		rep.Why[d.why.String()]++
		k := &keys[d.key]
		k.Requests++
		if d.allowed {
			k.Admitted++
		} else {
			k.Refused++
		}
	}
	slices.SortStableFunc(keys, func(a, b keyReport) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key))
	})
	rep.MostRefused = []keyReport{}
	for _, k := range keys[:min(len(keys), r.top)] {
		if k.Refused > 0 {
			rep.MostRefused = append(rep.MostRefused, k)
		}
	}
	return rep
}

func (r *replayReport) print(p *render.Page) {
	fmt.Fprintf(p, "limit        %v\n", r.Limit)
	fmt.Fprintf(p, "played       %s of %s in %.1f s to %s (%s), at %gx\n", phrase.Plural(int(r.Requests), "request"), phrase.Plural(r.Keys, "key"), r.Seconds, phrase.Plural(r.Nodes, "node"), r.Skew, r.Speed)
	fmt.Fprintf(p, "key prefix   %s\n", r.Prefix)
	if r.BadLines > 0 {
		fmt.Fprintf(p, "bad lines    %d, left out (%s)\n", r.BadLines, strings.Join(r.BadShown, "; "))
	}
	fmt.Fprintf(p, "\nadmitted     %d\nrefused      %d\nerrors       %d (rerouted %d)\nwhy          %s\n", r.Admitted, r.Refused, r.Errors, r.Rerouted, render.Words(r.Why))
	fmt.Fprint(p, r.Sender)
	fmt.Fprintf(p, "\nagainst one ideal bucket per key, fed the same requests at the same moments:\n")
	r.table(p, "over burst + rate x time")
	if len(r.MostRefused) > 0 {
		fmt.Fprint(p, "\nmost refused:\n")
		keys := render.NewTable("KEY", "REQUESTS", "ADMITTED", "REFUSED", "IDEAL ADMITTED")
		for _, k := range r.MostRefused {
			keys.Row(phrase.Show(k.Key), k.Requests, k.Admitted, k.Refused, k.IdealAdmitted)
		}
		p.Table(keys)
	}
}
