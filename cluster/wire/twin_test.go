package wire

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestTwin: a second process of a node, started out of a copy of its data directory,
// is not taken while the first is connected; when that one ends it is.
func TestTwin(t *testing.T) {
	a, b := pair(t, nil, nil)
	twin := start(t, listen(t, "127.0.0.1:0"), "b", map[quota.NodeID]string{"a": a.addr}, func(c *Config) { c.Incarnation = 2 })
	want := `twin: another process is node "b", at ` + b.addr
	eventually(t, "the twin is told why", func() bool { return strings.HasPrefix(twin.Refusal("a"), want) })
	if life, _, up := a.peer("b").standingLife(); life != 1 || !up {
		t.Errorf("a is connected to life %d, %v; want 1, true", life, up)
	}
	if twin.Connected("a") {
		t.Error("the twin is connected")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.SetPeers(map[quota.NodeID]string{"b": twin.addr}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the twin is taken when the first has ended", func() bool { return twin.Connected("a") && a.Connected("b") })
}
