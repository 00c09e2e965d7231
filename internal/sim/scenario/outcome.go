package scenario

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/sim"
)

// Outcome is the result of one run, in the form of quorate sim -o json. See [Worst] for several
// seeds. Percentages are relative to what the ideal admitted, unless stated otherwise. Fields are
// added, never renamed.
type Outcome struct {
	Seed uint64 `json:"seed"`

	Attempted int64 `json:"attempted"`      // tokens asked for
	Admitted  int64 `json:"admitted"`       // tokens
	Ideal     int64 `json:"ideal_admitted"` // by one central limiter with the same requests at the same times

	OverPct  float64 `json:"over_pct"`  // admitted, but refused by the ideal
	UnderPct float64 `json:"under_pct"` // refused, but admitted by the ideal
	NetPct   float64 `json:"net_pct"`   // admitted less what the ideal admitted

	WorstExcess  Excess  `json:"worst_excess"`
	WorstWindow  float64 `json:"worst_window_excess"` // tokens beyond the count of a window; 0 for a bucket
	WrongRefused int64   `json:"decisions_wrong_refusals"`

	ReportsPerSecond     float64  `json:"reports_per_second"` // by all nodes
	ReportsPerNodeSecond float64  `json:"reports_per_node_second"`
	ClientReports        float64  `json:"client_reports_per_second,omitempty"` // by all clients, to their nodes
	BytesPerSecond       float64  `json:"bytes_per_second"`                    // reports and grants, of all nodes
	LearningMS           float64  `json:"learning_ms"`                         // from the last leader's death until the next one has learned
	NodeSeconds          float64  `json:"node_seconds"`
	CPUSeconds           float64  `json:"cpu_seconds"`
	Violations           []string `json:"violations"` // the first ten violations of invariants in a run

	Series []sim.Second  `json:"-"` // the run in steps of Each
	Each   time.Duration `json:"-"`
}

// Excess is the most that was admitted beyond burst + rate x time over any interval of the run.
type Excess struct {
	Tokens float64 `json:"tokens"`
	Bursts float64 `json:"bursts"` // of the first tier
}

// outcome converts a simulator's result.
func (s *Scenario) outcome(seed uint64, r *sim.Result) Outcome {
	seconds, ideal := s.Duration.Seconds(), math.Max(1, float64(r.Ideal))
	o := Outcome{
		Seed: seed, Attempted: r.Attempted, Admitted: r.Admitted, Ideal: r.Ideal,
		OverPct: 100 * float64(r.Over) / ideal, UnderPct: 100 * float64(r.Under) / ideal, NetPct: 100 * r.Error(),
		WrongRefused:     r.WrongRefusals,
		ReportsPerSecond: float64(r.Reports) / seconds, ReportsPerNodeSecond: float64(r.Reports) / seconds / float64(s.Nodes),
		ClientReports:  float64(r.ClientReports) / seconds,
		BytesPerSecond: float64(r.Bytes) / seconds, LearningMS: float64(r.Learned.Microseconds()) / 1000,
		NodeSeconds: r.NodeSeconds, Violations: append([]string{}, r.Violations...), Series: r.Series, Each: r.Each,
	}
	if r.Excess >= rounding {
		o.WorstExcess = Excess{r.Excess, r.ExcessBursts}
	}
	if r.WorstWindow >= rounding {
		o.WorstWindow = r.WorstWindow
	}
	return o
}

// rounding is the excess, in tokens, that is attributed to rounding.
const rounding = 0.01

// measure is a number of an outcome that files can bound.
type measure struct {
	name  string
	value func(*Outcome) float64
}

// measures are all measures in the order of the JSON form.
var measures = []measure{
	{"attempted", func(o *Outcome) float64 { return float64(o.Attempted) }},
	{"admitted", func(o *Outcome) float64 { return float64(o.Admitted) }},
	{"over_pct", func(o *Outcome) float64 { return o.OverPct }},
	{"under_pct", func(o *Outcome) float64 { return o.UnderPct }},
	{"net_pct", func(o *Outcome) float64 { return o.NetPct }},
	{"worst_excess.tokens", func(o *Outcome) float64 { return o.WorstExcess.Tokens }},
	{"worst_excess.bursts", func(o *Outcome) float64 { return o.WorstExcess.Bursts }},
	{"worst_window_excess", func(o *Outcome) float64 { return o.WorstWindow }},
	{"decisions_wrong_refusals", func(o *Outcome) float64 { return float64(o.WrongRefused) }},
	{"reports_per_second", func(o *Outcome) float64 { return o.ReportsPerSecond }},
	{"reports_per_node_second", func(o *Outcome) float64 { return o.ReportsPerNodeSecond }},
	{"bytes_per_second", func(o *Outcome) float64 { return o.BytesPerSecond }},
	{"learning_ms", func(o *Outcome) float64 { return o.LearningMS }},
	{"violations", func(o *Outcome) float64 { return float64(len(o.Violations)) }},
}

// Summary is the worst of several runs, in the form of quorate sim -o json.
type Summary struct {
	Outcome                      // each number the worst of all runs; seed and counts those of the largest |net_pct|
	WorstSeeds map[string]uint64 `json:"worst_seeds,omitempty"` // seed of the worst run, by measure
	Runs       []Outcome         `json:"runs,omitempty"`        // all runs, if there are several
}

// Worst summarizes one or more runs of a scenario.
func Worst(runs []Outcome) Summary {
	s := Summary{Outcome: runs[0]}
	if len(runs) == 1 {
		return s
	}
	s.Runs, s.WorstSeeds = runs, map[string]uint64{}
	for i := range runs {
		if math.Abs(runs[i].NetPct) > math.Abs(s.NetPct) {
			s.Outcome = runs[i]
		}
	}
	for name, to := range s.fields() {
		worst := -1
		for i := range runs {
			if v := *runs[i].fields()[name]; worst < 0 || v > *runs[worst].fields()[name] {
				worst = i
			}
		}
		*to, s.WorstSeeds[name] = *runs[worst].fields()[name], runs[worst].Seed
	}
	s.WorstSeeds["net_pct"] = s.Seed
	s.addUp(runs)
	return s
}

// fields returns the numbers that are worse the higher they are.
func (o *Outcome) fields() map[string]*float64 {
	return map[string]*float64{
		"over_pct": &o.OverPct, "under_pct": &o.UnderPct,
		"worst_excess.tokens": &o.WorstExcess.Tokens, "worst_excess.bursts": &o.WorstExcess.Bursts, "worst_window_excess": &o.WorstWindow,
		"reports_per_second": &o.ReportsPerSecond, "reports_per_node_second": &o.ReportsPerNodeSecond,
		"bytes_per_second": &o.BytesPerSecond, "learning_ms": &o.LearningMS,
	}
}

// addUp sums what accumulates over all runs, and takes the maximum of counts.
func (s *Summary) addUp(runs []Outcome) {
	s.NodeSeconds, s.CPUSeconds, s.Violations, s.WrongRefused = 0, 0, []string{}, 0
	for _, r := range runs {
		s.NodeSeconds += r.NodeSeconds
		s.CPUSeconds += r.CPUSeconds
		s.Violations = append(s.Violations, r.Violations...)
		s.WrongRefused = max(s.WrongRefused, r.WrongRefused)
	}
}
