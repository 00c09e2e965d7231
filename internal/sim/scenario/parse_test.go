package scenario

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/internal/sim"
)

// TestParse reads the files in testdata/parse: what comes of a good one, and all
// faults of a bad one.
func TestParse(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			input := d.Input
			if d.Cmd == "with" { // a field beside the ones that must be there
				input = "duration: 20s\nnodes: 5\nlimit: {rate: 100/s, burst: 200}\nload: [{rate: 3x}]\n" + input
			}
			all, err := Parse("f.yaml", []byte(input))
			if err != nil {
				return err.Error()
			}
			var b strings.Builder
			for _, s := range all {
				describe(&b, s)
			}
			return b.String()
		})
	})
}

func describe(b *strings.Builder, s *Scenario) {
	fmt.Fprintf(b, "%s: seeds %v, %v, %v, %d nodes, sync %v, %+v, %+v\n", s.Name, s.Seeds, s.Algorithms, s.Duration, s.Nodes, s.Sync, s.Network, s.Keys)
	if s.Entries > 0 {
		fmt.Fprintf(b, "entries %d\n", s.Entries)
	}
	if s.Service > 0 {
		fmt.Fprintf(b, "service %v\n", s.Service)
	}
	fmt.Fprintf(b, "hop %v, hold %v, election %v, skew %v, drift %v, near %v\n", s.Hop, s.Hold, s.Election, s.Skew, s.Drift, s.Near)
	fmt.Fprintf(b, "%v, %v %d, %v\n", s.Limit.Kind, s.Limit.Rate, s.Limit.Burst, s.Limit.Ceiling)
	for _, l := range s.Loads {
		fmt.Fprintf(b, "load %+v\n", l)
	}
	for _, f := range s.Faults {
		fmt.Fprintf(b, "fault %+v\n", f)
	}
	for _, e := range s.Expect {
		fmt.Fprintf(b, "expect %s %s\n", e.Measure, e)
	}
	for _, e := range s.Target {
		fmt.Fprintf(b, "target %s %s\n", e.Measure, e)
	}
}

// TestDocs parses the scenarios of docs/reference/simulator.md, and finds all fields and
// measures there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml scenario\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 2 {
		t.Errorf("%d scenarios; want 2 or more", len(blocks))
	}
	for _, b := range blocks {
		if _, err := Parse("docs/reference/simulator.md", []byte(b[1])); err != nil {
			t.Error(err)
		}
	}
	names := slices.Concat(scenarioFields, sweepFields, networkFields, loadFields, faultFields, measureNames(""))
	for _, a := range sim.Algorithms() {
		names = append(names, string(a))
	}
	for _, name := range names {
		if name = strings.TrimSuffix(name, "*"); !strings.Contains(string(text), "`"+name) {
			t.Errorf("docs/reference/simulator.md does not explain %s", name)
		}
	}
}
