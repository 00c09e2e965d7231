// Package examplenode starts one real node for runnable examples.
package examplenode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cli"
)

// patience bounds the start of a node, which takes about a second on an idle machine.
const patience = 2 * time.Minute

// Start runs a node with this limit file, and returns its gRPC address once it has leaders and
// limits. It is "quorate dev" with one node and one range; stop ends it.
func Start(limits string) (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "quorate-example-")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("example node: %w", err)
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	file := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
		return "", nil, err
	}
	for range 20 { // another process may take a port between the look and the start
		base, err := freeBase()
		if err != nil {
			return "", nil, err
		}
		end, err := run(base, file)
		if err == nil {
			stop := func() {
				end()
				_ = os.RemoveAll(dir) // a directory that stays in the temporary one does no harm
			}
			return fmt.Sprintf("127.0.0.1:%d", base+12), stop, nil
		}
		if !strings.Contains(err.Error(), portTaken) {
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("no free ports")
}

// portTaken is in the message of "quorate dev" about a port that is not free.
const portTaken = "taken by another process"

// freeBase returns a base port whose ports for one node are free now.
func freeBase() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	// The ports that the system gives are rarely followed by ones in use; run reports it otherwise.
	return min(l.Addr().(*net.TCPAddr).Port, 65000) - 11, l.Close()
}

// run starts the command, and waits until it says that it has leaders.
func run(base int, file string) (end func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	up := &banner{ready: make(chan struct{})}
	var said strings.Builder // read only after the command has ended
	done := make(chan struct{})
	go func() {
		defer close(done)
		cli.Run(ctx, []string{"dev", "-q", "--nodes", "1", "--ranges", "1", "--base-port", strconv.Itoa(base), "--limits", file}, up, &said)
	}()
	end = func() {
		cancel()
		<-done
	}
	select {
	case <-up.ready:
		return end, nil
	case <-done:
		cancel()
		return nil, fmt.Errorf("%s", strings.TrimSpace(said.String()))
	case <-time.After(patience):
		end()
		return nil, fmt.Errorf("not ready after %v", patience)
	}
}

// banner closes ready when the text about leaders has been written.
type banner struct {
	mu    sync.Mutex
	text  strings.Builder
	once  sync.Once
	ready chan struct{}
}

var _ io.Writer = (*banner)(nil)

func (b *banner) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p)
	if strings.Contains(b.text.String(), "have leaders") {
		b.once.Do(func() { close(b.ready) })
	}
	return len(p), nil
}
