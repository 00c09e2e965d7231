package scenario

import (
	"crypto/sha256"
	"encoding/hex"
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

// TestDraws: what a seed of a campaign means changes only with the version that a
// campaign prints. A limit that is written otherwise changes it too.
func TestDraws(t *testing.T) {
	const version, digest = 10, "2e0b695d58248753"
	h := sha256.New()
	for seed := range uint64(500) {
		h.Write(Format(sim.Campaign(seed)))
	}
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != digest || sim.Draws != version {
		t.Errorf("draws %d make %s, and draws %d made %s: raise sim.Draws, and write both here", sim.Draws, got, version, digest)
	}
}
