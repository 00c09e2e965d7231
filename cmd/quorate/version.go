package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api"
)

// version of the software; releases set it with -ldflags "-X main.version=...".
var version = "0.1.0-dev"

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  quorate version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "json" {
				return writeJSON(cmd, map[string]string{"version": version, "revision": api.Revision(), "goversion": runtime.Version()})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "quorate %s (%s, %s)\n", version, api.Revision(), runtime.Version())
			return nil
		},
	}
	outputFlag(cmd, &output, "text", "json")
	return cmd
}

func writeJSON(cmd *cobra.Command, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
	return err
}
