package suite

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of a chart, in pixels.
const (
	chartLeft, chartBar, chartRight = 260, 420, 130
	chartRow, chartTop              = 24, 52
)

// Chart draws the first measure of all rows as bars on a logarithmic scale, in SVG, because the
// values of a table differ by factors. The line in a bar spans its spread.
func (t *Table) Chart() []byte {
	m := t.Measures[0]
	var b bytes.Buffer
	width, height := chartLeft+chartBar+chartRight, chartTop+chartRow*len(t.Rows)+8
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="8" y="18" font-size="14" font-weight="bold">%s</text>`+"\n", html.EscapeString(t.Title))
	better := "less is better"
	if m.More {
		better = "more is better"
	}
	fmt.Fprintf(&b, `<text x="8" y="36" fill="#555555">%s, logarithmic; %s</text>`+"\n", html.EscapeString(m.label()), better)
	low, high := t.span(m.Name)
	x := func(v float64) float64 {
		return chartBar * (0.06 + 0.94*(math.Log(max(v, low))-math.Log(low))/max(math.Log(high)-math.Log(low), 1e-9))
	}
	for i, r := range t.Rows {
		t.bar(&b, r, r.Figures[m.Name], float64(chartTop+chartRow*i), x)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// span returns the lowest and the highest median.
func (t *Table) span(measure string) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, r := range t.Rows {
		if f, ok := r.Figures[measure]; ok && f.Median > 0 {
			low, high = min(low, f.Median), max(high, f.Median)
		}
	}
	return low, high
}

func (t *Table) bar(b *bytes.Buffer, r Row, f Figure, y float64, x func(float64) float64) {
	weight, fill := "normal", "#9aa7b4"
	if r.Ours {
		weight, fill = "bold", "#2f6fb0"
	}
	mid := y + chartRow/2
	fmt.Fprintf(b, `<text x="%d" y="%.0f" text-anchor="end" font-weight="%s">%s</text>`+"\n", chartLeft-8, mid+4, weight, html.EscapeString(r.Name))
	if f.Median <= 0 {
		fmt.Fprintf(b, `<text x="%d" y="%.0f" fill="#555555">not run</text>`+"\n", chartLeft, mid+4)
		return
	}
	fmt.Fprintf(b, `<rect x="%d" y="%.0f" width="%.1f" height="%d" fill="%s"/>`+"\n", chartLeft, y+4, x(f.Median), chartRow-8, fill)
	fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f" stroke="#222222" stroke-width="2"/>`+"\n",
		chartLeft+min(x(f.Low), chartBar), chartLeft+min(x(f.High), chartBar), mid, mid)
	text := Number(f.Median)
	if r.Ratio != nil && r.Name != t.Reference {
		text += "  (" + Number(r.Ratio.Median) + " x)"
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.0f" font-weight="%s">%s</text>`+"\n", chartLeft+max(x(f.Median), min(x(f.High), chartBar))+8, mid+4, weight, strings.TrimSpace(text))
}
