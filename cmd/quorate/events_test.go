package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
)

// lines holds what a command prints while it runs.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

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

func awaitCount(t *testing.T, l *lines, text string, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); l.count(text) < want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q came %d times, want %d:\n%s", text, l.count(text), want, l.b.String())
		}
	}
}

// TestEventsReconnect checks that a watch that loses its node continues at the next one, or at the
// same one if there is no other, and that Ctrl-C is no error.
func TestEventsReconnect(t *testing.T) {
	first, firstAddr := serveAt(t, "127.0.0.1:0")
	second, secondAddr := serveAt(t, "127.0.0.1:0")
	ctx, interrupt := context.WithCancel(t.Context())
	var out, messages lines
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
	var messages lines
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(t.Context(), []string{"events", "--addr", addr, "--for", "10s"}, brokenPipe{}, &messages)
	}()
	select {
	case code := <-done:
		if code != exit.No || messages.count("broken pipe") != 1 {
			t.Errorf("exit code %d; %s", code, messages.b.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("still runs")
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
