package doctest

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// Sizes of the README's charts, in pixels.
const (
	chartWidth  = 760
	chartLabels = 270 // width of the labels
	chartBars   = 370 // width of the longest bar
	chartRow    = 26
)

// bar is a row of a chart. Its figures are names; one with low and high is a range.
type bar struct {
	label     string
	ours      bool
	low, high string // figures; high is the bar's length
}

// panel is a group of bars on one linear scale.
type panel struct {
	title, note string
	decimals    int
	line        float64 // a dashed line at this value, if it is not 0
	bars        []bar
}

// SpeedChart draws what a check costs beside peers.
func SpeedChart(figures map[string]float64) (string, error) {
	return chart("CPU of a check beside other limiters, from docs/performance", []panel{
		{
			title: "In process: nanoseconds per decision, one key, one CPU", note: "less is better", decimals: 0,
			bars: []bar{
				{"Quorate client, tokens held", true, "", "hot-1cpu/Quorate, handle, tokens held/CPU"},
				{"GCRA, compare and swap", false, "", "hot-1cpu/GCRA, compare and swap/CPU"},
				{"golang.org/x/time/rate", false, "", "hot-1cpu/x/time/rate/CPU"},
				{"throttled", false, "", "hot-1cpu/throttled/CPU"},
			},
		},
		{
			title: "Over gRPC: server CPU per check, as a multiple of an empty gRPC server", note: "less is better", decimals: 2,
			bars: []bar{
				{"Quorate, one node", true, "", "grpc-unary/Quorate/x"},
				{"Quorate, any of 3 nodes", true, "", "grpc-unary/Quorate, any of 3 nodes/x"},
				{"quotaservice", false, "", "peers/quotaservice/cpu-ratio"},
				{"gubernator, one node", false, "", "peers/gubernator/cpu-ratio"},
				{"envoyproxy/ratelimit + Redis", false, "", "peers/envoyproxy-ratelimit/cpu-ratio"},
				{"gubernator GLOBAL, 3 nodes", false, "", "peers/gubernator GLOBAL, 3 nodes/cpu-ratio"},
			},
		},
	}, figures)
}

// AccuracyChart draws what a burst on several nodes is admitted beside peers.
func AccuracyChart(figures map[string]float64) (string, error) {
	return chart("Tokens admitted of a burst beside other limiters, from docs/performance", []panel{{
		title: "A burst of 3 times the limit, spread over three nodes: admitted, in % of the limit",
		note:  "a fresh key with a limit of 100 (envoyproxy/ratelimit: 1000); the dashed line is exact", line: 100,
		bars: []bar{
			{"Quorate, hard", true, "", "behaviour/burst-3x/hard"},
			{"Quorate, soft", true, "", "behaviour/burst-3x/soft"},
			{"envoyproxy/ratelimit + Redis", false, "", "peers-behaviour/burst-3x/envoyproxy-ratelimit"},
			{"gubernator, BATCHING", false, "", "peers-behaviour/burst-3x/gubernator BATCHING"},
			{"gubernator, GLOBAL", false, "peers-behaviour/burst-3x/gubernator GLOBAL, low", "peers-behaviour/burst-3x/gubernator GLOBAL, high"},
		},
	}}, figures)
}

// chartStyle gives both colour schemes; the chart has a ground of its own, so that it can be read
// on any page.
const chartStyle = `<style>
.ground{fill:#fff;stroke:#d0d7de}.text{fill:#1f2328}.dim{fill:#59636e}.peer{fill:#9aa7b4}.ours{fill:#2f6fb0}.range{fill:#cfd6dd}.line{stroke:#59636e}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117;stroke:#3d444d}.text{fill:#f0f6fc}.dim{fill:#9198a1}.peer{fill:#656f7a}.ours{fill:#4f9be0}.range{fill:#3d444d}.line{stroke:#9198a1}}
</style>
`

func chart(title string, panels []panel, figures map[string]float64) (string, error) {
	var body strings.Builder
	y := 12
	for _, p := range panels {
		if err := p.draw(&body, &y, figures); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="system-ui,-apple-system,Segoe UI,sans-serif" font-size="13">
<title>%[3]s</title>
%[4]s<rect class="ground" x=".5" y=".5" width="%[5]d" height="%[6]d" rx="8"/>
%[7]s</svg>
`, chartWidth, y, html.EscapeString(title), chartStyle, chartWidth-1, y-1, body.String()), nil
}

func (p panel) draw(b *strings.Builder, y *int, figures map[string]float64) error {
	highest := p.line
	for _, r := range p.bars {
		for _, name := range []string{r.low, r.high} {
			if _, ok := figures[name]; !ok && name != "" {
				return fmt.Errorf("no figure %q", name)
			}
		}
		highest = max(highest, figures[r.high])
	}
	x := func(v float64) float64 { return chartBars * v / highest }
	fmt.Fprintf(b, `<text class="text" x="16" y="%d" font-weight="600" font-size="14">%s</text>`+"\n", *y+16, html.EscapeString(p.title))
	fmt.Fprintf(b, `<text class="dim" x="16" y="%d" font-size="12">%s</text>`+"\n", *y+34, html.EscapeString(p.note))
	*y += 46
	top := *y
	for _, r := range p.bars {
		class, weight, high := "peer", "400", figures[r.high]
		if r.ours {
			class, weight = "ours", "600"
		}
		shown := strconv.FormatFloat(high, 'f', p.decimals, 64)
		fmt.Fprintf(b, `<text class="text" x="%d" y="%d" text-anchor="end" font-weight="%s">%s</text>`+"\n", chartLabels-10, *y+17, weight, html.EscapeString(r.label))
		if r.low != "" {
			low := figures[r.low]
			fmt.Fprintf(b, `<rect class="range" x="%d" y="%d" width="%.1f" height="16" rx="2"/>`+"\n", chartLabels, *y+4, x(high))
			shown = strconv.FormatFloat(low, 'f', p.decimals, 64) + " to " + shown
			high = low
		}
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="16" rx="2"/>`+"\n", class, chartLabels, *y+4, x(high))
		end := x(figures[r.high])
		if at := x(p.line); p.line != 0 && end < at && at < end+30 {
			end = at // keeps the number clear of the line
		}
		fmt.Fprintf(b, `<text class="text" x="%.1f" y="%d" font-weight="%s">%s</text>`+"\n", chartLabels+end+8, *y+17, weight, shown)
		*y += chartRow
	}
	if p.line != 0 {
		fmt.Fprintf(b, `<line class="line" x1="%.1[1]f" x2="%.1[1]f" y1="%[2]d" y2="%[3]d" stroke-dasharray="4 3"/>`+"\n", chartLabels+x(p.line), top-2, *y+2)
	}
	*y += 14
	return nil
}
