package scenario

import (
	"os"
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestExamples plays the examples: each has the outcome that it says.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: one goroutine plays each scenario")
	}
	playExamples(t, readAll(t, "."))
}

// playExamples plays all seeds of all scenarios, and holds each to what it expects.
func playExamples(t *testing.T, files []file) {
	t.Helper()
	var all []*Scenario
	for _, f := range files {
		all = append(all, f.all...)
	}
	seeds := 1
	if testspeed.IsFull() && !testing.Short() {
		seeds = MaxSeeds
	}
	played := playAll(all, seeds)
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) { checkExample(t, s, played[s]) })
	}
}

func checkExample(t *testing.T, s *Scenario, runs []Outcome) {
	if len(s.Expect) == 0 && len(s.Algorithms) == 1 {
		t.Error("expects nothing")
	}
	for _, b := range s.Check(runs) {
		t.Errorf("%s:%d: %s: %v", s.Source, s.Line, s.Name, b)
	}
	if w := Worst(runs); w.Attempted == 0 || w.Ideal == 0 {
		t.Errorf("nothing happened: %+v", w.Outcome)
	}
}

// TestRepeats plays a scenario with everything in it twice: every number is the
// same.
func TestRepeats(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine plays for long; left out by -short")
	}
	data, err := os.ReadFile("../../../examples/sim/headline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Parse("headline", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range sim.Algorithms() {
		x, y := all[0].Run(a, 7, nil), all[0].Run(a, 7, nil)
		if !reflect.DeepEqual(x, y) {
			t.Errorf("%s: first %+v\nthen %+v", a, x, y)
		}
		if z := all[0].Run(a, 8, nil); z.Attempted == x.Attempted && z.Admitted == x.Admitted {
			t.Errorf("%s: another seed is the same run", a)
		}
	}
}
