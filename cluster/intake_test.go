package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/replica/replicatest"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// otherKey returns a key that the same node leads, in another range.
func (c *threeNodes) otherKey(l quota.LimitName, k quota.Key, prefix string) quota.Key {
	for i := range 10_000 {
		other := quota.Key{LimitName: l, Key: fmt.Sprintf("%s%d", prefix, i)}
		if c.leaderOf(other) == c.leaderOf(k) && shard.Of(other, c.ranges) != shard.Of(k, c.ranges) {
			return other
		}
	}
	c.t.Fatalf("%s leads one range", c.leaderOf(k))
	return quota.Key{}
}

// TestBusyRange checks that a range with an occupied ledger delays only itself: not other frames
// on the connections that carry its reports, not reports to other ranges, from other nodes
// or its own, and not beacons. Its pending reports are booked once the ledger is free.
func TestBusyRange(t *testing.T) {
	c := newThreeNodes(t, 6)
	l := limit("h", 1000, quota.Hard)
	c.apply(l)
	busy := c.keyLedBy(l.LimitName, "n1", "k")
	other := c.otherKey(l.LimitName, busy, "k")
	n1, n2 := c.nodes["n1"], c.nodes["n2"]
	free := replicatest.Occupy(t, n1.ranges.Of(shard.Of(busy, c.ranges)))

	var wg sync.WaitGroup
	for _, n := range []*Node{n1, n2} {
		wg.Go(func() {
			if d := n.Check(busy, 1); d.Allowed { // the check has reported the key, and waits as long as it may
				t.Errorf("%s admits a key of the range that is busy: %+v", n.cfg.Self, d)
			}
			if d := n.Check(other, 1); !d.Allowed {
				t.Errorf("%s: a key of another range of the same leader is refused: %v", n.cfg.Self, d.Why)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := n2.net.Call(ctx, "n1", peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Call{Call: &peerv1.Call{}}})
	if remote := (*transport.RemoteError)(nil); !errors.As(err, &remote) || remote.Text != peercall.ErrUnknown.Error() {
		t.Errorf("a call on the connection of the reports: %v, want an answer", err)
	}
	if b := n1.beacon(); len(b.Leads) < 2 {
		t.Errorf("a beacon says that n1 leads %v", b.Leads)
	}
	free()
	for _, n := range []*Node{n1, n2} {
		use(t, n, busy, 1)
	}
	c.awaitAdmitted(busy, 2)
}
