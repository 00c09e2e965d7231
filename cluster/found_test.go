package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// TestGroupsOpenedLateAreMade checks that groups are created even after the membership: a disk can be
// so slow that the membership of a new cluster exists before all its groups are open, and no other
// node would create them.
func TestGroupsOpenedLateAreMade(t *testing.T) {
	c := newOne(t, 2)
	n := c.any()
	settings := n.cfg.membership(starts{})
	began, err := membership.SettingsView(&settings)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // a change of the membership may meanwhile open the group as one that others create
		if err := n.host.DropGroup(raftgroup.OfRange(quota.RangeID(1))); err != nil {
			t.Fatal(err)
		}
		c.eventually(time.Minute, "no leader of the group that is gone", func() error {
			if led(n.Status()) == nil {
				return errors.New("there is one")
			}
			return nil
		})
		if err := n.members.OpenMissing(began); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if led(n.Status()) == nil {
				return
			}
		}
	}
	t.Error("the group was not made")
}
