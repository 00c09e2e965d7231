package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// table plays all scenarios, as many runs at a time as there are processors, and
// prints them as Markdown: a section for each file, a row for each scenario. The
// same files and program print the same bytes.
func (s *simulator) table(ctx context.Context, all []*scenario.Scenario) error {
	for _, sc := range all {
		r := &simResult{scenario: sc, algorithm: sim.Quorate, replay: s.replay(sc, sim.Quorate), runs: make([]scenario.Outcome, len(sc.Seeds))}
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
	return s.verdict()
}

// playAll fills in the runs of all results. Interrupted, it leaves those behind
// that have begun: the program ends.
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
const tableNotes = `Of several seeds each figure is the worst of all, and "worst seed" the one of the net. Net is what was admitted less what
one ideal limiter admits that sees the same requests, in percent of the latter. Excess is the most that was admitted beyond
burst + rate x time over any stretch of time, and of a window beyond its count. A wrong refusal is one while the level, by what
the whole cluster had admitted, still covered the cost. Runs are held to the bounds in "held to"; a target beyond them that is
not reached is in the last column.
`

// writeTable prints all results.
func writeTable(w io.Writer, rs []*simResult) error {
	var b strings.Builder
	b.WriteString(tableNotes)
	shortfalls(&b, rs)
	file := ""
	for _, r := range rs {
		if sc := r.scenario; sc.Source != file {
			file = sc.Source
			fmt.Fprintf(&b, "\n## %s\n\n", strings.TrimSuffix(path.Base(file), path.Ext(file)))
			b.WriteString("| scenario | nodes | clump | net % | excess, tokens | bursts | wrong refusals | reports/s/node | learning, ms | seeds | worst seed | held to | target missed |\n")
			b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|\n")
		}
		b.WriteString(r.tableRow())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *simResult) tableRow() string {
	o, missed := &r.worst, "-"
	if list := r.missedBounds(); len(list) > 0 {
		missed = "**" + boundWords(list) + "**"
	}
	return fmt.Sprintf("| %s | %d | %s | %+.2f | %.1f | %.3f | %d | %.2f | %.0f | %d | %d | %s | %s |\n",
		r.scenario.Base, r.scenario.Nodes, clumpWords(r.scenario), o.NetPct, o.WorstExcess.Tokens, o.WorstExcess.Bursts, o.WrongRefused,
		o.ReportsPerNodeSecond, o.LearningMS, len(r.runs), o.Seed, boundWords(r.scenario.Expect), missed)
}

// missedBounds are the targets that a run did not reach.
func (r *simResult) missedBounds() (list []scenario.Bound) {
	for _, b := range r.scenario.Target {
		if _, missed := b.Broken(r.runs); missed {
			list = append(list, b)
		}
	}
	return list
}

// clumpWords is how many requests come at one moment, in all loads.
func clumpWords(sc *scenario.Scenario) string {
	var list []string
	for _, l := range sc.Loads {
		if n := strconv.Itoa(max(1, l.Clump)); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return strings.Join(list, ", ")
}

// boundWords are bounds in a few words.
func boundWords(list []scenario.Bound) string {
	var words []string
	for _, b := range list {
		name := strings.TrimPrefix(strings.ReplaceAll(b.Measure, "_", " "), "worst ")
		value := strings.Replace(b.String(), "at most ", "≤ ", 1)
		if b.Measure == "net_pct" && b.Low == -b.High {
			name, value = "net", "± "+strings.TrimPrefix(value, fmt.Sprintf("%v to ", b.Low))
		}
		name = strings.NewReplacer("net pct", "net", "excess.", "excess ", "reports per node second", "reports", "learning ms", "learning").Replace(name)
		words = append(words, name+" "+value)
	}
	return strings.Join(words, "; ")
}

// shortfalls says first what is not reached: of the scenarios of a sweep the
// worst, and how many miss it.
func shortfalls(b *strings.Builder, rs []*simResult) {
	type line struct {
		base      string
		target    scenario.Bound
		of, miss  int
		worst     scenario.Breach
		worstName string
	}
	var lines []*line
	for _, r := range rs {
		for _, target := range r.scenario.Target {
			i := slices.IndexFunc(lines, func(l *line) bool { return l.base == r.scenario.Base && l.target == target })
			if i < 0 {
				i, lines = len(lines), append(lines, &line{base: r.scenario.Base, target: target})
			}
			l := lines[i]
			l.of++
			if m, ok := target.Broken(r.runs); ok {
				l.miss++
				if l.worstName == "" || target.Beyond(m.Value) > target.Beyond(l.worst.Value) {
					l.worst, l.worstName = m, r.scenario.Name
				}
			}
		}
	}
	lines = slices.DeleteFunc(lines, func(l *line) bool { return l.miss == 0 })
	fmt.Fprintf(b, "\n%s; %s not reached", plural(len(rs), "scenario"), plural(len(lines), "target"))
	if len(lines) == 0 {
		b.WriteString(".\n")
		return
	}
	b.WriteString(", by the worst of each:\n\n| scenario | target | worst | where | missed by |\n|---|---|---:|---|---|\n")
	for _, l := range lines {
		fmt.Fprintf(b, "| %s | %s | %.4g | %s, seed %d | %d of %d |\n", l.base, boundWords([]scenario.Bound{l.target}), l.worst.Value, l.worstName, l.worst.Seed, l.miss, l.of)
	}
}
