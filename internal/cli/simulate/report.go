package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// simResult is the result of one scenario with one algorithm.
type simResult struct {
	scenario  *scenario.Scenario
	algorithm sim.Algorithm
	command   string // that plays it again, without the seed
	replay    string // of the worst seed
	runs      []scenario.Outcome

	worst  scenario.Summary
	broken []scenario.Breach
}

// finish judges the runs. The expectations of a file apply to Quorate only.
func (r *simResult) finish() {
	r.worst = scenario.Worst(r.runs)
	if r.algorithm == sim.Quorate {
		r.broken = r.scenario.Check(r.runs)
	}
	r.replay = r.again(r.worst.Seed)
}

// simLine is a line of "quorate sim -o json". Fields may be added, but not renamed.
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
		err := s.object(simLine{
			Scenario: sc.Name, File: sc.Source, Algorithm: string(r.algorithm), Limit: simLimit(&sc.Limit), Nodes: sc.Nodes, Keys: sc.Keys.Count,
			Seconds: sc.Duration.Seconds(), SyncMS: render.Millis(sc.Sync.Microseconds()), Summary: r.worst,
			Expected: len(r.broken) == 0, Broken: append([]scenario.Breach{}, r.broken...), Replay: r.replay,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// object prints data: JSON on a line of its own, or a YAML document.
func (s *simulator) object(data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.output.Print(s.cmd, json.RawMessage(b), nil)
}

// simLimit formats a limit: 1000/s burst 1000, soft.
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

func simPause(d time.Duration) string { return render.Pause(durationpb.New(d)) }

// writeText prints a scenario: its result and what was played, a table with one column per
// algorithm, a chart of the first algorithm, and the failed expectations.
func (s *simulator) writeText(sc *scenario.Scenario, rs []*simResult) error {
	var b strings.Builder
	p := render.Colours(s.cmd)
	b.WriteString(s.lead(sc, rs) + "\n")
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

// runWorst returns the run whose counts are in the summary.
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

// simTable prints one row per measure, with one column per algorithm.
func simTable(b *strings.Builder, sc *scenario.Scenario, rs []*simResult) error {
	header := []string{""}
	for _, r := range rs {
		header = append(header, strings.ToUpper(string(r.algorithm)))
	}
	tbl := render.NewTable(append(header, "")...)
	row := func(name, note string, cell func(o *scenario.Summary) any) {
		cells := []any{name}
		for _, r := range rs {
			cells = append(cells, cell(&r.worst))
		}
		tbl.Row(append(cells, note)...)
	}
	gap := func() {
		tbl.Row(slices.Repeat([]any{""}, len(rs)+2)...)
	}
	row("attempted", "tokens that were requested", func(o *scenario.Summary) any { return o.Attempted })
	row("admitted", "tokens that passed", func(o *scenario.Summary) any { return o.Admitted })
	row("ideal admitted", "by one limiter that sees the same requests", func(o *scenario.Summary) any { return o.Ideal })
	gap()
	row("net", "admitted less what the ideal admitted", func(o *scenario.Summary) any { return fmt.Sprintf("%+.2f%%", o.NetPct) })
	row("over", "admitted, the ideal refused (which requests; net says how many)", func(o *scenario.Summary) any { return fmt.Sprintf("%.2f%%", o.OverPct) })
	row("under", "refused, the ideal admitted", func(o *scenario.Summary) any { return fmt.Sprintf("%.2f%%", o.UnderPct) })
	row("worst excess", "tokens over burst + rate x time", func(o *scenario.Summary) any { return fmt.Sprintf("%.1f", o.WorstExcess.Tokens) })
	row("in bursts", "the same, in bursts of the limit", func(o *scenario.Summary) any { return fmt.Sprintf("%.3f", o.WorstExcess.Bursts) })
	if windowed(&sc.Limit) {
		row("worst window", "tokens over the count of a window", func(o *scenario.Summary) any { return fmt.Sprintf("%.1f", o.WorstWindow) })
	}
	row("wrong refusals", "the cluster's level still covered them", func(o *scenario.Summary) any { return o.WrongRefused })
	row("violations", "of the checks at every step", func(o *scenario.Summary) any { return len(o.Violations) })
	gap()
	row("reports/s", "of all nodes", func(o *scenario.Summary) any { return fmt.Sprintf("%.1f", o.ReportsPerSecond) })
	row("reports/s/node", "of one node", func(o *scenario.Summary) any { return fmt.Sprintf("%.2f", o.ReportsPerNodeSecond) })
	row("bytes/s", "of all nodes", func(o *scenario.Summary) any { return fmt.Sprintf("%.0f", o.BytesPerSecond) })
	if slices.ContainsFunc(rs, func(r *simResult) bool { return r.worst.LearningMS > 0 }) {
		row("learning ms", "from a leader's death until the next has learned", func(o *scenario.Summary) any { return fmt.Sprintf("%.1f", o.LearningMS) })
	}
	row("node-s per CPU-s", "simulated", func(o *scenario.Summary) any { return fmt.Sprintf("%.0f", o.NodeSeconds/max(o.CPUSeconds, 1e-3)) })
	return tbl.Write(b)
}

func windowed(l *quota.Limit) bool {
	for _, t := range l.Tiers() {
		if t.Kind.Windowed() {
			return true
		}
	}
	return false
}

// summary prints a line per scenario and algorithm, and how many met their expectations.
func (s *simulator) summary() error {
	out := s.cmd.OutOrStdout()
	fmt.Fprintln(out)
	tbl := render.NewTable("SCENARIO", "ALGORITHM", "SEEDS", "NET", "OVER", "UNDER", "EXCESS", "BURSTS", "WRONG", "EXPECTED")
	for _, r := range s.results {
		o := &r.worst
		tbl.Row(r.scenario.Name, r.algorithm, len(r.runs), fmt.Sprintf("%+.2f%%", o.NetPct), fmt.Sprintf("%.2f%%", o.OverPct), fmt.Sprintf("%.2f%%", o.UnderPct),
			fmt.Sprintf("%.1f", o.WorstExcess.Tokens), fmt.Sprintf("%.3f", o.WorstExcess.Bursts), o.WrongRefused, r.kept())
	}
	if err := tbl.Write(out); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, s.tally())
	return err
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

// lead returns the first lines of a report: the scenario, its result, and what was played.
func (s *simulator) lead(sc *scenario.Scenario, rs []*simResult) string {
	name := sc.Name
	if sc.Description != "" {
		name += ": " + phrase.Printable(sc.Description)
	}
	r, faults := rs[0], "no faults"
	if n := len(sc.Faults); n > 0 {
		faults = phrase.Plural(n, "fault")
	}
	return fmt.Sprintf("%s\n%s %s admitted %d of %d, %s\nplayed %s of virtual time on %s with %s, %s; %s; sync %v, delay %v%s\n", name,
		r.outcome(render.Colours(s.cmd)), r.algorithm, r.worst.Admitted, r.worst.Attempted, netWords(r.worst.NetPct),
		simPause(sc.Duration), phrase.Plural(sc.Nodes, "node"), faults, seedWords(r), simLimit(&sc.Limit), sc.Sync, sc.Network.Delay, networkWords(sc.Network))
}

// outcome says in a few words whether all expectations were met. It is empty for an algorithm
// without expectations.
func (r *simResult) outcome(p render.Palette) string {
	switch n := len(r.scenario.Expect); {
	case r.algorithm != sim.Quorate:
		return ""
	case len(r.broken) > 0:
		return p.Paint(render.Red, "NOT AS EXPECTED") + fmt.Sprintf(", %s not kept:", phrase.Plural(len(r.broken), "bound"))
	case n > 0:
		return p.Paint(render.Green, "as expected") + fmt.Sprintf(", %s kept:", phrase.Plural(n, "bound"))
	}
	return "nothing was expected:"
}

func netWords(pct float64) string {
	switch text := fmt.Sprintf("%.2f%%", max(pct, -pct)); {
	case text == "0.00%":
		return "as many as the ideal limiter"
	case pct < 0:
		return text + " fewer than the ideal limiter"
	default:
		return text + " more than the ideal limiter"
	}
}

// again returns the command line that replays a seed.
func (r *simResult) again(seed uint64) string { return fmt.Sprintf("%s --seed %d", r.command, seed) }

// writeVerdict prints each failed expectation with the command that replays its seed. If none
// failed, it prints the command that replays the worst seed.
func (r *simResult) writeVerdict(b *strings.Builder, p render.Palette) {
	for _, v := range r.worst.Violations[:min(len(r.worst.Violations), 3)] {
		b.WriteString(p.Paint(render.Red, "violation") + fmt.Sprintf(": %s\n", phrase.Printable(v)))
	}
	for _, broken := range r.broken {
		b.WriteString(p.Paint(render.Red, "not as expected") + fmt.Sprintf(": %v\nreplay: %s\n", broken, r.again(broken.Seed)))
	}
	if len(r.broken) == 0 {
		fmt.Fprintf(b, "replay: %s\n", r.again(r.worst.Seed))
	}
}

// tally returns how many of several scenarios met their expectations.
func (s *simulator) tally() string {
	kept, broken, none := 0, 0, 0
	for _, r := range s.results {
		switch r.kept() {
		case "yes":
			kept++
		case "NO":
			broken++
		default:
			none++
		}
	}
	text := fmt.Sprintf("%d played: %d as expected", len(s.results), kept)
	if broken > 0 {
		text += fmt.Sprintf(", %d NOT", broken)
	}
	if none > 0 {
		text += fmt.Sprintf(", %d without expectations", none)
	}
	return text
}
