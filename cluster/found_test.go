package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// A disk can be so slow that there is a membership before a new cluster's groups are all
// open. Those that come late are made nevertheless: nobody else would.
func TestGroupsOpenedLateAreMade(t *testing.T) {
	c := newOne(t, 2)
	n := c.any()
	settings := n.cfg.membership(starts{})
	began, err := membership.SettingsView(&settings)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // news of the membership may open the group in between, as one that others make
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
