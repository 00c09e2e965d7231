package scenario

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/sim"
)

// TestExamples plays the examples: each has the outcome that it says.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("plays for a minute in one goroutine; left out by -short")
	}
	files, err := filepath.Glob("../../../examples/sim/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			t.Run(s.Name, func(t *testing.T) { playExample(t, s) })
		}
	}
}

func playExample(t *testing.T, s *Scenario) {
	if len(s.Expect) == 0 && len(s.Algorithms) == 1 {
		t.Error("expects nothing")
	}
	if testing.Short() {
		s.Seeds = s.Seeds[:1]
	}
	var runs []Outcome
	for _, seed := range s.Seeds {
		runs = append(runs, s.Run(sim.Quorate, seed, nil))
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
	data, err := os.ReadFile("../../../examples/sim/headline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Parse("headline", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Algorithms {
		x, y := all[0].Run(a, 7, nil), all[0].Run(a, 7, nil)
		if !reflect.DeepEqual(x, y) {
			t.Errorf("%s: first %+v\nthen %+v", a, x, y)
		}
		if z := all[0].Run(a, 8, nil); z.Attempted == x.Attempted && z.Admitted == x.Admitted {
			t.Errorf("%s: another seed is the same run", a)
		}
	}
}
