package simulate

import (
	"encoding/json"
	"flag"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// simFixture returns a result of two seeds, of which the second is worse.
func simFixture() *simResult {
	sc := &scenario.Scenario{
		Source: "s.yaml", Name: "fixture", Base: "fixture", Description: "a fixture", Of: 1, Seeds: []uint64{1, 2}, Algorithms: []sim.Algorithm{sim.Quorate},
		Duration: 20 * time.Second, Nodes: 10, Sync: 100 * time.Millisecond, Keys: sim.Keys{Count: 1},
		Network: scenario.Network{Delay: time.Millisecond, Jitter: 200 * time.Microsecond, Loss: .05},
		Limit:   quota.Limit{Rate: quota.Rate{Tokens: 1000, Per: time.Second}, Burst: 1000},
		Faults: []sim.Fault{
			{At: 8 * time.Second, Kind: sim.Kill, Leader: true},
			{At: 8 * time.Second, Kind: sim.Partition, Groups: [][]int{{1, 2}, {3}}, For: 3 * time.Second},
			{At: 12 * time.Second, Kind: sim.Slow, Nodes: []int{4, 5}, Delay: 50 * time.Millisecond},
			{At: 20 * time.Second, Kind: sim.Heal},
		},
		Expect: []scenario.Bound{{Measure: "net_pct", Low: -1, High: 1}, {Measure: "over_pct", High: 50}},
	}
	var series []sim.Second
	for i := range int64(20) {
		s := sim.Second{Attempted: 3000, Admitted: 1000, Ideal: 1000}
		switch i {
		case 0:
			s.Admitted, s.Ideal = 2000, 2000
		case 5:
			s.Attempted = 11000
		case 8:
			s.Admitted = 1100
		case 12:
			s.Admitted = 0
		}
		series = append(series, s)
	}
	return &simResult{scenario: sc, algorithm: sim.Quorate, command: "quorate sim s.yaml", runs: []scenario.Outcome{
		{Seed: 1, Attempted: 68000, Admitted: 21000, Ideal: 21000, OverPct: 60, UnderPct: 60, NodeSeconds: 200, CPUSeconds: .5, Violations: []string{}},
		{
			Seed: 2, Attempted: 68000, Admitted: 20100, Ideal: 21000, OverPct: .5, UnderPct: 4.8, NetPct: -4.286,
			WorstExcess: scenario.Excess{Tokens: 12.25, Bursts: .01225}, WrongRefused: 31, ReportsPerSecond: 98, ReportsPerNodeSecond: 9.8,
			BytesPerSecond: 13276, LearningMS: 504.7, NodeSeconds: 200, CPUSeconds: .5, Violations: []string{"pool below 0"}, Series: series, Each: time.Second,
		},
	}}
}

// simOutput returns what a simulator prints for a result.
func simOutput(t *testing.T, s *simulator, print func(*simResult) error) string {
	t.Helper()
	var b strings.Builder
	s.cmd = &cobra.Command{}
	s.cmd.SetOut(&b)
	r := simFixture()
	r.finish()
	if err := print(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSimReport(t *testing.T) {
	text := func(t *testing.T) string {
		s := &simulator{chart: true}
		return simOutput(t, s, func(r *simResult) error { return s.writeText(r.scenario, []*simResult{r}) })
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("LC_ALL", "en_GB.UTF-8")
	golden.Hold(t, "testdata/sim.golden", text(t), *rewrite)
	t.Setenv("LC_ALL", "C")
	golden.Hold(t, "testdata/sim-ascii.golden", text(t), *rewrite)
}

func TestSimLines(t *testing.T) {
	s := &simulator{output: render.Output{Format: render.FormatJSON}}
	line := simOutput(t, s, func(r *simResult) error { return s.writeLines([]*simResult{r}) })
	if strings.Count(line, "\n") != 1 {
		t.Errorf("not one line: %q", line)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatal(err)
	}
	golden.HasFields(t, v, "attempted", "admitted", "ideal_admitted", "over_pct", "under_pct", "net_pct", "worst_excess", "decisions_wrong_refusals",
		"reports_per_second", "bytes_per_second", "learning_ms", "worst_window_excess", "seed", "worst_seeds", "runs", "node_seconds", "cpu_seconds", "violations")
	indented, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Hold(t, "testdata/sim.json.golden", string(indented)+"\n", *rewrite)
}

// TestSimMarkdown checks that two files make two sections, and that missed targets come first.
func TestSimMarkdown(t *testing.T) {
	s := &simulator{}
	golden.Hold(t, "testdata/sim-table.golden", simOutput(t, s, func(r *simResult) error {
		sc := *r.scenario
		sc.Base, sc.Source, sc.Name = "other", "x/second.yaml", "other-n10-c5"
		sc.Loads = []sim.Load{{Clump: 5}, {Clump: 5}, {}}
		sc.Target = []scenario.Bound{
			{Measure: "net_pct", Low: -.5, High: .5},
			{Measure: "worst_excess.bursts", Low: math.Inf(-1), High: .01},
			{Measure: "reports_per_node_second", Low: math.Inf(-1), High: 25},
		}
		missing := *r
		missing.scenario = &sc
		return writeTable(s.cmd.OutOrStdout(), []*simResult{r, &missing})
	}), *rewrite)
}

// TestChartSizes checks that charts of any length have the same width, keep the sums, and never
// panic.
func TestChartSizes(t *testing.T) {
	for n := range 200 {
		series := make([]sim.Second, n)
		for i := range series {
			series[i] = sim.Second{Attempted: int64(i), Admitted: int64(i % 7), Ideal: 3}
		}
		cols, each := columns(series, time.Second)
		if len(cols) > chartWidth {
			t.Fatalf("%d of %d: too wide", len(cols), n)
		}
		if len(cols) > 0 && time.Duration(len(cols))*each < time.Duration(n)*time.Second {
			t.Errorf("%d columns of %v for %d s", len(cols), each, n)
		}
		sc := &scenario.Scenario{Duration: time.Duration(n) * time.Second, Faults: []sim.Fault{{At: time.Duration(n) * time.Second, Kind: sim.Heal}}}
		out := newChart(false).draw(sc, &scenario.Outcome{Series: series, Each: time.Second})
		for line := range strings.SplitSeq(out, "\n") {
			if w := len([]rune(line)); w > 82 {
				t.Errorf("%d s: %d columns: %s", n, w, line)
			}
		}
	}
}

func TestUnicodeLocale(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang, term string
		want                   bool
	}{
		{"", "", "", "xterm", true},
		{"", "", "en_GB.UTF-8", "xterm", true},
		{"C", "", "en_GB.UTF-8", "xterm", false},
		{"", "de_DE.utf8", "C", "xterm", true},
		{"", "", "POSIX", "xterm", false},
		{"", "", "en_GB.UTF-8", "dumb", false},
	} {
		t.Setenv("LC_ALL", c.all)
		t.Setenv("LC_CTYPE", c.ctype)
		t.Setenv("LANG", c.lang)
		t.Setenv("TERM", c.term)
		if got := unicodeLocale(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestSimProgress checks that a run of more than a second shows its progress, and leaves nothing on
// the screen.
func TestSimProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		watch, stop := showProgress(&b, "a, quorate, seed 1 (1 of 1)", time.Minute)
		watch(30 * time.Second)
		time.Sleep(1500 * time.Millisecond) // in the bubble's time
		stop()
		if got, want := b.String(), "\r\x1b[K[############............]  50 %  a, quorate, seed 1 (1 of 1): 30.0 s of 60 s\r\x1b[K"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		b.Reset()
		_, stop = showProgress(&b, "b", time.Minute)
		stop()
		if b.Len() > 0 {
			t.Errorf("%q of a short run", b.String())
		}
	})
}

var rewrite = flag.Bool("rewrite", false, "write what is printed into testdata; then read the diff")
