package wire

import (
	"bufio"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// earlierHello is the type Hello as it was before there were levels.
func earlierHello(t *testing.T) protoreflect.MessageType {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(peerv1.File_quorate_peer_v1_peer_proto)
	for _, m := range file.MessageType {
		if m.GetName() != "Hello" {
			continue
		}
		kept := m.Field[:0]
		for _, f := range m.Field {
			if f.GetNumber() < 9 {
				kept = append(kept, f)
			}
		}
		m.Field = kept
	}
	desc, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessageType(desc.Messages().ByName("Hello"))
}

// asEarlier passes a Hello through the earlier type: fields that it does not
// know are dropped.
func asEarlier(t *testing.T, raw []byte) *peerv1.Hello {
	t.Helper()
	m := earlierHello(t).New().Interface()
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, m); err != nil {
		t.Errorf("a node of the earlier version cannot read it: %v", err)
	}
	b, err := proto.Marshal(m)
	h := &peerv1.Hello{}
	if err != nil || proto.Unmarshal(b, h) != nil {
		t.Errorf("what a node of the earlier version says cannot be read: %v", err)
	}
	return h
}

// earlierNode is a listener that shakes hands as the earlier version did.
func earlierNode(t *testing.T, id string) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			defer nc.Close() // stands until the listener is closed
			fr := &frameReader{r: bufio.NewReader(nc)}
			raw, err := fr.next(maxHello)
			if err != nil {
				continue
			}
			h := asEarlier(t, raw)
			h.To, h.From = h.From, id
			_ = writeMessage(nc, h)
		}
	}()
	return l.Addr().String()
}

func levels(can uint32, required *atomic.Uint32) func(*Config) {
	return func(c *Config) { c.Level, c.Required = can, required.Load }
}

// TestEarlierVersionIsTaken: a node that knows nothing of levels talks to one of
// level 1, whoever dials, while the cluster is at level 0.
func TestEarlierVersionIsTaken(t *testing.T) {
	var required atomic.Uint32
	b := start(t, listen(t, "127.0.0.1:0"), "b", map[quota.NodeID]string{"x": earlierNode(t, "x")}, levels(1, &required))
	eventually(t, "b has dialed x", func() bool { return b.Connected("x") })
	if level, packed := b.LevelOf("x"), b.PackedOf("x"); level != 0 || packed != 0 {
		t.Fatal(level, packed)
	}
	if text := greetEarlier(t, b); text != "" {
		t.Fatalf("refused: %s", text)
	}
	required.Store(1)
	want := `level: the cluster is at feature level 1, node "x" can do 0: upgrade that node`
	if text := greetEarlier(t, b); text != want {
		t.Fatalf("refused: %q; want %q", text, want)
	}
}

// greetEarlier dials as x of the earlier version; it returns the refusal.
func greetEarlier(t *testing.T, b *node) string {
	t.Helper()
	nc, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	h := goodHello()
	h.Incarnation = 1 // as the node that b has dialed
	mine, _ := proto.Marshal(h)
	if err := writeMessage(nc, asEarlier(t, mine)); err != nil {
		t.Fatal(err)
	}
	raw, err := (&frameReader{r: bufio.NewReader(nc)}).next(maxHello)
	if err != nil {
		t.Fatal(err)
	}
	return asEarlier(t, raw).Refused
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
	// Lose the connections: now neither side can make new ones.
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

// TestReturns: who comes with data of another first life is refused by whoever knows,
// and is told why.
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
	if got := one.FirstOf("b"); got != 8 {
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
