package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// simulator is one run of "quorate sim": its flags and results.
type simulator struct {
	seed       uint64
	seeds      int
	algorithms []string
	nodes      int
	sync       time.Duration
	only       string
	example    string
	output     render.Output
	chart      bool
	noChart    bool
	campaign   int
	minutes    float64

	cmd     *cobra.Command
	results []*simResult
}

// NewCommand returns "quorate sim".
func NewCommand() *cobra.Command {
	var s simulator
	cmd := &cobra.Command{
		Use:   "sim FILE...",
		Short: "Simulate scenarios, compared with an ideal limiter",
		Long: `Simulate scenario files ("-": standard input; "example:NAME": a built-in one) in
virtual time: the real code of leaders and members, with network delays, losses
and partitions, nodes that die, pause and return, and clocks that differ. The
result is compared with one ideal limiter that sees the same requests. No
cluster is needed. docs/reference/simulator.md explains the files and the
output.

Results are reproducible from the seed, which is printed with the command that
repeats it. With several seeds, the worst one counts. A file may state what it
expects: then it is a test.

--campaign runs N random scenarios with faults, on all processors, and checks
each: hard limits are never exceeded, soft ones by no more than stated, every
leader's books add up after every step, and every token is counted once. It
prints every failing seed with its command; with one scenario, also the file.

Exit code 0 means that all expectations were met, 1 that some were not, 2 that a
file is invalid.

Built-in examples: ` + wrapNames(exampleNames(), 19) + `.`,
		Example: `  quorate sim example:headline
  quorate sim example:moving --algorithm all --no-chart
  quorate sim examples/sim/hard.yaml --seeds 20 -o json
  quorate sim -o markdown examples/sim/reach/*.yaml
  quorate sim --example steady > mine.yaml
  quorate sim --campaign 1000 --minutes 5`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.cmd = cmd
			return s.run(cmd.Context(), args)
		},
	}
	s.addFlags(cmd)
	s.output.AddFlags(cmd, render.FormatText, render.FormatJSON, markdown)
	return cmd
}

func (s *simulator) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint64Var(&s.seed, "seed", 0, "run this seed, and no other unless --seeds is given (default: the file's)")
	f.IntVar(&s.seeds, "seeds", 0, fmt.Sprintf("run this many seeds, 1 to %d, from the first one on (default: the file's)", scenario.MaxSeeds))
	f.StringSliceVar(&s.algorithms, "algorithm", nil, "algorithms, or all: "+strings.Join(algorithmNames(), ", ")+" (default: the file's)")
	f.IntVar(&s.nodes, "nodes", 0, fmt.Sprintf("play on this many nodes, 1 to %d (default: the file's)", scenario.MaxNodes))
	f.DurationVar(&s.sync, "sync", 0, fmt.Sprintf("use this sync interval, %v to %v (default: the file's)", scenario.MinSync, scenario.MaxSync))
	f.StringVar(&s.only, "only", "", "run only the scenario of this name; of a sweep all, or one, such as above-n50")
	f.StringVar(&s.example, "example", "", "print the built-in example of this name, as a template, and run nothing")
	f.IntVar(&s.campaign, "campaign", 0, "run this many random scenarios with faults instead of files, from --seed on")
	f.Float64Var(&s.minutes, "minutes", 0, "end a campaign after this many minutes (default: no limit)")
	f.BoolVar(&s.chart, "chart", true, "draw attempted and admitted tokens over time")
	f.BoolVar(&s.noChart, "no-chart", false, "print only the numbers")
}

// markdown is the output format of one table of all scenarios. It plays on all processors.
const markdown = "markdown"

// data reports whether results are printed as data: one object per scenario and algorithm.
func (s *simulator) data() bool { return !s.output.ForPeople() || s.output.Format == render.FormatCSV }

func algorithmNames() (names []string) {
	for _, a := range sim.Algorithms() {
		names = append(names, string(a))
	}
	return names
}

func (s *simulator) run(ctx context.Context, args []string) error {
	if s.noChart && s.cmd.Flags().Changed("chart") {
		return exit.Usagef("--chart and --no-chart cannot be combined; choose one")
	}
	if s.output.Format == markdown && (s.cmd.Flags().Changed("algorithm") || s.cmd.Flags().Changed("campaign")) {
		return exit.Usagef("-o markdown: cannot be combined with --algorithm or --campaign")
	}
	if s.cmd.Flags().Changed("campaign") {
		return s.runCampaign(ctx, args)
	}
	if s.example != "" {
		return s.printExample(args)
	}
	all, err := s.read(args)
	if err != nil {
		return err
	}
	if s.output.Format == markdown {
		return s.table(ctx, all)
	}
	for i, sc := range all {
		if err := s.play(ctx, sc, i == 0); err != nil {
			return err
		}
	}
	if !s.data() && len(s.results) > 1 {
		if err := s.summary(); err != nil {
			return err
		}
	}
	return s.failed()
}

// play runs one scenario with all its algorithms, and prints the results.
func (s *simulator) play(ctx context.Context, sc *scenario.Scenario, first bool) error {
	var rs []*simResult
	for _, a := range sc.Algorithms {
		r := &simResult{scenario: sc, algorithm: a, command: s.replay(sc, a)}
		for i, seed := range sc.Seeds {
			what := fmt.Sprintf("%s, %s, seed %d (%d of %d)", sc.Name, a, seed, i+1, len(sc.Seeds))
			o, err := s.once(ctx, sc, a, seed, what)
			if err != nil {
				return err
			}
			r.runs = append(r.runs, o)
		}
		r.finish()
		rs = append(rs, r)
	}
	s.results = append(s.results, rs...)
	if s.data() {
		return s.writeLines(rs)
	}
	if !first {
		fmt.Fprintln(s.cmd.OutOrStdout())
	}
	return s.writeText(sc, rs)
}

// once plays one seed. On an interrupt it abandons the run, because the program ends.
func (s *simulator) once(ctx context.Context, sc *scenario.Scenario, a sim.Algorithm, seed uint64, what string) (scenario.Outcome, error) {
	if ctx.Err() != nil {
		return scenario.Outcome{}, errInterrupted
	}
	watch, stop := s.progress(what, sc.Duration)
	done := make(chan scenario.Outcome, 1)
	go func() {
		before := cpuSeconds()
		o := sc.Run(a, seed, watch)
		o.CPUSeconds = cpuSeconds() - before
		done <- o
	}()
	select {
	case o := <-done:
		stop()
		return o, nil
	case <-ctx.Done():
		stop()
		return scenario.Outcome{}, errInterrupted
	}
}

var errInterrupted = errors.New("interrupted; only scenarios that had ended are printed")

// failed returns the error with the exit code: a failed expectation counts as a no. The text lines
// have the form of errors, since the output may be JSON.
func (s *simulator) failed() error {
	var lines []string
	for _, r := range s.results {
		for _, b := range r.broken {
			lines = append(lines, fmt.Sprintf("%s: %s: %v\n  replay: %s", r.scenario.Source, r.scenario.Name, b, r.again(b.Seed)))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return exit.Errorf(exit.No, "not as expected:\n%s", strings.Join(lines, "\n"))
}
