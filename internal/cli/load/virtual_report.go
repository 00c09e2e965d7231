package load

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// VirtualReport is the output of "quorate replay --virtual -o json". Fields may be added, but not
// renamed. Times are those of the log.
type VirtualReport struct {
	File     string          `json:"limits_file"`
	Nodes    int             `json:"nodes"`
	Skew     string          `json:"skew"`
	SyncMS   float64         `json:"sync_ms"`
	DelayMS  float64         `json:"delay_ms"`
	Seed     uint64          `json:"seed"`
	KeyOf    string          `json:"key"`
	Requests int64           `json:"requests"`
	Keys     int             `json:"keys"`
	From     time.Time       `json:"from"`
	To       time.Time       `json:"to"`
	BadLines int             `json:"bad_lines"`
	BadShown []string        `json:"bad_lines_shown,omitempty"`
	Limits   []virtualResult `json:"limits"`
}

// virtualResult is what one limit would have done. Attempted counts the requests that it applies
// to.
type virtualResult struct {
	Limit     ruleReport       `json:"limit"`
	Attempted int64            `json:"attempted"`
	Admitted  int64            `json:"admitted"`
	Refused   int64            `json:"refused"`
	Why       map[string]int64 `json:"why"`
	KeysSeen  int              `json:"keys"`
	KeysCut   int              `json:"keys_refused"` // keys with at least one refusal

	idealReport

	Tiers       []tierReport `json:"tiers"`
	Hours       []hourReport `json:"hours"` // hours with requests
	MostRefused []whomReport `json:"most_refused"`
}

// tierReport counts the refusals of one tier of a limit.
type tierReport struct {
	Tier    int    `json:"tier"` // from 1
	Text    string `json:"text"`
	Refused int64  `json:"refused"`
}

// hourReport covers one hour of the log, in UTC.
type hourReport struct {
	From      time.Time `json:"from"`
	Attempted int64     `json:"attempted"`
	Refused   int64     `json:"refused"`
}

// whomReport describes one key. By names the limit that refused it first, with the tier if the
// limit has several.
type whomReport struct {
	Key           string    `json:"key"`
	Attempted     int64     `json:"attempted"`
	Admitted      int64     `json:"admitted"`
	Refused       int64     `json:"refused"`
	IdealAdmitted int64     `json:"ideal_admitted"`
	FirstRefused  time.Time `json:"first_refused"`
	By            string    `json:"by"`
	ByTier        int       `json:"by_tier"`
}

func newVirtualReport(r *replayer) *VirtualReport {
	first, last := r.span()
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return &VirtualReport{
		File: r.limits, Nodes: r.Nodes, Skew: r.skew, SyncMS: millis(r.sync), DelayMS: millis(r.delay), Seed: r.seed, KeyOf: r.key,
		Requests: int64(len(r.access.requests)), Keys: len(r.access.keys), From: first.UTC(), To: last.UTC(),
		BadLines: r.access.bad, BadShown: r.access.badShown, Limits: []virtualResult{},
	}
}

// add sums up the decisions of one limit.
func (v *VirtualReport) add(r *replayer, l *quota.Limit, decisions []decision) {
	res := virtualResult{Limit: newRuleReport(l), Why: map[string]int64{}}
	for i, t := range l.Tiers() {
		res.Tiers = append(res.Tiers, tierReport{Tier: i + 1, Text: tierText(&t)})
	}
	keys := make([]whomReport, len(r.access.keys))
	for _, d := range decisions {
		res.count(&keys[d.key], v.From.Add(d.moment), d)
	}
	c := compare(decisions, len(keys), l, quota.Time(v.From.UnixNano()))
	res.idealReport = newIdealReport(&c, func(i int32) string { return r.access.keys[i] })
	for i := range keys {
		keys[i].Key, keys[i].IdealAdmitted = r.access.keys[i], c.IdealByKey[i]
	}
	res.rank(keys, r.top)
	v.Limits = append(v.Limits, res)
}

func (res *virtualResult) count(k *whomReport, at time.Time, d decision) {
	hour := at.Truncate(time.Hour)
	if n := len(res.Hours); n == 0 || !res.Hours[n-1].From.Equal(hour) {
		res.Hours = append(res.Hours, hourReport{From: hour})
	}
	h := &res.Hours[len(res.Hours)-1]
	h.Attempted++
	k.Attempted++
	res.Attempted++
	res.Why[d.why.String()]++
	if d.allowed {
		k.Admitted++
		res.Admitted++
		return
	}
	tier := min(max(int(d.tier), 1), len(res.Tiers))
	res.Tiers[tier-1].Refused++
	if k.Refused == 0 {
		k.FirstRefused, k.ByTier, k.By = at.Truncate(time.Second), tier, res.Limit.Name
		if len(res.Tiers) > 1 {
			k.By = fmt.Sprintf("%s tier %d", k.By, tier)
		}
	}
	h.Refused++
	k.Refused++
	res.Refused++
}

// rank lists the most refused keys, and counts all.
func (res *virtualResult) rank(keys []whomReport, top int) {
	for i := range keys {
		if keys[i].Attempted > 0 {
			res.KeysSeen++
		}
	}
	keys = slices.DeleteFunc(keys, func(k whomReport) bool { return k.Refused == 0 })
	res.KeysCut = len(keys)
	slices.SortStableFunc(keys, func(a, b whomReport) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key))
	})
	res.MostRefused = append([]whomReport{}, keys[:min(len(keys), top)]...)
}

