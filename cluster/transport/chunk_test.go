package transport

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowPath checks that a large frame arrives over a slow path, and that a peer that reads nothing
// loses its connection.
func TestSlowPath(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			c := &conn{net: &Net{}, nc: near, q: newQueue(), done: make(chan struct{})}
			defer c.close(ErrClosed)
			go c.writeLoop()
			b, err := encodeFrame(big(4<<20), 0, false)
			if err != nil || c.q.push(b) != 1 {
				t.Fatal("not queued", err)
			}
			began, size, got := time.Now(), int64(len(b)), int64(0)
			for reads && got < size { // 32 KiB a second
				n, err := io.CopyN(io.Discard, far, min(32<<10, size-got))
				if got += n; err != nil {
					t.Fatalf("after %d bytes and %v: %v", got, time.Since(began), err)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(writeLimit + time.Second)
			select {
			case <-c.done:
				if reads {
					t.Errorf("the connection ended: %v", c.err)
				}
			default:
				if !reads {
					t.Error("the connection stands, though the peer reads nothing")
				}
			}
		})
	}
}
