package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// silent returns a configuration edit that makes a node never answer, and a channel that receives
// when a call has arrived. If a connection ends before that, the call counts as not sent.
func silent() (edit func(*Config), arrived chan struct{}) {
	arrived = make(chan struct{}, 1)
	return func(c *Config) {
		c.Handle = func(quota.NodeID, *peerv1.Frame, func(*peerv1.Frame)) { arrived <- struct{}{} }
	}, arrived
}

func TestLostConnectionFailsCallsAtOnce(t *testing.T) {
	edit, arrived := silent()
	a, b := pair(t, nil, edit)
	result := make(chan error, 1)
	go func() {
		_, err := a.Call(context.Background(), "b", data, frame(1))
		result <- err
	}()
	<-arrived
	lost := time.Now()
	_ = b.Close()
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	if d := time.Since(lost); d > patience/2 {
		t.Fatalf("failed after %v", d)
	}
	if err := a.Send("b", data, frame(1)); !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
}

// TestRefusingPeerIsNoDeadOne checks that refused connections are reported once and do not make a
// peer Dead. An incarnation is Dead only when a later one answers.
func TestRefusingPeerIsNoDeadOne(t *testing.T) {
	a, b := pair(t, nil, nil)
	lost := time.Now()
	_ = b.Close()
	eventually(t, "b refuses", func() bool { return a.seen("b", Refused) == 1 })
	t.Logf("refused after %v", time.Since(lost).Round(time.Microsecond))
	time.Sleep(100 * time.Millisecond) // more refused dials
	if n := a.seen("b", Refused); n != 1 || a.seen("b", Dead) != 0 || a.EndedBefore("b") != 1 {
		t.Fatalf("told Refused %d times, Dead %d times, processes ended before %d", n, a.seen("b", Dead), a.EndedBefore("b"))
	}
	// The same node returns with a new incarnation and ends again.
	b2 := start(t, listen(t, b.addr), "b", map[quota.NodeID]string{"a": a.addr}, func(c *Config) { c.Incarnation = 2 })
	eventually(t, "b is up again", func() bool { return a.Connected("b") && b2.Connected("a") })
	if a.seen("b", Dead) != 1 || a.EndedBefore("b") != 2 {
		t.Fatalf("told Dead %d times of the first process, processes ended before %d", a.seen("b", Dead), a.EndedBefore("b"))
	}
	_ = b2.Close()
	eventually(t, "b refuses again", func() bool { return a.seen("b", Refused) == 2 })
}

