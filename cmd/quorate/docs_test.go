package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/golden"
)

const (
	cliDoc     = "../../docs/reference/cli.md"
	cliPages   = "../../docs/reference/cli"
	generated  = "<!-- Written by go test ./cmd/quorate -rewrite. Do not edit. -->\n\n"
	docMarker  = "<!-- Below: the commands. go test ./cmd/quorate -rewrite writes them. -->\n"
	codeMarker = "<!-- exit codes -->\n"
)

// TestDoc checks that docs/reference/cli.md lists all commands, and that the page of each group in
// docs/reference/cli matches their help.
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
	root := cli.New()
	var index strings.Builder
	written := map[string]bool{}
	for _, group := range root.Groups() {
		title := strings.TrimSuffix(group.Title, ":")
		rows, texts := helpTexts(t, root, group.ID)
		fmt.Fprintf(&index, "\n### %s\n\n| command | |\n|---|---|\n%s", title, rows)
		page := fmt.Sprintf("%s# Commands: %s\n\nOptions that all commands share, and exit codes: [the command line](../cli.md).\n\n%s", generated, strings.ToLower(title), texts)
		written[group.ID+".md"] = true
		golden.Hold(t, filepath.Join(cliPages, group.ID+".md"), page, *rewrite)
	}
	want := before + codeMarker + "```\n" + exit.CodesHelp + "\n```\n" + codeMarker + after + docMarker + index.String()
	golden.Hold(t, cliDoc, want, *rewrite)
	entries, err := os.ReadDir(cliPages)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !written[e.Name()] {
			t.Errorf("docs/reference/cli/%s is of no group of commands: delete it", e.Name())
		}
	}
}

// helpTexts returns the commands of a group as rows of a table that link their help, and the --help output of
// each under a heading.
func helpTexts(t *testing.T, root *cobra.Command, group string) (rows, texts string) {
	t.Helper()
	var table, b strings.Builder
	for _, top := range root.Commands() {
		if top.GroupID != group || top.Hidden || top.Name() == "help" || top.Name() == "completion" {
			continue
		}
		everyCommand(top, func(cmd *cobra.Command) {
			if cmd.HasSubCommands() && cmd.Example == "" || cmd.Name() == "exit-codes" {
				return // it only lists commands that have their own part
			}
			var out bytes.Buffer
			if code := cli.Run(t.Context(), append(strings.Fields(cmd.CommandPath())[1:], "--help"), &out, &out); code != exit.OK {
				t.Fatalf("%s --help: exit code %d", cmd.CommandPath(), code)
			}
			fmt.Fprintf(&table, "| [%s](cli/%s.md#%s) | %s |\n", cmd.CommandPath(), group, strings.ReplaceAll(cmd.CommandPath(), " ", "-"), strings.ReplaceAll(cmd.Short, "|", `\|`))
			fmt.Fprintf(&b, "## %s\n\n```\n%s```\n\n", cmd.CommandPath(), out.String())
		})
	}
	return table.String(), strings.TrimSuffix(b.String(), "\n")
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
