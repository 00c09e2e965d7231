package examplenode

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPortTaken checks that a port that another process has taken is recognized by the message about it, so
// that Start tries other ports.
func TestPortTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nnamespaces: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	end, err := run(l.Addr().(*net.TCPAddr).Port-12, file)
	if err == nil {
		end()
	}
	if err == nil || !strings.Contains(err.Error(), portTaken) {
		t.Errorf("with the gRPC port taken: %v; want %q in the message", err, portTaken)
	}
}
