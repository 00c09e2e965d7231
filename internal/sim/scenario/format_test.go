package scenario

import (
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/sim"
)

// TestFormat: what a campaign plays can be written as a file, which is valid and
// plays the same run.
func TestFormat(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		s := sim.Campaign(seed)
		text := Format(s)
		all, err := Parse("campaign.yaml", text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if a, b := sim.Run(s), sim.Run(all[0].play(sim.Quorate, seed)); !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: the file plays another run: %d admitted, then %d\n%s", seed, a.Admitted, b.Admitted, text)
		}
	}
}
