package transport

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
)

// counted counts writes to a connection.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

func TestAskLeavesInOneWrite(t *testing.T) {
	var writes atomic.Int64
	a, _ := pair(t, func(c *Config) {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return counted{nc, &writes}, err
		}
	}, nil)
	before := writes.Load()
	asked := a.Ask("b", control, frame(1), frame(2))
	asked = append(asked, a.Ask("b", data, frame(3))...)
	for i := range asked {
		f, err := asked[i].Wait(within(t, patience))
		if err != nil || f.GetBeacon().GetLimitsVersion() != uint64(i+1) {
			t.Errorf("answer %d: %v, %v", i, f, err)
		}
	}
	if got := writes.Load() - before; got != 2 {
		t.Errorf("%d writes for what was asked at a time on two connections", got)
	}
}

func TestAskFails(t *testing.T) {
	a, b := pair(t, nil, nil)
	asked := a.Ask("b", data, frame(1), big(MaxFrame+1), frame(2))
	for i := range asked {
		if _, err := asked[i].Wait(within(t, patience)); errors.Is(err, ErrTooLarge) != (i == 1) || err != nil != (i == 1) {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	_ = b.Close()
	eventually(t, "b is gone, on this lane too", func() bool { // each lane detects it on its own; until then an answer is lost
		_, err := a.connTo("b", data)
		return !a.Connected("b") && err != nil
	})
	for _, x := range append(a.Ask("b", data, frame(1), frame(2)), a.Ask("nobody", data, frame(1))...) {
		if _, err := x.Wait(within(t, patience)); !errors.Is(err, ErrUnreachable) {
			t.Errorf("without a connection: %v", err)
		}
	}
	q := newQueue()
	if q.frames = maxQueueFrames - 1; q.push(make([]byte, 1), make([]byte, 1)) != 1 {
		t.Error("more than there is room for was taken")
	}
}

// TestHeldQueue checks that frames pushed during a pause wake the writer once, when the pause
// ends.
func TestHeldQueue(t *testing.T) {
	q := newQueue()
	awake := func() bool {
		select {
		case <-q.wake:
			return true
		default:
			return false
		}
	}
	q.pause(true)
	q.push([]byte{1})
	q.push([]byte{2})
	if awake() {
		t.Error("woken while held")
	}
	if q.pause(false); !awake() || awake() {
		t.Error("not woken once afterwards")
	}
	if q.drain(nil); awake() {
		t.Error("woken by what is gone")
	}
	if q.pause(true); awake() {
		t.Error("woken by nothing")
	}
	if q.pause(false); awake() {
		t.Error("woken with nothing to do")
	}
	if q.push([]byte{3}); !awake() {
		t.Error("not woken any more")
	}
}
