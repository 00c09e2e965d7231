package scenario

import (
	"testing"

	"github.com/quorate/quorate/internal/sim"
)

// TestRegressions plays the scenarios that failed once: none does any more.
func TestRegressions(t *testing.T) {
	if testing.Short() {
		t.Skip("worlds of one goroutine each play for seconds; left out by -short")
	}
	playExamples(t, readAll(t, "regressions"))
}

// TestRegressionsKeepProperties holds them to the properties of random scenarios
// as well, of which a file can expect only some.
func TestRegressionsKeepProperties(t *testing.T) {
	for _, f := range readAll(t, "regressions") {
		for _, s := range f.all {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for _, b := range sim.Judge(s.play(sim.Quorate, s.Seeds[0])).Broken {
					t.Errorf("%s: %s", b.Property, b.What)
				}
			})
		}
	}
}
