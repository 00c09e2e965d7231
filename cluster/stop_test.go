package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
	"github.com/quorate/quorate/shard"
)

// TestStopReturnsTokens checks that a node that stops in order returns the tokens it holds to the leaders of their keys,
// before its next process starts.
func TestStopReturnsTokens(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		t.Run(fmt.Sprint(ceiling), func(t *testing.T) {
			const burst = 1000
			c := newThreeNodes(t, 4, quick)
			l := limit("tokens", burst, ceiling)
			c.apply(l)
			k := c.keyLedBy(l.LimitName, "n1", "k")
			n2, admitted := c.nodes["n2"], 0
			c.eventually(patience, "n2 holds tokens", func() error {
				if d := n2.Check(k, 1); d.Allowed {
					admitted++
				}
				if held := n2.Aggregator().Held(k); held < 10*quota.Token {
					return fmt.Errorf("it holds %d", held)
				}
				return nil
			})
			held := n2.Aggregator().Held(k)
			c.ends("n2", false)
			var standing, out, free quota.Units
			c.nodes["n1"].ranges.Of(shard.Of(k, c.ranges)).With(func(l *leader.Ledger, now quota.Time) {
				standing, out = l.Out(now, k, "n2")
				free, _ = l.Free(now, k)
			})
			if want := quota.FromTokens(int64(burst - admitted)); standing != 0 || out != 0 || free < want {
				t.Errorf("n2 held %d; after it has stopped, %d are out there, it can spend %d, and %d are free; want %d", held, out, standing, free, want)
			}
		})
	}
}

// TestReleasedNodeDecides checks that a node that has asked its clients to leave still decides by the tokens it holds:
// its ports are open, and callers wait for no leader and are not refused.
func TestReleasedNodeDecides(t *testing.T) {
	c := newThreeNodes(t, 4, quick)
	l := limit("tokens", 1000, quota.Hard)
	l.Decide = quota.Locally
	c.apply(l)
	k, n2 := c.keyLedBy(l.LimitName, "n1", "k"), c.nodes["n2"]
	c.eventually(patience, "n2 holds tokens", func() error {
		n2.Check(k, 1)
		if held := n2.Aggregator().Held(k); held < 10*quota.Token {
			return fmt.Errorf("it holds %d", held)
		}
		return nil
	})
	n2.ReleaseClients()
	for range 10 {
		if d := n2.Check(k, 1); !d.Allowed {
			t.Fatalf("refused: %v", d.Why)
		}
		time.Sleep(20 * time.Millisecond) // real nodes: a member loop that returned tokens would do so within this time
	}
}
