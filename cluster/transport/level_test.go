package transport

import (
	"sync/atomic"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

func levels(can uint32, required *atomic.Uint32) func(*Config) {
	return func(c *Config) { c.Level, c.Required = can, required.Load }
}

func TestLevels(t *testing.T) {
	var reqA, reqB atomic.Uint32
	forms := func(c *Config) { levels(2, &reqB)(c); c.Packed = 3 }
	a, b := pair(t, levels(1, &reqA), forms)
	if a.PackedOf("b") != 3 || b.PackedOf("a") != 0 || a.PackedOf("nobody") != 0 {
		t.Error("packed forms", a.PackedOf("b"), b.PackedOf("a"))
	}
	if a.LevelOf("b") != 2 || b.LevelOf("a") != 1 || a.LevelOf("nobody") != 0 {
		t.Fatal(a.LevelOf("b"), b.LevelOf("a"))
	}
	reqB.Store(2)
	if _, err := a.Call(within(t, patience), "b", data, frame(1)); err != nil {
		t.Fatalf("what stands stays: %v", err)
	}
	// Drop the connections: neither side can establish new ones now.
	for _, n := range []*node{a, b} {
		n.SetFault(func(quota.NodeID, peerv1.Lane) Fault { return Fault{Cut: true} })
	}
	eventually(t, "both are cut", func() bool { return !a.Connected("b") && !b.Connected("a") })
	a.SetFault(nil)
	b.SetFault(nil)
	if a.WaitConnected(within(t, 200*time.Millisecond), "b") == nil || b.WaitConnected(within(t, 200*time.Millisecond), "a") == nil {
		t.Fatal("a can do less than the cluster of b requires")
	}
	reqB.Store(1)
	eventually(t, "connected again", func() bool { return a.Connected("b") && b.Connected("a") })
	setPeers(t, a, nil)
	if got := a.LevelOf("b"); got != 0 {
		t.Fatal("b is not known any more", got)
	}
}

// TestReturns checks that a peer is refused, with the reason, if Config.Returns objects to the
// first incarnation of its data.
func TestReturns(t *testing.T) {
	const why = `data: "b" had others`
	knows := func(c *Config) {
		c.Returns = func(id quota.NodeID, first quota.Incarnation) string {
			if id == "b" && first == 9 {
				return why
			}
			return ""
		}
	}
	b := func(first quota.Incarnation) func(*Config) { return func(c *Config) { c.First = first } }
	one, _ := pair(t, knows, b(8))
	if got := one.FirstIncarnationOf("b"); got != 8 {
		t.Errorf("b said %d", got)
	}
	if got := one.Refusal("b"); got != "" {
		t.Errorf("refused: %s", got)
	}
	la, lb := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	a := start(t, la, "a", map[quota.NodeID]string{"b": lb.Addr().String()}, knows)
	other := start(t, lb, "b", map[quota.NodeID]string{"a": la.Addr().String()}, b(9))
	eventually(t, "b is told why", func() bool { return other.Refusal("a") == why })
	if a.Connected("b") || other.Connected("a") {
		t.Error("they are connected")
	}
}
