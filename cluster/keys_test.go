package cluster

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/rates"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestKeysOfALimit checks that a key's counters are listed one by one, parents included, and
// that a reset fills the key's own tiers on every node, but not its parents'.
func TestKeysOfALimit(t *testing.T) {
	c := newThreeNodes(t, 4)
	parent, l := limit("parent", 50, quota.Soft), limit("tiers", 20, quota.Soft)
	l.Parent, l.More = "parent", []quota.Tier{{Rate: quota.Rate{Tokens: 5, Per: time.Hour}, Burst: 30}}
	c.apply(parent, l)
	nodes := c.running()
	k := key("test", "tiers", "tenant/user")
	use(t, nodes[0], k, 8)
	use(t, nodes[1], k, 4)
	told := func(n *Node) (map[string]int64, error) {
		lines, err := n.Key(t.Context(), k)
		out := map[string]int64{}
		for _, r := range lines {
			out[r.Limit+" "+r.Key] = r.Remaining
		}
		return out, err
	}
	await := func(first, second, above int64) {
		t.Helper()
		for _, n := range nodes {
			c.eventually(5*time.Second, "the counters are known everywhere", func() error {
				got, err := told(n)
				if err != nil {
					return err
				}
				if got["tiers tenant/user"] != first || got["tiers#2 tenant/user"] != second || got["parent tenant"] != above || len(got) != 3 {
					return errCounters(got)
				}
				return nil
			})
		}
	}
	await(8, 18, 38)
	c.eventually(5*time.Second, "the key is reset", func() error { return nodes[2].ResetKey(t.Context(), k) })
	await(20, 30, 38)
	use(t, nodes[1], k, 15) // more than was left before the reset
	if lines, err := nodes[0].Key(t.Context(), key("test", "nothing", "k")); err != nil || len(lines) != 0 {
		t.Errorf("of no limit: %v, %v", lines, err)
	}
}

// TestQuestionOfHardKey checks that a check of cost 0 predicts the decision of a following check of one
// token of a hard key, at nodes that hold tokens of it and at nodes that hold none yet.
func TestQuestionOfHardKey(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2)
	c.apply(limit("scarce", 12, quota.Hard))
	nodes := c.running()
	for i := range 9 {
		for _, n := range nodes {
			k := key("test", "scarce", strconv.Itoa(i/3)) // 9 of 12 of each key are used
			asked := n.Check(k, 0)
			got := n.Check(k, 1)
			if !asked.Allowed || !got.Allowed || got.Why != quota.WhyLeader { // 12 are too few to divide among three
				t.Errorf("round %d of key %s at %s: it says %v, %v, and then decides %v, %v", i%3, k.Key, n.Status().Node, asked.Allowed, asked.Why, got.Allowed, got.Why)
			}
		}
	}
	k := key("test", "scarce", "0")
	use(t, nodes[0], k, 3)
	for _, n := range nodes {
		c.eventually(patience, "it says that the key is used up", func() error {
			if d := n.Check(k, 0); d.Allowed || d.Why != quota.WhyOverLimit {
				return fmt.Errorf("%v, %v", d.Allowed, d.Why)
			}
			return nil
		})
	}
}

// TestKeysThroughHandovers checks that queries of keys wait for the new leader during a handover.
func TestKeysThroughHandovers(t *testing.T) {
	testspeed.Full(t)
	const ranges = 2
	c := newThreeNodes(t, ranges)
	l := limit("moved", 20, quota.Soft)
	c.apply(l)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	moved := make(chan int, 1)
	go func() { moved <- c.handOver(ctx, ranges) }()
	asked := 0
	for began := time.Now(); time.Since(began) < 3*time.Second; asked++ {
		n, k, at := c.running()[asked%3], key("test", "moved", strconv.Itoa(asked)), time.Now()
		_, err := n.Key(t.Context(), k)
		if err == nil {
			err = n.ResetKey(t.Context(), k)
		}
		if waited := time.Since(at); err != nil && waited < rates.LeaderWait { // a busy machine may take longer to elect
			t.Fatalf("key %d, after %v: %v", asked, waited, err)
		}
	}
	stop()
	if times := <-moved; times < 10 {
		t.Fatalf("only %d handovers", times)
	}
	t.Logf("%d keys were read and reset", asked)
}

type errCounters map[string]int64

func (e errCounters) Error() string {
	out := "they are"
	for k, v := range e {
		out += " " + k + ": " + time.Duration(v).String()
	}
	return out
}
