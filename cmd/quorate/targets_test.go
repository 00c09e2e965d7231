package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/remote"
)

// TestTargetsEverywhere checks that every command with --addr says what applies without it.
func TestTargetsEverywhere(t *testing.T) {
	everyCommand(cli.New(), func(cmd *cobra.Command) {
		if f := cmd.Flags().Lookup("addr"); f != nil && cmd.CommandPath() != "quorate context set" && !strings.Contains(f.Usage, "$"+remote.AddrVariable) {
			t.Errorf("%s: --addr: %s", cmd.CommandPath(), f.Usage)
		}
	})
}
