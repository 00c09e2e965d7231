package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/render"
)

// noForm lists the commands without a choice of output format, with the reason.
var noForm = map[string]string{
	"quorate dev":             "runs",
	"quorate serve":           "runs",
	"quorate top":             "is a screen",
	"quorate init":            "says what to do next",
	"quorate convert":         "prints a limit file",
	"quorate backup":          "writes a file",
	"quorate restore":         "says how far it is",
	"quorate cert issue":      "writes files",
	"quorate cluster leave":   "says what came of it",
	"quorate help exit-codes": "is a page of the manual",
}

// TestEveryCommandHasForms walks all commands and checks that each one that prints something can
// print JSON, YAML and CSV too.
func TestEveryCommandHasForms(t *testing.T) {
	used := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		path := c.CommandPath()
		if !c.Runnable() || c.HasSubCommands() && path != "quorate backup" || strings.HasPrefix(path, "quorate completion") || strings.HasPrefix(path, "quorate help") {
			return
		}
		f := c.Flags().Lookup("output")
		if _, ok := noForm[path]; ok {
			used[path] = true
			return
		}
		if f == nil {
			t.Errorf("%s has no -o: use render.Output, or say in noForm why not", path)
			return
		}
		_, list, _ := strings.Cut(f.Usage, ": ")
		forms := strings.Split(list, ", ")
		for _, want := range []string{render.FormatJSON, render.FormatYAML, render.FormatCSV} {
			if !slices.Contains(forms, want) {
				t.Errorf("%s -o has the forms %v; want %s", path, forms, want)
			}
		}
		if lists := []string{"list", "get", "history", "status", "plan", "rates", "verify"}; slices.Contains(lists, c.Name()) && path != "quorate ca status" && c.Flags().Lookup("output").DefValue != render.FormatTable {
			t.Errorf("%s lists, and prints no table", path)
		}
	}
	root := cli.New()
	walk(root)
	for path, why := range noForm {
		if !used[path] && path != "quorate help exit-codes" {
			t.Errorf("%s (%s) is no such command any more", path, why)
		}
	}
}
