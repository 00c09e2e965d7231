package scenario

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/internal/sim"
)

// file is a scenario file, as examples/sim has them.
type file struct {
	name string // without its folder and ending
	all  []*Scenario
}

// readAll reads the files of a folder below examples/sim.
func readAll(t *testing.T, folder string) (list []file) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../../../examples/sim", folder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Parse(path, data)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, file{strings.TrimSuffix(filepath.Base(path), ".yaml"), all})
	}
	return list
}

// playAll plays the first seeds of the scenarios, as many at a time as there are
// processors: what they cost differs by a hundred times.
func playAll(list []*Scenario, seeds int) map[*Scenario][]Outcome {
	type job struct {
		s    *Scenario
		seed int
	}
	out := map[*Scenario][]Outcome{}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for _, s := range list {
		out[s] = make([]Outcome, min(seeds, len(s.Seeds)))
	}
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				out[j.s][j.seed] = j.s.Run(sim.Quorate, j.s.Seeds[j.seed], nil)
			}
		})
	}
	for _, s := range list {
		for seed := range out[s] {
			jobs <- job{s, seed}
		}
	}
	close(jobs)
	workers.Wait()
	return out
}
