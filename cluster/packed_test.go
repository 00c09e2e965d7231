package cluster

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestEarlierForm: a node that reads no packed form, as one of an earlier version, is
// understood and understands, whoever leads; the others use the packed form meanwhile.
func TestEarlierForm(t *testing.T) {
	c := newTrio(t, 6, func(cfg *Config) { cfg.unpacked = cfg.Self == "n2" })
	hard := limit("hard", 30, quota.Hard)
	c.apply(hard)
	for _, lead := range c.ids() {
		k := c.keyLedBy(hard.LimitName, lead, "of-"+string(lead))
		for _, n := range c.running() {
			for range 2 { // the second time by the leader's number
				use(t, n, k, 2)
			}
		}
		c.awaitAdmitted(k, 12)
	}
	for _, n := range c.running() {
		for _, id := range c.ids() {
			if want := n.cfg.Self != id && id != "n2"; n.packs(id) != want {
				t.Errorf("%s packs for %s: %v", n.cfg.Self, id, !want)
			}
		}
	}
}