// tierText formats a tier: 100 per 1m (sliding).
func tierText(t *quota.Tier) string {
	switch {
	case t.Kind == quota.CalendarWindow:
		return fmt.Sprintf("%d per %v (%v)", t.Burst, t.Calendar.Unit, t.Calendar.Location())
	case t.Kind.Windowed():
		return fmt.Sprintf("%d per %s (%v)", t.Burst, render.Span(t.Rate.Per), t.Kind)
	}
	return fmt.Sprintf("%v, burst %d", t.Rate, t.Burst)
}

const logMoment = "2006-01-02 15:04:05"

func (v *VirtualReport) print(p *render.Page) {
	fmt.Fprintf(p, "limits       %s\n", v.File)
	fmt.Fprintf(p, "nodes        %d, simulated (%s), sync %g ms, delay %g ms, seed %d\n", v.Nodes, v.Skew, v.SyncMS, v.DelayMS, v.Seed)
	fmt.Fprintf(p, "log          %s of %s (%s), %s to %s UTC\n", phrase.Plural(int(v.Requests), "request"), phrase.Plural(v.Keys, "key"), v.KeyOf, v.From.Format(logMoment), v.To.Format(logMoment))
	if v.BadLines > 0 {
		fmt.Fprintf(p, "bad lines    %d, left out (%s)\n", v.BadLines, strings.Join(v.BadShown, "; "))
	}
	for i := range v.Limits {
		v.Limits[i].print(p)
	}
}

func (res *virtualResult) print(p *render.Page) {
	var texts []string
	for _, t := range res.Tiers {
		texts = append(texts, t.Text)
	}
	fmt.Fprintf(p, "\nlimit        %s: %s, %s\n", res.Limit.Name, strings.Join(texts, " and "), res.Limit.Ceiling)
	fmt.Fprintf(p, "attempted    %d by %s\nadmitted     %d\n", res.Attempted, phrase.Plural(res.KeysSeen, "key"), res.Admitted)
	fmt.Fprintf(p, "refused      %d (%.2f%%) of %s\nwhy          %s\n", res.Refused, render.Percent(res.Refused, res.Attempted), phrase.Plural(res.KeysCut, "key"), render.Words(res.Why))
	if len(res.Tiers) > 1 {
		for _, t := range res.Tiers {
			fmt.Fprintf(p, "by tier %-4d %d, %s\n", t.Tier, t.Refused, t.Text)
		}
	}
	writeHours(p, res.Hours)
	fmt.Fprint(p, "\nagainst one ideal limiter per key, fed the same requests at the same moments:\n")
	res.table(p, "over what the limit allows in any stretch of time")
	if len(res.MostRefused) == 0 {
		return
	}
	fmt.Fprint(p, "\nmost refused:\n")
	tbl := render.NewTable("KEY", "ATTEMPTED", "ADMITTED", "REFUSED", "IDEAL ADMITTED", "FIRST REFUSED", "BY")
	for _, k := range res.MostRefused {
		tbl.Row(phrase.Show(k.Key), k.Attempted, k.Admitted, k.Refused, k.IdealAdmitted, k.FirstRefused.Format(logMoment), k.By)
	}
	p.Table(tbl)
}

// maxChartDays bounds the number of lines in a chart.
const maxChartDays = 31

// hourBars are the bars for an hour's refusals: none, then up to the maximum of all hours.
var hourBars = []rune("·▁▂▃▄▅▆▇█")

// writeHours draws refusals: one line per day of the log with requests, and one column per hour.
// The hours must be in order of time.
func writeHours(w io.Writer, hours []hourReport) {
	most, at := int64(0), time.Time{}
	for _, h := range hours {
		if h.Refused > most {
			most, at = h.Refused, h.From
		}
	}
	if most == 0 {
		return
	}
	fmt.Fprintf(w, "\nrefused in each hour (UTC), at most %d, from %s on; · is requests and no refusal:\n", most, at.Format("2006-01-02 15:04"))
	fmt.Fprintf(w, "%-12s00    06    12    18\n", "")
	for days := 0; len(hours) > 0; days++ {
		n, day := 0, hours[0].From.Format(time.DateOnly)
		for n < len(hours) && hours[n].From.Format(time.DateOnly) == day {
			n++
		}
		if days == maxChartDays {
			fmt.Fprintf(w, "(and more, until %s)\n", hours[len(hours)-1].From.Format(time.DateOnly))
			return
		}
		writeDay(w, hours[:n], most)
		hours = hours[n:]
	}
}

func writeDay(w io.Writer, hours []hourReport, most int64) {
	var attempted, refused int64
	bars := []rune(strings.Repeat(" ", 24))
	for _, h := range hours {
		attempted += h.Attempted
		refused += h.Refused
		i := int64(0)
		if top := int64(len(hourBars) - 1); h.Refused > 0 {
			i = 1 + (h.Refused-1)*(top-1)/max(most-1, 1)
			if most == 1 {
				i = top
			}
		}
		bars[h.From.Hour()] = hourBars[i]
	}
	fmt.Fprintf(w, "%s  %s  %d of %d\n", hours[0].From.Format(time.DateOnly), string(bars), refused, attempted)
}
