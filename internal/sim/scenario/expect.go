package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/config"
)

// Bound is what one measure is held to, in every run. A bound of net_pct without
// a low end is one of its size, up or down.
type Bound struct {
	Measure   string
	Low, High float64 // -Inf and +Inf where there is none
}

// Breach is a bound that a run did not keep.
type Breach struct {
	Measure string  `json:"measure"`
	Value   float64 `json:"value"`
	Bound   string  `json:"bound"` // such as "at most 0.5"
	Seed    uint64  `json:"seed"`
}

// String says which bound was broken and how.
func (b Breach) String() string {
	return fmt.Sprintf("%s is %s, expected %s (seed %d)", b.Measure, short(b.Value), b.Bound, b.Seed)
}

// Check returns the bounds that the runs do not keep, each with its worst run.
// What must hold at every step is expected of every scenario.
func (s *Scenario) Check(runs []Outcome) []Breach {
	bounds := s.Expect
	if !slices.ContainsFunc(bounds, func(b Bound) bool { return b.Measure == "violations" }) {
		bounds = append(slices.Clone(bounds), Bound{"violations", math.Inf(-1), 0})
	}
	var out []Breach
	for _, b := range bounds {
		if worst, ok := b.worst(runs); ok {
			out = append(out, worst)
		}
	}
	return out
}

// worst returns the run that is furthest beyond the bound.
func (b Bound) worst(runs []Outcome) (breach Breach, broken bool) {
	i := slices.IndexFunc(measures, func(m measure) bool { return m.name == b.Measure })
	most := 0.0
	for r := range runs {
		v := measures[i].value(&runs[r])
		if beyond := math.Max(v-b.High, b.Low-v); beyond > most {
			most, broken = beyond, true
			breach = Breach{b.Measure, v, b.String(), runs[r].Seed}
		}
	}
	return breach, broken
}

// String says what is expected.
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

// expect reads the bounds, by the names of the measures.
func (p *parser) expect(v config.Value) {
	d, _ := p.part(v, expectExample, measureNames("")...)
	for _, name := range config.InOrder(d.given) {
		if name != "worst_excess" {
			p.bound(name, d.given[name])
			continue
		}
		e, _ := p.part(d.given[name], "{bursts: 0.1}", measureNames("worst_excess.")...)
		for _, name := range config.InOrder(e.given) {
			p.bound("worst_excess."+name, e.given[name])
		}
	}
}

// measureNames are the fields below a prefix.
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

// bound reads the most that is expected, or a map of the least and the most.
func (p *parser) bound(name string, v config.Value) {
	b := Bound{name, math.Inf(-1), math.Inf(1)}
	low, high := 0.0, 1e15
	if name == "net_pct" {
		low = -100
	}
	if !v.IsMap() {
		if v.Number(&b.High, 0, high) && name == "net_pct" {
			b.Low = -b.High
		}
		p.Expect = append(p.Expect, b)
		return
	}
	d, ok := p.part(v, "{min: -1, max: 0.5}", "min", "max")
	if ok && len(d.given) == 0 {
		v.Fault("says nothing; write min, max or both, such as {min: -1, max: 0.5}")
	}
	d.number("min", &b.Low, low, high)
	d.number("max", &b.High, low, high)
	if b.Low > b.High {
		v.Fault("has min %s above max %s; must be at most as much", short(b.Low), short(b.High))
	}
	p.Expect = append(p.Expect, b)
}
