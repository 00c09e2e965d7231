package transport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/quota"
)

func goodHello() *peerv1.Hello {
	return &peerv1.Hello{Protocol: 1, Cluster: "test", From: "x", To: "b", Lane: control, Ranges: 16}
}

func TestHandshakeRefusals(t *testing.T) {
	b := start(t, listen(t, "127.0.0.1:0"), "b", map[quota.NodeID]string{"x": "127.0.0.1:1"}, nil)
	cases := []struct {
		name string
		edit func(*peerv1.Hello)
		want string
	}{
		{"fits", func(*peerv1.Hello) {}, ""},
		{"protocol", func(h *peerv1.Hello) { h.Protocol = 7 }, `protocol: node "b" speaks 1, you speak 7`},
		{"cluster", func(h *peerv1.Hello) { h.Cluster = "prod" }, `cluster: node "b" is in "test", you are in "prod"`},
		{"target", func(h *peerv1.Hello) { h.To = "c" }, `target: this is node "b", you asked for "c"`},
		{"unknown node", func(h *peerv1.Hello) { h.From = "eve" }, `sender: node "b" does not know a node "eve"`},
		{"ranges", func(h *peerv1.Hello) { h.Ranges = 64 }, `ranges: node "b" has 16, you have 64`},
		{"lane", func(h *peerv1.Hello) { h.Lane = 0 }, `lane: node "b" supports control, data and snapshot; got 0`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			nc, err := net.Dial("tcp", b.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			h := goodHello()
			c.edit(h)
			if err := writeMessage(nc, h); err != nil {
				t.Fatal(err)
			}
			fr := &frameReader{r: bufio.NewReader(nc)}
			answer, err := readHello(fr)
			if err != nil || answer.Refused != c.want {
				t.Fatalf("answer %v, %v; want refused %q", answer, err, c.want)
			}
			if c.want != "" {
				closedSoon(t, nc)
			}
		})
	}
}

// closedSoon checks that the other side closes the connection on its own.
func closedSoon(t *testing.T, nc net.Conn) {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(8 * time.Second))
	if n, err := io.Copy(io.Discard, nc); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Fatalf("connection still open after %d bytes", n)
	}
}

func TestGarbageIsClosed(t *testing.T) {
	var log buftest.Buffer
	b := start(t, listen(t, "127.0.0.1:0"), "b", map[quota.NodeID]string{"x": "127.0.0.1:1"},
		func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	hello, _ := encode(goodHello())
	cases := map[string][]byte{
		"http":             []byte("GET / HTTP/1.1\r\nHost: b\r\n\r\n"),
		"long hello":       binary.BigEndian.AppendUint32(nil, maxHello+1),
		"not protobuf":     append(binary.BigEndian.AppendUint32(nil, 4), 0xff, 0xff, 0xff, 0xff),
		"oversized frame":  binary.BigEndian.AppendUint32(bytes.Clone(hello), MaxFrame+1),
		"frame of garbage": append(binary.BigEndian.AppendUint32(bytes.Clone(hello), 2), 0xff, 0xff),
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", b.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_, _ = nc.Write(raw)
			closedSoon(t, nc)
		})
	}
	if n := strings.Count(log.String(), "unreadable message"); n != 2 {
		t.Errorf("%d bad frames of a peer are logged; want 2:\n%s", n, log.String())
	}
}

func TestRefusalIsLoggedOnce(t *testing.T) {
	var log buftest.Buffer
	lb := &countingListener{Listener: listen(t, "127.0.0.1:0")}
	start(t, lb, "b", nil, nil) // b does not know a
	a := start(t, listen(t, "127.0.0.1:0"), "a", map[quota.NodeID]string{"b": lb.Addr().String()},
		func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	logged := func() int { return strings.Count(log.String(), "does not know a node") }
	eventually(t, "each lane has logged it", func() bool { return logged() >= 2 })
	first := lb.conns.Load()
	eventually(t, "each lane has dialed again", func() bool { return lb.conns.Load() >= first+2 })
	if n := logged(); n != 2 {
		t.Fatalf("logged %d times:\n%s", n, log.String())
	}
	if a.Connected("b") {
		t.Fatal("connected in spite of the refusal")
	}
}

// FuzzFrameReader checks that the reader, whatever arrives, neither panics nor returns more than
// announced, and that each frame it accepts encodes to the same frame.
func FuzzFrameReader(f *testing.F) {
	good, _ := encodeFrame(frame(3), 9, true)
	f.Add(good)
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		fr := &frameReader{r: bufio.NewReader(bytes.NewReader(raw))}
		for {
			got, err := fr.frame()
			if err != nil {
				return
			}
			b, err := encodeFrame(got, got.Id, got.Answer)
			if err != nil {
				t.Fatal(err)
			}
			again := &peerv1.Frame{}
			if err := proto.Unmarshal(b[lengthBytes:], again); err != nil || !proto.Equal(got, again) {
				t.Fatalf("%v became %v, %v", got, again, err)
			}
		}
	})
}

func dialIn(t *testing.T, b *node) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}
