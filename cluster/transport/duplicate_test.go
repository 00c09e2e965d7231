package transport

import (
	"strings"
	"testing"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestTwin checks that a second process of a node, started from a copy of its data directory, is
// refused while the first is connected, and accepted when the first has ended.
func TestTwin(t *testing.T) {
	a, b := pair(t, nil, nil)
	duplicate := start(t, listen(t, "127.0.0.1:0"), "b", map[quota.NodeID]string{"a": a.addr}, func(c *Config) { c.Incarnation = 2 })
	want := `duplicate: another process is node "b", at ` + b.addr
	eventually(t, "the duplicate is told why", func() bool { return strings.HasPrefix(duplicate.Refusal("a"), want) })
	if inc, _, up := a.peer("b").current(); inc != 1 || !up {
		t.Errorf("a is connected to process %d, %v; want 1, true", inc, up)
	}
	if duplicate.Connected("a") {
		t.Error("the duplicate is connected")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.SetPeers(map[quota.NodeID]string{"b": duplicate.addr}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the duplicate is taken when the first has ended", func() bool { return duplicate.Connected("a") && a.Connected("b") })
}

// TestGoodbyeOfAnEarlierProcess checks that a goodbye that an earlier process of a node left in a
// connection does not mark the node's current process as dead.
func TestGoodbyeOfAnEarlierProcess(t *testing.T) {
	var a *node
	mark := func(c *Config) {
		c.Handle = func(from quota.NodeID, f *peerv1.Frame, _ func(*peerv1.Frame)) {
			if f.GetBeacon().GetLeaving() {
				a.MarkDead(from)
			}
		}
	}
	a, _ = pair(t, mark, func(c *Config) { c.Incarnation = 2 })
	goodbye := &peerv1.Frame{Body: &peerv1.Frame_Beacon{Beacon: &peerv1.Beacon{Leaving: true}}}
	a.handle(&conn{net: a.Net, peer: "b", incarnation: 1, lane: control}, goodbye)
	if !a.Connected("b") {
		t.Fatal("the goodbye of process 1 has ended process 2")
	}
	a.handle(&conn{net: a.Net, peer: "b", incarnation: 2, lane: control}, goodbye)
	if a.Connected("b") {
		t.Fatal("the goodbye of process 2 was not heard")
	}
}

// TestDeadThatSpeaks checks that a peer that was marked dead but whose connections are
// established is up again with its next beacon.
func TestDeadThatSpeaks(t *testing.T) {
	a, b := pair(t, nil, nil)
	a.MarkDead("b")
	if err := b.Send("a", control, frame(1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b is up again", func() bool { return a.Connected("b") && a.seen("b", Up) == 2 })
}

// TestEarlierProcess checks that a process that is still running after a later one of its node has
// connected is refused with that reason, whichever side dials.
func TestEarlierProcess(t *testing.T) {
	a, b := pair(t, nil, func(c *Config) { c.Incarnation = 2 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b has ended", func() bool { return !a.Connected("b") })
	old := start(t, listen(t, b.addr), "b", map[quota.NodeID]string{"a": a.addr}, nil)
	want := `incarnation: a later process of node "b" has connected`
	eventually(t, "it is told", func() bool { return strings.HasPrefix(old.Refusal("a"), want) })
	eventually(t, "a says why", func() bool { return strings.HasPrefix(a.Refusal("b"), "by this side: "+want) })
}

// TestEarlierProcessDials checks the same while this node cannot reach the later process, which has dialed
// it: the earlier one does not take over its connections.
func TestEarlierProcessDials(t *testing.T) {
	a := start(t, listen(t, "127.0.0.1:0"), "a", map[quota.NodeID]string{"b": "127.0.0.1:1"}, nil)
	to := map[quota.NodeID]string{"a": a.addr}
	b := start(t, listen(t, "127.0.0.1:0"), "b", to, func(c *Config) { c.Incarnation = 2 })
	eventually(t, "b has dialed", func() bool { return b.Connected("a") })
	old := start(t, listen(t, "127.0.0.1:0"), "b", to, nil)
	eventually(t, "the earlier process gets the error", func() bool {
		return strings.HasPrefix(old.Refusal("a"), `incarnation: a later process of node "b" has connected`)
	})
	if !b.Connected("a") || old.Connected("a") {
		t.Error("the earlier process has taken over")
	}
}
