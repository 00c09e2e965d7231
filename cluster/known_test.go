package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestNewKeysAfterRestarts checks that after all nodes were restarted, in order or by kill,
// an unused key is full, even under a hard limit that refills over a day.
// Leaders set aside what an earlier process may have used without reporting it, and the journals
// of those processes show that there is nothing.
func TestNewKeysAfterRestarts(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("starts nodes again and again; left out by -short")
	}
	c := newThreeNodes(t, 4)
	const burst, asked = 48, 40
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: "slow"}, Ceiling: quota.Hard,
		Rate: quota.Rate{Tokens: burst, Per: 24 * time.Hour}, Burst: burst,
	}
	c.apply(l)
	used := quota.Key{LimitName: l.LimitName, Key: "used"}
	first := c.take(used, 30)
	for _, killed := range []bool{false, true} {
		for _, id := range c.ids() {
			c.ends(id, killed)
			c.start(id, nil)
			c.awaitReady(3 * time.Minute)
		}
		deadline, tries := time.Now().Add(30*time.Second), 0
		for got := int64(0); got < asked; tries++ { // at first, not all nodes have reported what they hold
			if time.Now().After(deadline) {
				t.Fatalf("killed: %v: of a new key %d of %d tokens were admitted, and of %d keys before no more", killed, got, asked, tries)
			}
			got = c.take(quota.Key{LimitName: l.LimitName, Key: fmt.Sprint("new", killed, tries)}, asked)
		}
		t.Logf("killed: %v: %d keys until one was full", killed, tries)
	}
	if more := c.take(used, 48); first+more > burst {
		t.Errorf("%d tokens before and %d after of a key that has %d a day", first, more, burst)
	}
}

// take asks the nodes in turn for a token each, times times in all.
func (c *threeNodes) take(k quota.Key, times int) (admitted int64) {
	for i := range times {
		if n := c.running()[i%3]; n.Check(k, 1).Allowed {
			admitted++
		}
	}
	return admitted
}

// ends stops a node, in order or by kill.
func (c *threeNodes) ends(id quota.NodeID, killed bool) {
	c.t.Helper()
	if killed {
		c.kill(id)
		return
	}
	n := c.nodes[id]
	delete(c.nodes, id)
	if err := n.Close(c.t.Context()); err != nil {
		c.t.Fatalf("close %s: %v", id, err)
	}
}
