package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestMajorityLostIsSaid checks that a node that led the meta group and is alone reports that the meta
// group has no leader, and continues to decide.
func TestMajorityLostIsSaid(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2)
	last := quota.NodeID(c.running()[0].Status().MetaLeader)
	for _, id := range c.ids() {
		if id != last {
			c.kill(id)
		}
	}
	c.eventually(10*time.Second, "it says that it leads the meta group no more", func() error {
		if st := c.nodes[last].Status(); st.MetaLeader != "" || !st.Ready || st.Leaderless == "" {
			return fmt.Errorf("meta leader %q, ready %t (%s), leaderless %q", st.MetaLeader, st.Ready, st.Reason, st.Leaderless)
		}
		return nil
	})
}
