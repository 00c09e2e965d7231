package simulate

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// A chart draws a run over time: the attempted, ideal and admitted rates, and the faults.
type chart struct {
	render.Palette
	blocks []rune // from the lowest to a full cell
	up     rune   // more was admitted than the ideal admits
	down   rune
	even   rune
	frame  rune
}

// Sizes of a chart, in cells.
const (
	chartWidth = 60
	chartLabel = 9
)

// newChart returns a chart that draws with block characters, or with ASCII if the locale is not
// UTF-8.
func newChart(p render.Palette) chart {
	if unicodeLocale() {
		return chart{p, []rune("▁▂▃▄▅▆▇█"), '▲', '▼', '·', '│'}
	}
	return chart{p, []rune(".:#"), '^', 'v', '-', '|'}
}

// unicodeLocale reports whether the first locale variable that is set names UTF-8. If none is set,
// it assumes that the terminal supports UTF-8.
func unicodeLocale() bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// column is one time span of a chart, in tokens per second.
type column struct{ attempted, ideal, admitted float64 }

func (c chart) draw(sc *scenario.Scenario, o *scenario.Outcome) string {
	cols, each := columns(o.Series, o.Each)
	if len(cols) == 0 {
		return "no traffic, no chart\n"
	}
	wide := max(1, chartWidth/len(cols))
	var attempted, ideal, admitted []float64
	for _, p := range cols {
		attempted, ideal, admitted = append(attempted, p.attempted), append(ideal, p.ideal), append(admitted, p.admitted)
	}
	most := max(highest(ideal), highest(admitted))
	var b strings.Builder
	c.panel(&b, "attempted", attempted, highest(attempted), 2, wide, "")
	c.panel(&b, "ideal", ideal, most, 3, wide, "")
	c.panel(&b, "admitted", admitted, most, 3, wide, render.Green)
	c.difference(&b, cols, most, wide)
	c.axis(&b, len(cols)*wide, time.Duration(len(cols))*each)
	c.marks(&b, sc, len(cols)*wide, time.Duration(len(cols))*each)
	fmt.Fprintf(&b, "%*s  %c more, %c less than the ideal, by 1%% of the highest\n", chartLabel, "", c.up, c.down)
	return b.String()
}

// columns groups a series into at most chartWidth columns.
func columns(series []sim.Second, each time.Duration) ([]column, time.Duration) {
	if each <= 0 {
		each = time.Second
	}
	group := (len(series) + chartWidth - 1) / chartWidth
	var cols []column
	for i := 0; i < len(series); i += max(1, group) {
		part := series[i:min(len(series), i+group)]
		per := each.Seconds() * float64(len(part))
		var c column
		for _, s := range part {
			c.attempted += float64(s.Attempted) / per
			c.ideal += float64(s.Ideal) / per
			c.admitted += float64(s.Admitted) / per
		}
		cols = append(cols, c)
	}
	return cols, each * time.Duration(max(1, group))
}

func highest(values []float64) (most float64) {
	for _, v := range values {
		most = math.Max(most, v)
	}
	return most
}

