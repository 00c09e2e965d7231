package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// accepting returns a Net that answers each frame with the same frame. The tests hand it
// connections directly.
func accepting(t testing.TB, secure *TLS) *Net {
	t.Helper()
	n, err := New(Config{
		Cluster: "test", Self: "b", Incarnation: 1, Ranges: 16, Level: 1, Listener: noListener{}, TLS: secure,
		Peers:  map[quota.NodeID]string{"x": "x"},
		Handle: func(_ quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) { answer(f) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// exchange sends raw to a Net as an unauthenticated connection would, hangs up, and returns what
// came back. It fails the test if the Net does not release the connection.
func exchange(t *testing.T, n *Net, raw []byte) []byte {
	t.Helper()
	mine, theirs := net.Pipe()
	n.handshakes <- struct{}{}
	n.startHandshake(theirs)
	go func() {
		_, _ = mine.Write(raw)
		time.Sleep(time.Millisecond) // an answer may be in flight
		_ = mine.Close()
	}()
	back, err := io.ReadAll(mine)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	_ = mine.Close()
	eventually(t, "the connection is let go", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.conns) == 0 && len(n.accepted) == 0 && n.unauthenticated.len() == 0 && len(n.handshakes) == 0
	})
	return back
}

// seeds returns what peers send, and near misses.
func seeds() [][]byte {
	hello, _ := encode(goodHello())
	short := goodHello()
	short.Lane = peerv1.Lane_LANE_SNAPSHOT
	snapshot, _ := encode(short)
	call, _ := encodeFrame(frame(7), 9, false)
	wrong := goodHello()
	wrong.From = "eve"
	stranger, _ := encode(wrong)
	return [][]byte{
		nil, hello, stranger, append(slices.Clip(hello), call...), hello[:len(hello)-1],
		append(append(slices.Clip(snapshot), call...), 0, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c'),
		{22, 3, 1, 0, 1, 0},
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		{0xff, 0xff, 0xff, 0xff},
		{0, 0, 0, 0},
	}
}

// FuzzAccept checks that the node releases the connection whatever arrives at its port, and sends
// only what a peer could read: first a Hello, then frames.
func FuzzAccept(f *testing.F) {
	for _, raw := range seeds() {
		f.Add(raw)
	}
	n := accepting(f, nil)
	f.Fuzz(func(t *testing.T, raw []byte) {
		back := exchange(t, n, raw)
		for i := 0; len(back) > 0; i++ {
			if len(back) < lengthBytes {
				return // truncated frame
			}
			length := int(back[0])<<24 | int(back[1])<<16 | int(back[2])<<8 | int(back[3])
			if len(back)-lengthBytes < length {
				return
			}
			var m proto.Message = &peerv1.Frame{}
			if i == 0 {
				m = &peerv1.Hello{}
			}
			if err := proto.Unmarshal(back[lengthBytes:][:length], m); err != nil {
				t.Fatalf("message %d of the answer: %v", i, err)
			}
			back = back[lengthBytes+length:]
		}
	})
}

// FuzzAcceptTLS does the same with TLS. Bytes without a certificate never reach the Hello: at
// most an alert comes back.
func FuzzAcceptTLS(f *testing.F) {
	for _, raw := range seeds() {
		f.Add(raw)
	}
	ca := newAuthority(f)
	cert := ca.issue("node/b", time.Hour)
	n := accepting(f, ca.with(cert))
	f.Fuzz(func(t *testing.T, raw []byte) {
		exchange(t, n, raw)
		if n.LevelOf("x") != 0 || n.IncarnationOf("x") != 0 {
			t.Fatal("something was taken for a peer")
		}
	})
}

// FuzzGreet checks that the dialer ends the attempt whatever answers, and accepts only a peer
// that claims to be the dialed node.
func FuzzGreet(f *testing.F) {
	for _, raw := range seeds() {
		f.Add(raw)
	}
	answer := goodHello()
	answer.From, answer.To = "x", "b"
	good, _ := encode(answer)
	f.Add(good)
	answer.Refused = "no"
	refused, _ := encode(answer)
	f.Add(refused)
	n := accepting(f, nil)
	f.Fuzz(func(t *testing.T, raw []byte) {
		mine, theirs := net.Pipe()
		go func() {
			_, _ = (&frameReader{r: bufio.NewReader(theirs)}).next(maxHello)
			_, _ = theirs.Write(raw)
			_ = theirs.Close()
		}()
		c, err := n.dialHandshake(t.Context(), mine, "x", control)
		_ = mine.Close()
		if err != nil {
			return
		}
		h, err := readHello(&frameReader{r: bufio.NewReader(bytes.NewReader(raw))})
		if err != nil || h.From != "x" || h.To != "b" || h.Refused != "" || c.peer != "x" {
			t.Fatalf("%q was taken for %q", raw, c.peer)
		}
	})
}
