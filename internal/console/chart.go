package console

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Chart is a line chart over time. Templates show it with {{template "chart" .}}; Page.Points adds
// points by ID while the page is live.
type Chart struct {
	ID     string   // of the element, unique on the page
	Title  string   // what it shows
	Unit   string   // of its values, such as "/s"
	Series []Series // at most 6
	Times  []int64  // unix seconds, ascending; at most 5000
	Keep   int      // points kept while live; 0 means 600
	Height int      // pixels; 0 means 220
	// From is the address of JSON data with the same fields, which the script requests when a form
	// on the page that names the chart (data-chart-for) changes.
	From string
	// Fill is the address of JSON data with the same fields, from which the script takes points
	// that were not known when the page was made. May be empty. Gaps of such a chart are shaded.
	Fill string
	// Brush is the address of the page that shows a part of the chart: a selection adds from and to
	// to it and leads there, a double click leads to the address itself. Without it a selection
	// enlarges the part in place.
	Brush string
	// X and XUnit name the horizontal axis if it is not time; then its values are At instead of
	// Times.
	X, XUnit string
	At       []float64
	// Lines are vertical lines at values of the horizontal axis.
	Lines []Line
	// Marks are intervals without complete data, drawn behind the lines; at most maxMarks.
	Marks []Mark
}

// Line is a vertical line in a chart.
type Line struct {
	At   float64 `json:"at"`
	Name string  `json:"name"`
}

// Mark is an interval in a chart, in unix seconds, whose data is incomplete or unknown.
type Mark struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Unknown bool  `json:"unknown,omitempty"`
}

const maxMarks = 200

// Series is one line.
type Series struct {
	Name   string
	Values []float64 // NaN is a gap
	Color  int       // 1 to 6, for the tokens --c1 to --c6; 0 means by position
	Dash   bool
	Fill   bool
	// Steps draws the value until the next point, for values that jump, such as limits.
	Steps bool
}

// MarshalJSON encodes gaps as null.
func (s Series) MarshalJSON() ([]byte, error) {
	values := make([]*float64, len(s.Values))
	for i := range s.Values {
		if v := s.Values[i]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			values[i] = &v
		}
	}
	return json.Marshal(struct {
		Name   string     `json:"name"`
		Values []*float64 `json:"values"`
		Color  int        `json:"color,omitempty"`
		Dash   bool       `json:"dash,omitempty"`
		Fill   bool       `json:"fill,omitempty"`
		Steps  bool       `json:"steps,omitempty"`
	}{s.Name, values, s.Color, s.Dash, s.Fill, s.Steps})
}

// gap ends the lines at a time.
func (c *Chart) gap(at int64) {
	c.Times = append(c.Times, at)
	for i := range c.Series {
		c.Series[i].Values = append(c.Series[i].Values, math.NaN())
	}
}

// MarshalJSON encodes the chart for the script.
func (c Chart) MarshalJSON() ([]byte, error) {
	var at any = c.Times
	if c.X != "" {
		at = c.At
	}
	return json.Marshal(struct {
		Unit   string   `json:"unit"`
		Series []Series `json:"series"`
		Times  any      `json:"times"`
		X      string   `json:"x,omitempty"`
		XUnit  string   `json:"xUnit,omitempty"`
		Lines  []Line   `json:"lines,omitempty"`
		Keep   int      `json:"keep"`
		Height int      `json:"height"`
		From   string   `json:"from,omitempty"`
		Fill   string   `json:"fill,omitempty"`
		Brush  string   `json:"brush,omitempty"`
		Marks  []Mark   `json:"marks,omitempty"`
	}{c.Unit, c.Series, at, c.X, c.XUnit, c.Lines, cmp.Or(c.Keep, 600), cmp.Or(c.Height, 220), c.From, c.Fill, c.Brush, c.Marks})
}

// JSON returns the chart for the attribute that the script reads.
func (c Chart) JSON() (string, error) {
	b, err := json.Marshal(c)
	return string(b), err
}

// Last describes the last value of each line, for readers who cannot see it.
func (c Chart) Last() []string {
	var out []string
	for _, s := range c.Series {
		for _, v := range slices.Backward(s.Values) {
			if !math.IsNaN(v) {
				out = append(out, s.Name+": "+strconv.FormatFloat(v, 'f', 1, 64)+c.Unit)
				break
			}
		}
	}
	return out
}
