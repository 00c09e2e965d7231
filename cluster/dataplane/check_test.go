package dataplane

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLateWaitLeavesNoWaiter checks that a check whose time is up does not wait for another grant: a
// waiter of a key that gets no further grant would take one of the node's places for good.
func TestLateWaitLeavesNoWaiter(t *testing.T) {
	d := alone(t, limit("soft", 10, quota.Soft))
	key := quota.Key{LimitName: quota.LimitName{Namespace: "test", Limit: "soft"}, Key: "k"}
	for name, deadline := range map[string]quota.Time{"in the past": 0, "in the future": d.now().Add(time.Millisecond)} {
		c := new(pooled)
		c.reqs[0] = quota.Request{Key: key, Cost: 1}
		c.Reset(c.reqs[:], c.out[:])
		c.Key = key
		d.awaitGrant(&c.Call, deadline)
		if d.waiters.Any() {
			t.Errorf("with a deadline %s the check is decided, and still waits", name)
		}
	}
}