// panel draws bars that are up to high cells tall, with the highest value at the top.
func (c chart) panel(b *strings.Builder, name string, values []float64, most float64, high, wide int, colour string) {
	for row := high - 1; row >= 0; row-- {
		label, scale := "", ""
		if row == high-1 {
			scale = simRate(most)
		}
		if row == 0 {
			label, scale = name, "0"
		}
		var line strings.Builder
		for _, v := range values {
			line.WriteString(strings.Repeat(string(c.cell(v, most, row, high)), wide))
		}
		text := fmt.Sprintf("%*s %c%s%c %s", chartLabel, label, c.frame, c.Paint(colour, line.String()), c.frame, scale)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

// cell returns one cell of a bar. A value above 0 has at least the lowest block.
func (c chart) cell(v, most float64, row, high int) rune {
	if v <= 0 || most <= 0 {
		return ' '
	}
	steps := len(c.blocks)
	full := max(1, int(math.Round(v/most*float64(high*steps))))
	switch n := full - row*steps; {
	case n <= 0:
		return ' '
	case n >= steps:
		return c.blocks[steps-1]
	default:
		return c.blocks[n-1]
	}
}

// differs is the smallest difference that counts, as a fraction of the highest bar.
const differs = .01

// difference marks the columns in which more or less was admitted than the ideal admits.
func (c chart) difference(b *strings.Builder, cols []column, most float64, wide int) {
	var line strings.Builder
	for _, p := range cols {
		mark, colour := c.even, ""
		switch d := p.admitted - p.ideal; {
		case d > differs*most:
			mark, colour = c.up, render.Red
		case d < -differs*most:
			mark, colour = c.down, render.Yellow
		}
		line.WriteString(c.Paint(colour, strings.Repeat(string(mark), wide)))
	}
	fmt.Fprintf(b, "%*s %c%s%c\n", chartLabel, "net", c.frame, line.String(), c.frame)
}

// axis writes five times under the chart.
func (c chart) axis(b *strings.Builder, width int, total time.Duration) {
	line := []rune(strings.Repeat(" ", width+8))
	for i := range 5 {
		at := width * i / 4
		d := total * time.Duration(i) / 4
		if d > 10*time.Second {
			d = d.Round(time.Second)
		}
		copy(line[at:], []rune(simPause(d.Round(10*time.Millisecond))))
	}
	fmt.Fprintf(b, "%*s  %s\n", chartLabel, "", strings.TrimRight(string(line), " "))
}

// marks writes a letter where a fault begins, and explains the letters below.
func (c chart) marks(b *strings.Builder, sc *scenario.Scenario, width int, total time.Duration) {
	if len(sc.Faults) == 0 {
		return
	}
	const most = 20 // faults explained
	line := []rune(strings.Repeat(" ", width))
	var legend []string
	for i, f := range sc.Faults[:min(len(sc.Faults), most)] {
		letter := rune('A' + i)
		at := min(width-1, int(float64(width)*float64(f.At)/float64(total)))
		for at < width-1 && line[at] != ' ' {
			at++
		}
		line[at] = letter
		legend = append(legend, fmt.Sprintf("%*s  %c %s", chartLabel, "", letter, faultText(f)))
	}
	if more := len(sc.Faults) - most; more > 0 {
		legend = append(legend, fmt.Sprintf("%*s  and %d more", chartLabel, "", more))
	}
	fmt.Fprintf(b, "%*s  %s\n%s\n", chartLabel, "faults", strings.TrimRight(string(line), " "), strings.Join(legend, "\n"))
}

// faultText describes a fault: what happens, when and to whom.
func faultText(f sim.Fault) string {
	text := fmt.Sprintf("%v %s", f.At, f.Kind)
	switch {
	case f.Leader:
		text += " the leader"
	case f.Kind == sim.Partition:
		text += " " + strings.ReplaceAll(fmt.Sprint(f.Groups), " ", ",")
	case f.Kind == sim.Heal || f.Kind == sim.Reset:
		text += " all"
	case f.Kind == sim.Switch:
		text += " " + f.Decide.String()
	case f.Kind == sim.Resize:
		text += " " + scenario.FormatTiers(f.Tiers)
	case f.Kind == sim.Override:
		text += fmt.Sprintf(" x%v", float64(f.Scale)/quota.Million)
	default:
		text += " " + nodesText(f.Nodes)
	}
	if f.Delay > 0 {
		text += fmt.Sprintf(" by %v", f.Delay)
	}
	if f.For > 0 {
		text += fmt.Sprintf(" for %v", f.For)
	}
	return text
}

func nodesText(nodes []int) string {
	list := strings.ReplaceAll(strings.Trim(fmt.Sprint(nodes), "[]"), " ", ", ")
	if len(nodes) == 1 {
		return "node " + list
	}
	return "nodes " + list
}

// simRate formats tokens per second in a few characters.
func simRate(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M/s"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', 1, 64) + "k/s"
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + "/s"
}
