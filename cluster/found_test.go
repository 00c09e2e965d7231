package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// A disk can be so slow that there is a membership before a new cluster's groups are all
// open. Those that come late are made nevertheless: nobody else would.
func TestGroupsOpenedLateAreMade(t *testing.T) {
	c := newOne(t, 2)
	n := c.any()
	dropped := func() error { // while nothing opens it again, which any news of the membership may do
		n.opening.Lock()
		defer n.opening.Unlock()
		if err := n.host.DropGroup(group(quota.RangeID(1))); err != nil {
			return err
		}
		c.eventually(time.Minute, "no leader of the group that is gone", func() error {
			if led(n.Status()) == nil {
				return errors.New("there is one")
			}
			return nil
		})
		return nil
	}
	if err := dropped(); err != nil {
		t.Fatal(err)
	}
	began, err := staticView(&n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.openMissing(began); err != nil {
		t.Fatal(err)
	}
	c.awaitReady(time.Minute)
}
