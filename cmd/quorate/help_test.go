package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli"
)

// TestHelpFits checks that help texts fit into a terminal of 80 columns. Examples may be longer: a
// command on two lines cannot be copied.
func TestHelpFits(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if strings.HasPrefix(c.CommandPath(), "quorate completion") {
			return
		}
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		example := false
		for line := range strings.Lines(b.String()) {
			line = strings.TrimRight(line, " \n")
			switch line {
			case "Examples:":
				example = true
			case "":
				example = false
			}
			if n := utf8.RuneCountInString(line); n > 80 && !example {
				t.Errorf("%s: a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
	}
	root := cli.New()
	walk(root)
}
