package systemtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestFirstLimitsOfLateMajority starts the node with the first limits more than a minute before the
// others, and checks that the cluster has these limits as soon as it has a leader. A node used to
// give up after a minute.
func TestFirstLimitsOfLateMajority(t *testing.T) {
	testspeed.Full(t)
	t.Parallel()
	c := newServers(t, 4)
	c.seed = "version: 1\nnamespaces: {shop: {limits: {orders: {rate: 10/s}}}}\n"
	c.start(c.nodes[0])
	time.Sleep(65 * time.Second) // under test: a node used to give up after a minute
	c.seed = ""
	c.start(c.nodes[1])
	c.start(c.nodes[2])
	for _, s := range c.nodes {
		eventually(t, 30*time.Second, s.id+" has the first limits", func() error {
			st, err := s.status()
			if err == nil && st.Version != 1 {
				err = fmt.Errorf("version %d", st.Version)
			}
			return err
		})
	}
}

// TestReadyWithFirstLimits checks that a new cluster applies the first limits as soon as a node
// reports that it is ready.
func TestReadyWithFirstLimits(t *testing.T) {
	t.Parallel()
	c := newServers(t, 4)
	c.seed = "version: 1\nnamespaces: {shop: {limits: {orders: {rate: 10/s}}}}\n"
	for _, s := range c.nodes {
		c.start(s)
	}
	for _, s := range c.nodes {
		if st := c.awaitReady(s, 15*time.Second); st.Version != 1 {
			t.Errorf("%s is ready with version %d of the limits", s.id, st.Version)
		}
	}
}
