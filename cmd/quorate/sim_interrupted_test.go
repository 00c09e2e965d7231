package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
)

// TestSimTableInterrupted checks that Ctrl-C ends a table even after its last runs have begun.
func TestSimTableInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout, stderr bytes.Buffer
	code := cli.Run(ctx, []string{"sim", "example:small", "-o", "markdown"}, &stdout, &stderr)
	if code != exit.No || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "quorate: interrupted") {
		t.Errorf("exit code %d, printed %q and %q; want 1, nothing, and that it was interrupted", code, stdout.String(), stderr.String())
	}
}
