package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestMajorityLostIsSaid: a node that led the meta group and is alone says that nobody leads it.
func TestMajorityLostIsSaid(t *testing.T) {
	c := newTrio(t, 2)
	last := quota.NodeID(c.running()[0].Status().MetaLeader)
	for _, id := range c.ids() {
		if id != last {
			c.kill(id)
		}
	}
	c.eventually(10*time.Second, "it says that it leads the meta group no more", func() error {
		if st := c.nodes[last].Status(); st.MetaLeader != "" || st.Ready {
			return fmt.Errorf("meta leader %q, ready %t", st.MetaLeader, st.Ready)
		}
		return nil
	})
}
