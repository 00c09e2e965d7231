package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// table plays all scenarios, as many runs in parallel as there are processors, and prints them as
// Markdown: a section per file and a row per scenario. The same files and program give the same
// bytes.
func (s *simulator) table(ctx context.Context, all []*scenario.Scenario) error {
	for _, sc := range all {
		r := &simResult{scenario: sc, algorithm: sim.Quorate, command: s.replay(sc, sim.Quorate), runs: make([]scenario.Outcome, len(sc.Seeds))}
		s.results = append(s.results, r)
	}
	if err := s.playAll(ctx); err != nil {
		return err
	}
	for _, r := range s.results {
		r.finish()
	}
	if err := writeTable(s.cmd.OutOrStdout(), s.results); err != nil {
		return err
	}
	return s.failed()
}

// playAll fills in the runs of all results. On an interrupt it abandons the runs under way, because
// the program ends.
func (s *simulator) playAll(ctx context.Context) error {
	type job struct{ r, run int }
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				r := s.results[j.r]
				r.runs[j.run] = r.scenario.Run(r.algorithm, r.scenario.Seeds[j.run], nil)
			}
		})
	}
	for i, r := range s.results {
		for run := range r.runs {
			select {
			case jobs <- job{i, run}:
			case <-ctx.Done():
				return errInterrupted
			}
		}
	}
	close(jobs)
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// tableNotes explain the columns.
const tableNotes = `Each row is a scenario, played with several seeds; each figure is the worst over all seeds.

- **Net** is the difference between the admitted tokens and those that one ideal limiter admits for the same requests, in percent of the latter.
- **Excess** is the largest number of tokens admitted beyond burst + rate x time in any stretch of time, or beyond the count of a window, in tokens and in bursts.
- **Batch** is the number of requests that arrive together at one node (` + "`clump`" + ` in scenario files). The moments of arrival are random (Poisson).
- **Reports** is the number of reports per node and second.
- **Learning** is the time from a leader's death until its successor has received the members' counts.
- **Target** is the goal or, for figures without a goal, the bound that every run must meet. **Met** names the missed targets, with the seed.
`

