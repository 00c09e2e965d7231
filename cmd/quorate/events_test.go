package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
)

// serveAt serves the fake cluster at an address.
func serveAt(t *testing.T, addr string) (*grpc.Server, string) {
	t.Helper()
	var l net.Listener
	var err error
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // the port may still be in use just after a server stopped
		if l, err = net.Listen("tcp", addr); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	srv := grpcapi.New(api.New(newFakeCluster(), api.Options{}), nil)
	go srv.Serve(l) // returns after Stop
	t.Cleanup(srv.Stop)
	return srv, l.Addr().String()
}

func awaitCount(t *testing.T, l *buftest.Buffer, text string, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); strings.Count(l.String(), text) < want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q came %d times, want %d:\n%s", text, strings.Count(l.String(), text), want, l.String())
		}
	}
}

// TestEventsReconnect checks that a watch that loses its node continues at the next one, or at the
// same one if there is no other, and that Ctrl-C is no error.
func TestEventsReconnect(t *testing.T) {
	first, firstAddr := serveAt(t, "127.0.0.1:0")
	second, secondAddr := serveAt(t, "127.0.0.1:0")
	ctx, interrupt := context.WithCancel(t.Context())
	var out, messages buftest.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, []string{"events", "-f", "--kind", "refused", "--addr", firstAddr + "," + secondAddr}, &out, &messages)
	}()
	awaitCount(t, &messages, "watching all nodes through "+firstAddr, 1)
	awaitCount(t, &out, "refused", 1)
	first.Stop()
	awaitCount(t, &messages, firstAddr+": the connection is lost", 1)
	awaitCount(t, &messages, "watching all nodes through "+secondAddr, 1)
	awaitCount(t, &out, "refused", 2)
	second.Stop()
	awaitCount(t, &messages, secondAddr+": the connection is lost", 1)
	serveAt(t, secondAddr)
	awaitCount(t, &messages, "watching all nodes through "+secondAddr, 2)
	awaitCount(t, &out, "refused", 3)
	interrupt()
	if got := <-code; got != exit.OK {
		t.Errorf("exit code %d, want 0", got)
	}
}

// TestEventsOutputGone checks that events ends when nothing reads its output any more.
func TestEventsOutputGone(t *testing.T) {
	_, addr := serveAt(t, "127.0.0.1:0")
	var messages buftest.Buffer
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(t.Context(), []string{"events", "--addr", addr, "--for", "10s"}, brokenPipe{}, &messages)
	}()
	select {
	case code := <-done:
		if code != exit.No || strings.Count(messages.String(), "broken pipe") != 1 {
			t.Errorf("exit code %d; %s", code, messages.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("still runs")
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
