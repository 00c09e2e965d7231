package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/config"
)

// Bound is the range of a measure, expected in every run. A bound of net_pct without a low end
// bounds its absolute value.
type Bound struct {
	Measure   string
	Low, High float64 // -Inf and +Inf without a bound
}

// Breach is a bound that a run exceeded.
type Breach struct {
	Measure string  `json:"measure"`
	Value   float64 `json:"value"`
	Bound   string  `json:"bound"` // such as "at most 0.5"
	Seed    uint64  `json:"seed"`
}

// String returns the measure, its value, the bound and the seed.
func (b Breach) String() string {
	return fmt.Sprintf("%s is %s, expected %s (seed %d)", b.Measure, short(b.Value), b.Bound, b.Seed)
}

// Check returns the bounds that the runs exceed, each with its worst run. Violations of invariants
// are never expected.
func (s *Scenario) Check(runs []Outcome) []Breach {
	bounds := s.Expect
	if !slices.ContainsFunc(bounds, func(b Bound) bool { return b.Measure == "violations" }) {
		bounds = append(slices.Clone(bounds), Bound{"violations", math.Inf(-1), 0})
	}
	return broken(bounds, runs)
}

func broken(bounds []Bound, runs []Outcome) (out []Breach) {
	for _, b := range bounds {
		if worst, ok := b.Broken(runs); ok {
			out = append(out, worst)
		}
	}
	return out
}

// Beyond returns how far a value is outside of the bound; 0 or less if it is inside.
func (b Bound) Beyond(v float64) float64 { return math.Max(v-b.High, b.Low-v) }

// Broken returns the run that is furthest outside of the bound, if any is.
func (b Bound) Broken(runs []Outcome) (breach Breach, broken bool) {
	i := slices.IndexFunc(measures, func(m measure) bool { return m.name == b.Measure })
	most := 0.0
	for r := range runs {
		v := measures[i].value(&runs[r])
		if beyond := b.Beyond(v); beyond > most {
			most, broken = beyond, true
			breach = Breach{b.Measure, v, b.String(), runs[r].Seed}
		}
	}
	return breach, broken
}

// String returns the bound in words.
func (b Bound) String() string {
	switch {
	case math.IsInf(b.Low, -1):
		return "at most " + short(b.High)
	case math.IsInf(b.High, 1):
		return "at least " + short(b.Low)
	}
	return short(b.Low) + " to " + short(b.High)
}

func short(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
}

const expectExample = "{net_pct: 0.5, worst_excess: {bursts: 0.1}}"

// bounds reads what a scenario expects or aims at, by measure.
func (p *parser) bounds(v config.Value) (list []Bound) {
	d, _ := p.part(v, expectExample, measureNames("")...)
	for _, name := range d.given.InOrder() {
		if name != "worst_excess" {
			list = append(list, p.bound(name, d.given[name]))
			continue
		}
		e, _ := p.part(d.given[name], "{bursts: 0.1}", measureNames("worst_excess.")...)
		for _, name := range e.given.InOrder() {
			list = append(list, p.bound("worst_excess."+name, e.given[name]))
		}
	}
	return list
}

// measureNames returns the fields below a prefix.
func measureNames(prefix string) (names []string) {
	for _, m := range measures {
		rest, ok := strings.CutPrefix(m.name, prefix)
		first, _, _ := strings.Cut(rest, ".")
		if ok && !slices.Contains(names, first) {
			names = append(names, first)
		}
	}
	return names
}

// bound reads the maximum, or a map of the minimum and the maximum.
func (p *parser) bound(name string, v config.Value) Bound {
	b := Bound{name, math.Inf(-1), math.Inf(1)}
	low, high := 0.0, 1e15
	if name == "net_pct" {
		low = -100
	}
	if !v.IsMap() {
		if v.Number(&b.High, 0, high) && name == "net_pct" {
			b.Low = -b.High
		}
		return b
	}
	d, ok := p.part(v, "{min: -1, max: 0.5}", "min", "max")
	if ok && len(d.given) == 0 {
		v.Fault("is empty; write min, max or both, such as {min: -1, max: 0.5}")
	}
	d.number("min", &b.Low, low, high)
	d.number("max", &b.High, low, high)
	if b.Low > b.High {
		v.Fault("has min %s above max %s; must be at most as much", short(b.Low), short(b.High))
	}
	return b
}
