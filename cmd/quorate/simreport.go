package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// simResult is what came of one scenario with one algorithm.
type simResult struct {
	scenario  *scenario.Scenario
	algorithm sim.Algorithm
	replay    string // without the seed
	runs      []scenario.Outcome

	worst  scenario.Summary
	broken []scenario.Breach
}

// finish judges the runs. What a file expects, it expects of Quorate.
func (r *simResult) finish() {
	r.worst = scenario.Worst(r.runs)
	if r.algorithm == sim.Quorate {
		r.broken = r.scenario.Check(r.runs)
	}
	r.replay += fmt.Sprintf(" --seed %d", r.worst.Seed)
}

// simLine is a line of "quorate sim --json". Fields are added, never renamed.
type simLine struct {
	Scenario  string  `json:"scenario"`
	File      string  `json:"file"`
	Algorithm string  `json:"algorithm"`
	Limit     string  `json:"limit"`
	Nodes     int     `json:"nodes"`
	Keys      int     `json:"keys"`
	Seconds   float64 `json:"duration_seconds"`
	SyncMS    float64 `json:"sync_ms"`
	scenario.Summary
	Expected bool              `json:"as_expected"`
	Broken   []scenario.Breach `json:"broken"`
	Replay   string            `json:"replay"`
}

func (s *simulator) writeLines(rs []*simResult) error {
	for _, r := range rs {
		sc := r.scenario
		b, err := json.Marshal(simLine{
			Scenario: sc.Name, File: sc.Source, Algorithm: string(r.algorithm), Limit: simLimit(&sc.Limit), Nodes: sc.Nodes, Keys: sc.Keys.Count,
			Seconds: sc.Duration.Seconds(), SyncMS: millis(sc.Sync.Microseconds()), Summary: r.worst,
			Expected: len(r.broken) == 0, Broken: append([]scenario.Breach{}, r.broken...), Replay: r.replay,
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.cmd.OutOrStdout(), "%s\n", b); err != nil {
			return err
		}
	}
	return nil
}

// simLimit is a limit in a few words.
func simLimit(l *quota.Limit) string {
	var parts []string
	for _, t := range l.Tiers() {
		switch {
		case t.Kind == quota.Concurrency:
			parts = append(parts, fmt.Sprintf("%d in flight", t.Burst))
		case t.Kind.Windowed():
			parts = append(parts, fmt.Sprintf("%d per %s (%v)", t.Burst, simPause(t.Rate.Per), t.Kind))
		default:
			parts = append(parts, fmt.Sprintf("%v burst %d", t.Rate, t.Burst))
		}
	}
	return strings.Join(parts, " and ") + ", " + l.Ceiling.String()
}

func simPause(d time.Duration) string { return pause(durationpb.New(d)) }

// writeText prints a scenario: what it is, a table with a column for each
// algorithm, a chart of the first, and what was expected.
func (s *simulator) writeText(sc *scenario.Scenario, rs []*simResult) error {
	var b strings.Builder
	p := colours(s.cmd)
	b.WriteString(sc.Name)
	if sc.Description != "" {
		b.WriteString(": " + printable(sc.Description))
	}
	fmt.Fprintf(&b, "\n%s; %s, %s, sync %v, delay %v%s; %s\n\n", simLimit(&sc.Limit), plural(sc.Nodes, "node"),
		simPause(sc.Duration), sc.Sync, sc.Network.Delay, networkWords(sc.Network), seedWords(rs[0]))
	if err := simTable(&b, sc, rs); err != nil {
		return err
	}
	if !s.noChart && s.chart {
		b.WriteString("\n" + newChart(p).draw(sc, rs[0].runWorst()))
	}
	b.WriteString("\n")
	for _, r := range rs {
		r.writeVerdict(&b, p)
	}
	_, err := io.WriteString(s.cmd.OutOrStdout(), b.String())
	return err
}

// runWorst is the run whose counts are those of the summary.
func (r *simResult) runWorst() *scenario.Outcome {
	for i := range r.runs {
		if r.runs[i].Seed == r.worst.Seed {
			return &r.runs[i]
		}
	}
	return &r.runs[0]
}

func networkWords(n scenario.Network) string {
	out := ""
	if n.Jitter > 0 {
		out = fmt.Sprintf(" + %v", n.Jitter)
	}
	for _, part := range []struct {
		name string
		of   float64
	}{{"loss", n.Loss}, {"duplicates", n.Duplicate}, {"reordered", n.Reorder}} {
		if part.of > 0 {
			out += fmt.Sprintf(", %s %g %%", part.name, 100*part.of)
		}
	}
	return out
}

func seedWords(r *simResult) string {
	if len(r.runs) == 1 {
		return fmt.Sprintf("seed %d", r.worst.Seed)
	}
	return fmt.Sprintf("the worst of %d seeds, %d to %d", len(r.runs), r.runs[0].Seed, r.runs[len(r.runs)-1].Seed)
}

// writeVerdict says what was expected, what it cost, and how to see it again.
func (r *simResult) writeVerdict(b *strings.Builder, p palette) {
	if n := len(r.scenario.Expect); n > 0 && r.algorithm == sim.Quorate && len(r.broken) == 0 {
		b.WriteString(p.paint(green, "as expected") + fmt.Sprintf(": %s kept\n", plural(n, "bound")))
	}
	for _, v := range r.worst.Violations[:min(len(r.worst.Violations), 3)] {
		b.WriteString(p.paint(red, "violation") + fmt.Sprintf(": %s\n", printable(v)))
	}
	for _, broken := range r.broken {
		b.WriteString(p.paint(red, "not as expected") + fmt.Sprintf(": %v\n", broken))
	}
	fmt.Fprintf(b, "replay: %s\n", r.replay)
}

// simTable prints the measures, one in a row, with a column for each algorithm.
func simTable(b *strings.Builder, sc *scenario.Scenario, rs []*simResult) error {
	header := []string{""}
	for _, r := range rs {
		header = append(header, strings.ToUpper(string(r.algorithm)))
	}
	tbl := newTable(append(header, "")...)
	row := func(name, note string, cell func(o *scenario.Summary) string) {
		cells := []string{name}
		for _, r := range rs {
			cells = append(cells, cell(&r.worst))
		}
		tbl.row(append(cells, note)...)
	}
	row("attempted", "", func(o *scenario.Summary) string { return num(o.Attempted) })
	row("ideal admitted", "by one limiter that sees the same requests", func(o *scenario.Summary) string { return num(o.Ideal) })
	row("admitted", "", func(o *scenario.Summary) string { return num(o.Admitted) })
	row("net", "admitted less what the ideal admitted", func(o *scenario.Summary) string { return fmt.Sprintf("%+.2f%%", o.NetPct) })
	row("over", "admitted, the ideal refused", func(o *scenario.Summary) string { return fmt.Sprintf("%.2f%%", o.OverPct) })
	row("under", "refused, the ideal admitted", func(o *scenario.Summary) string { return fmt.Sprintf("%.2f%%", o.UnderPct) })
	row("worst excess", "tokens over burst + rate x time", func(o *scenario.Summary) string { return fmt.Sprintf("%.1f", o.WorstExcess.Tokens) })
	row("in bursts", "", func(o *scenario.Summary) string { return fmt.Sprintf("%.3f", o.WorstExcess.Bursts) })
	if windowed(&sc.Limit) {
		row("worst window", "tokens over the count of a window", func(o *scenario.Summary) string { return fmt.Sprintf("%.1f", o.WorstWindow) })
	}
	row("wrong refusals", "the cluster's level still covered them", func(o *scenario.Summary) string { return num(o.WrongRefused) })
	row("reports/s", "of all nodes", func(o *scenario.Summary) string { return fmt.Sprintf("%.1f", o.ReportsPerSecond) })
	row("reports/s/node", "", func(o *scenario.Summary) string { return fmt.Sprintf("%.2f", o.ReportsPerNodeSecond) })
	row("bytes/s", "of all nodes", func(o *scenario.Summary) string { return fmt.Sprintf("%.0f", o.BytesPerSecond) })
	row("learning ms", "from a leader's death until the next has learned", func(o *scenario.Summary) string { return fmt.Sprintf("%.1f", o.LearningMS) })
	row("violations", "of what must hold at every step", func(o *scenario.Summary) string { return num(len(o.Violations)) })
	row("node-s per CPU-s", "simulated", func(o *scenario.Summary) string { return fmt.Sprintf("%.0f", o.NodeSeconds/max(o.CPUSeconds, 1e-3)) })
	return tbl.write(b)
}

func windowed(l *quota.Limit) bool {
	for _, t := range l.Tiers() {
		if t.Kind.Windowed() {
			return true
		}
	}
	return false
}

// summary prints a line for each scenario and algorithm.
func (s *simulator) summary() error {
	out := s.cmd.OutOrStdout()
	fmt.Fprintln(out)
	tbl := newTable("SCENARIO", "ALGORITHM", "SEEDS", "NET", "OVER", "UNDER", "EXCESS", "BURSTS", "WRONG", "EXPECTED")
	for _, r := range s.results {
		o := &r.worst
		tbl.row(r.scenario.Name, string(r.algorithm), num(len(r.runs)), fmt.Sprintf("%+.2f%%", o.NetPct), fmt.Sprintf("%.2f%%", o.OverPct), fmt.Sprintf("%.2f%%", o.UnderPct),
			fmt.Sprintf("%.1f", o.WorstExcess.Tokens), fmt.Sprintf("%.3f", o.WorstExcess.Bursts), num(o.WrongRefused), r.kept())
	}
	return tbl.write(out)
}

func (r *simResult) kept() string {
	switch {
	case r.algorithm != sim.Quorate || len(r.scenario.Expect) == 0 && len(r.broken) == 0:
		return "-"
	case len(r.broken) > 0:
		return "NO"
	}
	return "yes"
}
