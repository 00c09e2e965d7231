package scenario

import (
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testspeed"
)

// quickReach is the step between the scenarios of a file that quick tests play.
const quickReach = 16

// TestReach plays the scenarios of examples/sim/reach that have at most ten nodes, with one
// seed. Quick tests play each sixteenth of them, and make reach plays all. The hundreds of
// scenarios are one subtest per file.
func TestReach(t *testing.T) {
	if testing.Short() {
		t.Skip("plays for a minute on all processors; left out by -short")
	}
	files := readAll(t, "reach")
	var list []*Scenario
	for _, f := range files {
		small := 0
		for _, s := range f.all {
			if s.Nodes > 10 {
				continue
			}
			if testspeed.IsFull() || small%quickReach == 0 {
				list = append(list, s)
			}
			small++
		}
	}
	played := playAll(list, 1)
	for _, f := range files {
		t.Run(f.name, func(t *testing.T) { checkReach(t, f, played) })
	}
}

func checkReach(t *testing.T, f file, played map[*Scenario][]Outcome) {
	any := false
	for _, s := range f.all {
		runs := played[s]
		if len(runs) == 0 {
			continue
		}
		any = true
		for _, b := range s.Check(runs) {
			t.Errorf("%s:%d: %s: %v", s.Source, s.Line, s.Name, b)
		}
		for _, b := range broken(s.Target, runs) {
			t.Logf("%s: target missed: %v", s.Name, b)
		}
	}
	if !any {
		t.Error("nothing played")
	}
}

// TestSweepBound: a file that makes too many scenarios is refused before they
// are made.
func TestSweepBound(t *testing.T) {
	list := func(n int) string {
		var words []string
		for i := range n {
			words = append(words, strconv.Itoa(i+1))
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	text := func(nodes, clumps int) []byte {
		return []byte("duration: 20s\nlimit: {rate: 1/s, burst: 1}\nload: [{rate: 3x}]\nsweep: {nodes: " + list(nodes) + ", clump: " + list(clumps) + "}\n")
	}
	all, err := Parse("f.yaml", text(100, 10))
	if err != nil || len(all) != MaxDocuments || all[999].Name != "f-n100-c10" || all[999].Of != MaxDocuments {
		t.Fatalf("%d scenarios, %v", len(all), err)
	}
	if all[0].Loads[0].Clump != 1 || all[1].Loads[0].Clump != 2 {
		t.Error("scenarios of a sweep share their loads")
	}
	if _, err := Parse("f.yaml", text(100, 11)); err == nil || !strings.Contains(err.Error(), "makes 1100 scenarios of the file") {
		t.Errorf("1100 scenarios: %v", err)
	}
	if _, err := Parse("f.yaml", text(101, 1)); err == nil {
		t.Error("101 values of one field are taken")
	}
}
