package cluster

import (
	"testing"

	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestEarlierForm: nodes that read no packed form, or only the first, as those of
// earlier versions, are understood and understand, whoever leads.
func TestEarlierForm(t *testing.T) {
	testspeed.Full(t)
	forms := map[quota.NodeID]uint32{"n1": 2, "n2": 0, "n3": 1}
	c := newTrio(t, 6, func(cfg *Config) { cfg.earlier = peerproto.PackedForm - forms[cfg.Self] })
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
			if got := n.formOf(id); id != n.cfg.Self && got != forms[id] {
				t.Errorf("%s uses form %d to %s, which reads %d", n.cfg.Self, got, id, forms[id])
			}
		}
	}
}
