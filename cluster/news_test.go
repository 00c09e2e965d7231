package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestNewsReachEverybody checks that a node that was wrongly taken for dead, or that has missed
// beacons, knows all leaders again as soon as the next beacons arrive.
func TestNewsReachEverybody(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 16)
	for round := range 3 {
		for _, n := range c.running() {
			for _, id := range c.ids() {
				if id != n.cfg.Self {
					n.net.MarkDead(id)
					n.routes.clearNode(id)
				}
			}
		}
		c.awaitKnown(fmt.Sprintf("round %d", round))
	}
}

// TestReplacedUnderItsName repeatedly replaces a node by another process, while the
// leaving beacon of the process before arrives late.
func TestReplacedUnderItsName(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 16, quick)
	for round := range 3 {
		c.kill("n3")
		c.start("n3", nil)
		c.awaitKnown(fmt.Sprintf("round %d", round))
		for _, id := range []quota.NodeID{"n1", "n2"} {
			n := c.nodes[id]
			n.onBeacon("n3", &peerv1.Beacon{Leaving: true})
			c.nodes["n3"].routes.clearNode(id)
		}
		c.awaitKnown(fmt.Sprintf("round %d, after the goodbye", round))
	}
}

// TestOldDataComeBack runs a copy of a node's data elsewhere for a while, and then the original data at
// the old address. The node's own copy of the membership has its address, but
// the others look for it where the copy was.
func TestOldDataComeBack(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 16, quick)
	c.eventually(time.Minute, "there is a membership on disk", func() error {
		for _, n := range c.running() {
			if _, err := os.Stat(filepath.Join(c.dir, string(n.cfg.Self), membership.File)); err != nil || !n.members.View().Table.Seeded() {
				return errors.Join(err, errors.New("not seeded"))
			}
		}
		return nil
	})
	home, dir := c.addrs["n3"], filepath.Join(c.dir, "n3")
	c.kill("n3")
	if err := os.CopyFS(dir+".kept", os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addrs["n3"] = l.Addr().String()
	c.start("n3", l)
	c.awaitKnown("elsewhere")
	c.kill("n3")
	if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+".kept", dir)); err != nil {
		t.Fatal(err)
	}
	c.addrs["n3"] = home
	c.start("n3", nil)
	c.awaitKnown("back")
}

// awaitKnown waits until every node knows all leaders, and sees all others as up.
func (c *threeNodes) awaitKnown(when string) {
	c.t.Helper()
	c.eventually(10*time.Second, when+": all nodes know all leaders", func() error {
		for _, n := range c.running() {
			if err := led(n.Status()); err != nil {
				return fmt.Errorf("%s: %w", n.cfg.Self, err)
			}
			if up := n.routes.upNodes(); len(up) != len(c.nodes)-1 {
				return fmt.Errorf("%s: only %v are up", n.cfg.Self, up)
			}
		}
		return nil
	})
}
