package suite

import (
	"slices"
	"time"
)

// Figure is the distribution of a measure over all rounds.
type Figure struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`  // first quartile
	High   float64 `json:"high"` // third quartile
}

// Row holds the figures of a subject.
type Row struct {
	Name    string            `json:"name"`
	Ours    bool              `json:"ours"`
	Absent  string            `json:"absent,omitempty"` // why there are no figures
	Figures map[string]Figure `json:"figures,omitempty"`
	Ratio   *Figure           `json:"ratio,omitempty"` // of the first measure, to the reference
	Verdict []Verdict         `json:"verdicts,omitempty"`
}

// Verdict is a target and the measured value.
type Verdict struct {
	Measure string  `json:"measure"`
	AtMost  float64 `json:"at_most,omitempty"`
	AtLeast float64 `json:"at_least,omitempty"`
	Times   string  `json:"times,omitempty"`
	Got     Figure  `json:"got"`
	Met     bool    `json:"met"`
}

// Table is the result of a group.
type Table struct {
	Time      time.Time `json:"time"` // when its rounds ended
	Load      string    `json:"load"` // of the machine at that time, to judge the spread
	Commit    string    `json:"commit,omitempty"`
	Machine   string    `json:"machine,omitempty"`
	Name      string    `json:"name"`
	Title     string    `json:"title"`
	Note      string    `json:"note"`
	Measures  []Measure `json:"measures"`
	Reference string    `json:"reference"`
	Rounds    int       `json:"rounds"`
	Rows      []Row     `json:"rows"`
}

// tabulate makes the table from the samples, which are by subject, then by round.
func tabulate(g Group, samples [][]Sample, absent []string) Table {
	t := Table{Name: g.Name, Title: g.Title, Note: g.Note, Measures: g.Measures, Reference: g.Reference}
	of := func(name string) []Sample {
		i := slices.IndexFunc(g.Subjects, func(s Subject) bool { return s.Name == name })
		if i < 0 {
			return nil
		}
		return samples[i]
	}
	for i, s := range g.Subjects {
		t.Rounds = max(t.Rounds, len(samples[i]))
		row := Row{Name: s.Name, Ours: s.Ours, Absent: absent[i]}
		if absent[i] == "" {
			row.Figures = figures(g.Measures, samples[i])
			if r, ok := ratio(samples[i], of(g.Reference), g.Measures[0].Name); ok {
				row.Ratio = &r
			}
			for _, want := range s.Targets {
				row.Verdict = append(row.Verdict, judge(want, samples[i], of(want.Times))...)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func figures(measures []Measure, samples []Sample) map[string]Figure {
	out := map[string]Figure{}
	for _, m := range measures {
		if values := column(samples, m.Name); len(values) > 0 {
			out[m.Name] = figure(values)
		}
	}
	return out
}

func column(samples []Sample, name string) []float64 {
	var values []float64
	for _, s := range samples {
		if v, ok := s[name]; ok {
			values = append(values, v)
		}
	}
	return values
}

// ratio returns the distribution of the ratio of two subjects, round by round.
func ratio(of, to []Sample, measure string) (Figure, bool) {
	var values []float64
	for i := range min(len(of), len(to)) {
		a, ok := of[i][measure]
		b, found := to[i][measure]
		if ok && found && b > 0 {
			values = append(values, a/b)
		}
	}
	if len(values) == 0 {
		return Figure{}, false
	}
	return figure(values), true
}

// judge compares with a target. Without figures it returns no verdict.
func judge(t Target, of, to []Sample) []Verdict {
	v := Verdict{Measure: t.Measure, AtMost: t.AtMost, AtLeast: t.AtLeast, Times: t.Times}
	if t.Times == "" {
		values := column(of, t.Measure)
		if len(values) == 0 {
			return nil
		}
		v.Got = figure(values)
	} else {
		got, ok := ratio(of, to, t.Measure)
		if !ok {
			return nil
		}
		v.Got = got
	}
	v.Met = (t.AtMost == 0 || v.Got.Median <= t.AtMost) && v.Got.Median >= t.AtLeast
	return []Verdict{v}
}

func figure(values []float64) Figure {
	slices.Sort(values)
	return Figure{Median: quantile(values, 0.5), Low: quantile(values, 0.25), High: quantile(values, 0.75)}
}

// quantile returns a quantile of sorted values, interpolated between two of them.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	part := at - float64(i)
	return sorted[i]*(1-part) + sorted[i+1]*part
}
