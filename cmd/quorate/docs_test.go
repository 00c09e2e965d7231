package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
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
	cmd, err := parseCommand(rest)
	switch {
	case err != nil:
		t.Errorf("%s: %s: %v", path, line, err)
		return
	case cmd.CommandPath() != path && !strings.Contains(line, "|"):
		t.Errorf("%s: the example is one of %s", path, cmd.CommandPath())
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("%s: %s: %v", path, line, err)
	}
	if f := cmd.Flags().Lookup("output"); f != nil && cmd.Name() != "convert" && !strings.Contains(f.Usage, f.Value.String()) {
		t.Errorf("%s: %s: -o %s is none of %q", path, line, f.Value, f.Usage)
	}
}

// parseCommand returns the command of a line that follows the name of the program, with its flags parsed.
func parseCommand(line string) (*cobra.Command, error) {
	root := cli.New()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, args, err := root.Find(shellWords(line))
	if err != nil {
		return nil, err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return nil, err
	}
	if rest := cmd.Flags().Args(); len(rest) > 0 && cmd.HasSubCommands() && cmd.Example == "" {
		return nil, fmt.Errorf("%s has no command %s", cmd.CommandPath(), rest[0])
	}
	return cmd, nil
}

var (
	fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)\n```$")
	// inCode matches code in a sentence that begins with the program.
	inCode = regexp.MustCompile("`(?:go run \\./cmd/)?quorate ([a-z][^`]*)`")
	// inShell matches the program where a shell expects a command.
	inShell = regexp.MustCompile(`(?:^|[;&|(]\s*|\b(?:until|while|if|do|then)\s+|\b[A-Z_]+=\S*\s+)(?:go run \./cmd/)?quorate ([a-z].*)`)
	// placeholder matches a word that the reader replaces.
	placeholder = regexp.MustCompile(`\b[A-Z]{3,}\b`)
)

// TestPages checks that commands in the pages exist, and accept the flags and arguments that the pages show.
// Excluded are pages that a test writes, the page of mistakes, and records of what was once decided or changed.
func TestPages(t *testing.T) {
	root := os.DirFS("../..")
	blocks, sentences := 0, 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata" || name == "docs/reference/cli" || name == "docs/rfcs"):
			return fs.SkipDir
		case path.Ext(name) != ".md" || name == "docs/reference/mistakes.md" || name == "CHANGELOG.md":
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for _, b := range fence.FindAllStringSubmatch(string(data), -1) {
			for _, line := range commandLines(b[1], b[2]) {
				for _, m := range inShell.FindAllStringSubmatch(line, -1) {
					blocks++
					cmd, err := parseCommand(m[1])
					if err == nil {
						err = cmd.ValidateArgs(cmd.Flags().Args())
					}
					if err != nil {
						t.Errorf("%s: %s: %v", name, line, err)
					}
				}
			}
		}
		for _, m := range inCode.FindAllStringSubmatch(fence.ReplaceAllString(string(data), ""), -1) {
			sentences++
			line := strings.NewReplacer("\n", " ", "[", "", "]", "").Replace(m[1])
			// A sentence may leave arguments out.
			if _, err := parseCommand(placeholder.ReplaceAllString(line, "1")); err != nil && !strings.Contains(err.Error(), "needs an argument") {
				t.Errorf("%s: %s: %v", name, m[0], err)
			}
		}
		return nil
	})
	if err != nil || blocks < 100 || sentences < 150 {
		t.Errorf("%d commands in blocks, %d in sentences: there are more; %v", blocks, sentences, err)
	}
	t.Logf("%d commands in blocks, %d in sentences", blocks, sentences)
	for _, wrong := range []string{"limit get", "limits shows", "limits get --no-such-flag", "status --no-such-flag"} {
		if _, err := parseCommand(wrong); err == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
}

// commandLines returns the commands of a block: in a console they have a prompt, "> " continues one,
// and a backslash any.
func commandLines(language, block string) (lines []string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", ""), "\n") {
		prompt, rest, ok := strings.Cut(line, " ")
		switch {
		case ok && (prompt == "$" || prompt == "#"):
			lines = append(lines, rest)
		case ok && prompt == ">" && len(lines) > 0:
			lines[len(lines)-1] += " " + rest
		case language == "sh" || strings.HasPrefix(line, "quorate "):
			lines = append(lines, line)
		}
	}
	return lines
}

// shellWords splits a command line up to a comment, a pipe, a redirection or whatever else ends the command.
func shellWords(s string) []string {
	var words []string
	var word strings.Builder
	var quote rune // that is open
	any := false
	for _, r := range s + " " {
		ends := strings.ContainsRune("|<>;&)", r) || r == '#' && !any
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote, any = r, true
		case r == quote:
			quote = 0
		case quote == 0 && (r == ' ' || ends):
			if any && !(r == '>' && word.String() == "2") { // a quoted word may be empty
				words = append(words, word.String())
			}
			word.Reset()
			if any = false; ends {
				return words
			}
		default:
			word.WriteRune(r)
			any = true
		}
	}
	return words
}
