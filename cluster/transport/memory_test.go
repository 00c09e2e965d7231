package transport

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// memory is an in-memory network for tests with virtual time.
type memory struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener
}

type memoryListener struct {
	of   *memory
	name string
	in   chan net.Conn
	done chan struct{}
	once sync.Once
}

func newMemory() *memory { return &memory{listeners: map[string]*memoryListener{}} }

// listen listens at an address, which may be any name.
func (m *memory) listen(name string) net.Listener {
	l := &memoryListener{of: m, name: name, in: make(chan net.Conn), done: make(chan struct{})}
	m.mu.Lock()
	m.listeners[name] = l
	m.mu.Unlock()
	return l
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.in:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		l.of.mu.Lock()
		delete(l.of.listeners, l.name)
		l.of.mu.Unlock()
		close(l.done)
	})
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: l.name, Net: "memory"} }

// dial fails if nothing listens at the address.
func (m *memory) dial(ctx context.Context, addr string) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[addr]
	m.mu.Unlock()
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	mine, theirs := net.Pipe()
	select {
	case l.in <- theirs:
		return mine, nil
	case <-l.done:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start creates a node that listens at its own name.
func (m *memory) start(t *testing.T, id quota.NodeID, peers map[quota.NodeID]string, edit func(*Config)) *node {
	t.Helper()
	return start(t, m.listen(string(id)), id, peers, func(c *Config) {
		c.Dial = m.dial
		if edit != nil {
			edit(c)
		}
	})
}
