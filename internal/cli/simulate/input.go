package simulate

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/examples"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// examplePrefix marks an argument as the name of a built-in scenario file.
const examplePrefix = "example:"

func exampleNames() (names []string) {
	files, err := fs.Glob(examples.Scenarios, "sim/*.yaml")
	if err != nil {
		panic(err) // the pattern is constant
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".yaml"))
	}
	return names
}

func readExample(name string) ([]byte, error) {
	data, err := examples.Scenarios.ReadFile("sim/" + name + ".yaml")
	if err != nil {
		return nil, exit.NotFoundf("unknown example %q; must be one of %s", name, strings.Join(exampleNames(), ", "))
	}
	return data, nil
}

// wrapNames breaks a list into lines of 80 columns. The first line begins at the given column.
func wrapNames(names []string, column int) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(",")
			if column += 2; column+len(n) > 78 {
				b.WriteString("\n")
				column = 0
			} else {
				b.WriteString(" ")
			}
		}
		b.WriteString(n)
		column += len(n)
	}
	return b.String()
}

func (s *simulator) printExample(args []string) error {
	if len(args) > 0 {
		return exit.Usagef("--example %s: plays nothing; leave %s out", s.example, args[0])
	}
	data, err := readExample(s.example)
	if err != nil {
		return err
	}
	_, err = s.cmd.OutOrStdout().Write(data)
	return err
}

// read returns the scenarios of all files, with the overrides from flags applied.
func (s *simulator) read(args []string) ([]*scenario.Scenario, error) {
	if len(args) == 0 {
		return nil, exit.Usagef(`say which scenario to play: a file, or a built-in example, such as "quorate sim example:headline".
"quorate sim --example headline > mine.yaml" writes a file to start from`)
	}
	var all []*scenario.Scenario
	for _, arg := range args {
		var data []byte
		var err error
		if name, ok := strings.CutPrefix(arg, examplePrefix); ok {
			data, err = readExample(name)
		} else {
			data, err = limits.ReadInput(arg, s.cmd.InOrStdin(), config.MaxFileBytes)
		}
		if err != nil {
			return nil, err
		}
		list, err := scenario.Parse(sourceName(arg), data)
		if err != nil {
			return nil, exit.Invalid(err)
		}
		for _, sc := range list {
			sc.Source = arg
			if s.only == "" || sc.Name == s.only || sc.Base == s.only {
				all = append(all, sc)
			}
		}
	}
	if len(all) == 0 {
		return nil, exit.NotFoundf("--only %s: no scenario has this name", s.only)
	}
	for _, sc := range all {
		if err := s.override(sc); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sourceName returns the name of an argument in errors, which also names a scenario without a name
// of its own.
func sourceName(arg string) string {
	if name, ok := strings.CutPrefix(arg, examplePrefix); ok {
		return name
	}
	if arg == "-" {
		return "stdin"
	}
	return arg
}

// override applies the flags to a scenario.
func (s *simulator) override(sc *scenario.Scenario) error {
	f := s.cmd.Flags()
	if f.Changed("nodes") {
		if sc.SweptNodes {
			return exit.Usagef("--nodes %d: %s sweeps nodes; leave --nodes out, and choose with --only, such as --only %s", s.nodes, sc.Base, sc.Name)
		}
		if err := sc.SetNodes(s.nodes); err != nil {
			return exit.Usagef("--nodes %w", err)
		}
	}
	if f.Changed("sync") {
		if err := sc.SetSync(s.sync); err != nil {
			return exit.Usagef("--sync %w", err)
		}
	}
	if f.Changed("seed") {
		sc.Seeds = []uint64{s.seed}
	}
	if f.Changed("seeds") {
		if s.seeds < 1 || s.seeds > scenario.MaxSeeds {
			return exit.Usagef("--seeds %d: must be 1 to %d", s.seeds, scenario.MaxSeeds)
		}
		first := sc.Seeds[0]
		sc.Seeds = nil
		for i := range uint64(s.seeds) {
			sc.Seeds = append(sc.Seeds, first+i)
		}
	}
	return s.overrideAlgorithms(sc)
}

func (s *simulator) overrideAlgorithms(sc *scenario.Scenario) error {
	if !s.cmd.Flags().Changed("algorithm") {
		return nil
	}
	sc.Algorithms = nil
	for _, name := range s.algorithms {
		switch a := sim.Algorithm(name); {
		case name == "all":
			sc.Algorithms = sc.Playable()
			return nil
		case !slices.Contains(sim.Algorithms(), a):
			return exit.Usagef("--algorithm %q: must be all, or of %s", name, strings.Join(algorithmNames(), ", "))
		case sc.Fits(a) != nil:
			return exit.Usagef("--algorithm: is %v", sc.Fits(a))
		case !slices.Contains(sc.Algorithms, a):
			sc.Algorithms = append(sc.Algorithms, a)
		}
	}
	return nil
}

// replay returns the command line that plays a scenario again, without the seed.
func (s *simulator) replay(sc *scenario.Scenario, a sim.Algorithm) string {
	words := []string{"quorate sim", sc.Source}
	if sc.Of > 1 {
		words = append(words, "--only", sc.Name)
	}
	if a != sim.Quorate {
		words = append(words, "--algorithm", string(a))
	}
	if s.cmd.Flags().Changed("nodes") {
		words = append(words, "--nodes", strconv.Itoa(s.nodes))
	}
	if s.cmd.Flags().Changed("sync") {
		words = append(words, "--sync", s.sync.String())
	}
	return strings.Join(words, " ")
}
