package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
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
	fmt.Fprintf(b, "hop %v, hold %v, election %v, skew %v, drift %v\n", s.Hop, s.Hold, s.Election, s.Skew, s.Drift)
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
}
