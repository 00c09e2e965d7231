package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/golden"
)

const (
	cliDoc     = "../../docs/reference/cli.md"
	docMarker  = "<!-- Below: what --help prints. go test ./cmd/quorate -rewrite writes it. -->\n"
	codeMarker = "<!-- exit codes -->\n"
)

// TestDoc checks that docs/reference/cli.md matches the help of the commands.
func TestDoc(t *testing.T) {
	b, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(b), docMarker)
	before, rest, codes := strings.Cut(head, codeMarker)
	_, after, end := strings.Cut(rest, codeMarker)
	if !ok || !codes || !end {
		t.Fatalf("%s has lost its markers", cliDoc)
	}
	want := before + codeMarker + "```\n" + exit.CodesHelp + "\n```\n" + codeMarker + after + docMarker + "\n" + helpTexts(t)
	golden.Hold(t, cliDoc, want, *rewrite)
}

// helpTexts returns the --help output of all commands.
func helpTexts(t *testing.T) string {
	var b strings.Builder
	everyCommand(cli.New(), func(cmd *cobra.Command) {
		if cmd.HasSubCommands() && (cmd.Example == "" || !cmd.HasParent()) || cmd.Name() == "exit-codes" {
			return // it only lists commands that have their own part
		}
		var out bytes.Buffer
		if code := cli.Run(t.Context(), append(strings.Fields(cmd.CommandPath())[1:], "--help"), &out, &out); code != exit.OK {
			t.Fatalf("%s --help: exit code %d", cmd.CommandPath(), code)
		}
		fmt.Fprintf(&b, "### %s\n\n```\n%s```\n\n", cmd.CommandPath(), out.String())
	})
	return strings.TrimSuffix(b.String(), "\n")
}

func everyCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		if c.Hidden {
			continue
		}
		if c.Name() != "help" && c.Name() != "completion" {
			everyCommand(c, f)
		}
	}
}

// TestExamples checks that every command describes itself within 80 columns, with examples whose
// arguments and flags it accepts.
func TestExamples(t *testing.T) {
	everyCommand(cli.New(), func(cmd *cobra.Command) {
		if cmd.Name() == "exit-codes" || cmd.Name() == "quorate" {
			return
		}
		path := cmd.CommandPath()
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if len(line) > 82 {
				t.Errorf("%s: %d columns: %s", path, len(line), line)
			}
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short text %q", path, cmd.Short)
		}
		if cmd.HasSubCommands() && cmd.Example == "" {
			return
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", path)
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			checkExample(t, path, line)
		}
	})
}

// TestGroups checks that the help of the program lists every command in a group.
func TestGroups(t *testing.T) {
	for _, cmd := range cli.New().Commands() {
		if cmd.GroupID == "" {
			t.Errorf("%s is in no group", cmd.CommandPath())
		}
	}
}

// checkExample parses what a shell would pass to the command.
func checkExample(t *testing.T, path, line string) {
	_, rest, ok := strings.Cut(line, "quorate ")
	if !ok || strings.Contains(line, "curl") {
		return
	}
	words := shellWords(rest)
	root := cli.New()
	cmd, args, err := root.Find(words)
	if err != nil {
		t.Errorf("%s: %s: %v", path, line, err)
		return
	}
	if cmd.CommandPath() != path && !strings.Contains(line, "|") {
		t.Errorf("%s: the example is one of %s", path, cmd.CommandPath())
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Errorf("%s: %s: %v", path, line, err)
		return
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("%s: %s: %v", path, line, err)
	}
	if f := cmd.Flags().Lookup("output"); f != nil && cmd.Name() != "convert" && !strings.Contains(f.Usage, f.Value.String()) {
		t.Errorf("%s: %s: -o %s is none of %q", path, line, f.Value, f.Usage)
	}
}

// shellWords splits a command line up to a pipe, a redirection or a semicolon.
func shellWords(s string) []string {
	var words []string
	var word strings.Builder
	quoted, any := false, false
	for _, r := range s + " " {
		switch {
		case r == '"':
			quoted, any = !quoted, true
		case !quoted && strings.ContainsRune("|<>;", r):
			if any {
				words = append(words, word.String())
			}
			return words
		case !quoted && r == ' ':
			if any { // a quoted word may be empty
				words = append(words, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(r)
			any = true
		}
	}
	return words
}