// TestLivingPeerBehindRefusal checks that if something between two live nodes refuses
// connections, the peer comes up again without having been Dead.
func TestLivingPeerBehindRefusal(t *testing.T) {
	la, lb := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	var refuse atomic.Bool
	a := start(t, la, "a", map[quota.NodeID]string{"b": lb.Addr().String()}, func(c *Config) {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if refuse.Load() {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	})
	b := start(t, lb, "b", map[quota.NodeID]string{"a": la.Addr().String()}, nil)
	eventually(t, "both are up", func() bool { return a.Connected("b") && b.Connected("a") })
	refuse.Store(true)
	for _, l := range a.peer("b").links {
		l.conn.Load().close(errCut)
	}
	eventually(t, "b refuses", func() bool { return a.seen("b", Refused) == 1 })
	if !b.Connected("a") {
		t.Fatal("b lives, and its own connections stand")
	}
	refuse.Store(false)
	eventually(t, "b is up again", func() bool { return a.seen("b", Up) == 2 })
	if a.seen("b", Dead) != 0 || a.EndedBefore("b") != 1 {
		t.Fatal("a living peer was dead")
	}
}

func TestCutIsDownNotDead(t *testing.T) {
	a, b := pair(t, nil, nil)
	a.SetFault(func(quota.NodeID, peerv1.Lane) Fault { return Fault{Cut: true} })
	eventually(t, "b is down", func() bool { return a.seen("b", Down) == 1 && !a.Connected("b") })
	if !b.Connected("a") {
		t.Fatal("the cut is one way: b must stay connected")
	}
	a.SetFault(nil)
	eventually(t, "b is up again", func() bool { return a.seen("b", Up) == 2 })
	if a.seen("b", Dead) != 0 {
		t.Fatal("a cut path is no death")
	}
}

func TestDropLosesFramesSilently(t *testing.T) {
	a, b := pair(t, nil, nil)
	b.SetFault(func(quota.NodeID, peerv1.Lane) Fault { return Fault{Drop: true} })
	_, err := a.Call(within(t, 50*time.Millisecond), "b", data, frame(1)) // its answer is lost
	if !errors.Is(err, context.DeadlineExceeded) || !a.Connected("b") {
		t.Fatal(err)
	}
	b.SetFault(nil)
	if _, err = a.Call(within(t, patience), "b", data, frame(1)); err != nil {
		t.Fatal(err)
	}
}

func TestDelay(t *testing.T) {
	a, _ := pair(t, nil, nil)
	a.SetFault(func(quota.NodeID, peerv1.Lane) Fault { return Fault{Delay: 30 * time.Millisecond} })
	began := time.Now()
	if _, err := a.Call(within(t, patience), "b", data, frame(1)); err != nil || time.Since(began) < 30*time.Millisecond {
		t.Fatal(err, time.Since(began))
	}
}

func TestLateAnswerIsDropped(t *testing.T) {
	late := make(chan func(*peerv1.Frame), 1)
	a, _ := pair(t, nil, func(c *Config) {
		c.Handle = func(_ quota.NodeID, f *peerv1.Frame, answer func(*peerv1.Frame)) {
			select {
			case late <- answer:
			default:
				answer(f)
			}
		}
	})
	if _, err := a.Call(within(t, 20*time.Millisecond), "b", data, frame(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	answer := <-late
	answer(frame(99))
	answer(frame(100)) // only the first answer counts
	late <- nil        // from now on, answers are immediate
	got, err := a.Call(within(t, patience), "b", data, frame(2))
	if err != nil || got.GetBeacon().GetLimitsVersion() != 2 {
		t.Fatal(got, err)
	}
}

func TestMarkDeadAndRestartedPeer(t *testing.T) {
	a, b := pair(t, nil, nil)
	a.MarkDead("b")
	a.MarkDead("b")
	eventually(t, "b is dead", func() bool { return a.seen("b", Dead) == 1 && !a.Connected("b") })
	_ = b.Close()
	start(t, listen(t, b.addr), "b", map[quota.NodeID]string{"a": a.addr}, func(c *Config) { c.Incarnation = 2 })
	eventually(t, "b is up again", func() bool { return a.Connected("b") })
	if n := a.seen("b", Dead); n != 1 {
		t.Fatalf("told Dead %d times", n)
	}
}

func TestQueueIsBounded(t *testing.T) {
	stuck := make(chan struct{})
	a, _ := pair(t, nil, func(c *Config) {
		c.Handle = func(quota.NodeID, *peerv1.Frame, func(*peerv1.Frame)) { <-stuck }
	})
	t.Cleanup(func() { close(stuck) })
	f := big(1 << 20)
	for i := range 1000 {
		if err := a.Send("b", data, f); errors.Is(err, ErrBusy) {
			t.Logf("busy after %d MiB", i)
			break
		} else if err != nil || i > 200 {
			t.Fatal(i, err)
		}
	}
	if err := a.Send("b", control, f); err != nil {
		t.Fatalf("the other lane is not affected: %v", err)
	}
}

func TestFrameBound(t *testing.T) {
	a, _ := pair(t, nil, nil)
	if _, err := a.Call(within(t, patience), "b", data, big(MaxFrame)); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if _, err := a.Call(within(t, patience), "b", data, big(MaxFrame-64)); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshot(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	a, _ := pair(t, nil, func(c *Config) {
		c.HandleSnapshot = func(from quota.NodeID, header *peerv1.Frame, r io.Reader) *peerv1.Frame {
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, body) || from != "a" {
				return &peerv1.Frame{Error: "wrong body"}
			}
			return frame(header.GetBeacon().GetLimitsVersion() + 1)
		}
	})
	got, err := a.Snapshot(within(t, patience), "b", frame(7), int64(len(body)), bytes.NewReader(body))
	if err != nil || got.GetBeacon().GetLimitsVersion() != 8 {
		t.Fatal(got, err)
	}
	if _, err = a.Snapshot(within(t, patience), "b", frame(7), 3, bytes.NewReader(body)); err == nil {
		t.Fatal("a wrong body must fail")
	}
	if _, err = a.Snapshot(within(t, patience), "b", frame(7), 99, bytes.NewReader(nil)); err == nil {
		t.Fatal("a short body must fail")
	}
}