// writeTable prints all results.
func writeTable(w io.Writer, rs []*simResult) error {
	var b strings.Builder
	b.WriteString(tableNotes)
	byFile(&b, rs)
	shortfalls(&b, rs)
	for _, of := range files(rs) {
		fmt.Fprintf(&b, "\n## %s\n\n`quorate sim %s`, and `--only NAME-nNODES-cCLUMP` for a row, `--seed` for a seed.\n\n", fileWords(of[0]), of[0].scenario.Source)
		b.WriteString("| scenario | nodes | batch | net % | excess, tokens (bursts) | reports | learning, ms | seeds | target | met |\n")
		b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---|---|\n")
		base := ""
		for _, r := range inOrder(of) {
			b.WriteString(r.tableRow(r.scenario.Base != base))
			base = r.scenario.Base
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// files groups the results by file, in the order of the command line.
func files(rs []*simResult) (out [][]*simResult) {
	for _, r := range rs {
		if n := len(out); n > 0 && out[n-1][0].scenario.Source == r.scenario.Source {
			out[n-1] = append(out[n-1], r)
		} else {
			out = append(out, []*simResult{r})
		}
	}
	return out
}

// inOrder groups the sweeps of several documents with the same name, ordered by nodes, then clumps.
func inOrder(rs []*simResult) []*simResult {
	first := map[string]int{}
	for i, r := range rs {
		if _, ok := first[r.scenario.Base]; !ok {
			first[r.scenario.Base] = i
		}
	}
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b *simResult) int {
		x, y := a.scenario, b.scenario
		return cmp.Or(cmp.Compare(first[x.Base], first[y.Base]), cmp.Compare(x.Nodes, y.Nodes), cmp.Compare(largestClump(x), largestClump(y)))
	})
	return rs
}

func largestClump(sc *scenario.Scenario) (n int) {
	for _, l := range sc.Loads {
		n = max(n, l.Clump)
	}
	return n
}

// fileWords returns the name of a file in the table.
func fileWords(r *simResult) string {
	file := r.scenario.Source
	return strings.TrimSuffix(path.Base(file), path.Ext(file))
}

// tableRow formats one scenario. Only the first scenario of a name shows its description.
func (r *simResult) tableRow(first bool) string {
	o, what, met := &r.worst, "", "yes"
	if first {
		what = fmt.Sprintf("**%s**: %s", r.scenario.Base, r.scenario.Description)
	}
	if list := r.missed(); len(list) > 0 {
		met = "**no**: " + strings.Join(list, "; ")
	}
	learning := "-"
	if o.LearningMS > 0 {
		learning = fmt.Sprintf("%.0f", o.LearningMS)
	}
	return fmt.Sprintf("| %s | %d | %s | %+.2f | %.1f (%.3f) | %.1f | %s | %d | %s | %s |\n",
		what, r.scenario.Nodes, clumpWords(r.scenario), o.NetPct, o.WorstExcess.Tokens, o.WorstExcess.Bursts,
		o.ReportsPerNodeSecond, learning, len(r.runs), boundWords(r.aims()), met)
}

// aims returns the targets of a scenario, and its expectations for measures without a target:
// because the scenario already meets the target, or because it has none.
func (r *simResult) aims() []scenario.Bound {
	list := slices.Clone(r.scenario.Target)
	for _, b := range r.scenario.Expect {
		if !slices.ContainsFunc(list, func(t scenario.Bound) bool { return t.Measure == b.Measure }) {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b scenario.Bound) int { return cmp.Compare(a.Measure, b.Measure) })
	return list
}

// missed describes the aims that a run did not reach, and the violated invariants.
func (r *simResult) missed() (list []string) {
	for _, b := range r.aims() {
		if m, missed := b.Broken(r.runs); missed {
			list = append(list, fmt.Sprintf("%s %.4g (seed %d)", measureWords(b.Measure), m.Value, m.Seed))
		}
	}
	if n := len(r.worst.Violations); n > 0 {
		list = append(list, phrase.Plural(n, "violation"))
	}
	return list
}

// byFile summarizes per file how many scenarios reach all their aims.
func byFile(b *strings.Builder, rs []*simResult) {
	met, runs := 0, 0
	var rows strings.Builder
	for _, of := range files(rs) {
		n := 0
		for _, r := range of {
			runs += len(r.runs)
			if len(r.missed()) == 0 {
				n++
			}
		}
		met += n
		fmt.Fprintf(&rows, "| [%s](#%s) | %d | %d | %d |\n", fileWords(of[0]), fileWords(of[0]), len(of), n, len(of)-n)
	}
	fmt.Fprintf(b, "\n%s, %s: %d met, %d not.\n\n| part | scenarios | met | not met |\n|---|---:|---:|---:|\n%s",
		phrase.Plural(len(rs), "scenario"), phrase.Plural(runs, "run"), met, len(rs)-met, rows.String())
}

// clumpWords formats how many requests of each load arrive at one moment.
func clumpWords(sc *scenario.Scenario) string {
	var list []string
	for _, l := range sc.Loads {
		if n := strconv.Itoa(max(1, l.Clump)); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return strings.Join(list, ", ")
}

// boundWords formats bounds.
func boundWords(list []scenario.Bound) string {
	var words []string
	for _, b := range list {
		value := strings.Replace(b.String(), "at most ", "≤ ", 1)
		if b.Measure == "net_pct" && b.Low == -b.High {
			value = "± " + strings.TrimPrefix(value, fmt.Sprintf("%v to ", b.Low))
		}
		words = append(words, measureWords(b.Measure)+" "+value)
	}
	return strings.Join(words, "; ")
}

// measureWords returns the words of a measure.
func measureWords(name string) string {
	name = strings.TrimPrefix(strings.ReplaceAll(name, "_", " "), "worst ")
	return strings.NewReplacer("net pct", "net", "excess.", "excess ", "reports per node second", "reports", "learning ms", "learning").Replace(name)
}

// shortfalls lists the missed targets: the worst of the scenarios with the same name, and how many
// of those with the same target miss it.
func shortfalls(b *strings.Builder, rs []*simResult) {
	type line struct {
		r         *simResult
		aim       scenario.Bound
		of, miss  int
		worst     scenario.Breach
		worstName string
	}
	var lines []*line
	for _, r := range rs {
		for _, aim := range r.aims() {
			i := slices.IndexFunc(lines, func(l *line) bool { return l.r.scenario.Base == r.scenario.Base && l.aim == aim })
			if i < 0 {
				i, lines = len(lines), append(lines, &line{r: r, aim: aim})
			}
			l := lines[i]
			l.of++
			if m, ok := aim.Broken(r.runs); ok {
				l.miss++
				if l.worstName == "" || aim.Beyond(m.Value) > aim.Beyond(l.worst.Value) {
					l.worst, l.worstName = m, r.scenario.Name
				}
			}
		}
	}
	lines = slices.DeleteFunc(lines, func(l *line) bool { return l.miss == 0 })
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n## Targets not met\n\n| scenario | target | worst | where | of those with this target |\n|---|---|---:|---|---|\n")
	for _, l := range lines {
		fmt.Fprintf(b, "| %s: %s | %s | %.4g | %s, seed %d | %d of %d |\n",
			l.r.scenario.Base, l.r.scenario.Description, boundWords([]scenario.Bound{l.aim}), l.worst.Value, l.worstName, l.worst.Seed, l.miss, l.of)
	}
}
