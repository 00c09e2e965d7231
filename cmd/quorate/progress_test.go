package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
)

// TestCompletionScripts checks that the shells installed here can read their completion scripts.
func TestCompletionScripts(t *testing.T) {
	for shell, args := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		t.Run(shell, func(t *testing.T) {
			var b bytes.Buffer
			if code := cli.Run(t.Context(), []string{"completion", shell}, &b, &b); code != exit.OK || !strings.Contains(b.String(), "__complete") {
				t.Fatalf("%d: %.200s", code, b.String())
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				return // cobra generates the script, and it exists
			}
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Stdin = &b
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
