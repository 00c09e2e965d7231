package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/jsontext"
)

// Forms of what a command prints. A command prints its own text or table, and JSON; the others
// are made of these two.
const (
	FormTable = "table"
	FormJSON  = "json"
	FormYAML  = "yaml"
	FormCSV   = "csv"
)

// OutputFlag adds -o with the given forms, the first being the default. What prints JSON
// prints YAML too, and what prints a table, CSV.
func OutputFlag(cmd *cobra.Command, to *string, forms ...string) {
	own := slices.Clone(forms)
	for made, of := range map[string]string{FormYAML: FormJSON, FormCSV: FormTable} {
		if slices.Contains(own, of) && !slices.Contains(own, made) {
			forms = append(forms, made)
		}
	}
	slices.Sort(forms[len(own):])
	var raw bool
	if slices.Contains(forms, FormCSV) {
		cmd.Flags().BoolVar(&raw, "raw", false, "with -o csv: texts as they are; else what a spreadsheet would take for a formula has an apostrophe before it")
	}
	cmd.Flags().StringVarP(to, "output", "o", forms[0], "form of the output: "+strings.Join(forms, ", "))
	CompleteWords(cmd, "output", forms...)
	next := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !slices.Contains(forms, *to):
			return exit.Usagef("--output %q: must be %s", *to, strings.Join(forms, " or "))
		case raw && *to != FormCSV:
			return exit.Usagef("--raw: is for -o csv alone")
		case raw && slices.Contains(own, FormCSV):
			return through(cmd, RawOut{cmd.OutOrStdout()}, args, next)
		case slices.Contains(own, *to):
			return next(cmd, args)
		case *to == FormYAML:
			*to = FormJSON
			return through(cmd, &YAMLOut{To: cmd.OutOrStdout()}, args, next)
		}
		*to = FormTable
		return through(cmd, &CSVOut{To: cmd.OutOrStdout(), raw: raw}, args, next)
	}
}

// through runs a command whose output goes through w.
func through(cmd *cobra.Command, w io.WriteCloser, args []string, run func(*cobra.Command, []string) error) error {
	was := cmd.OutOrStdout()
	cmd.SetOut(w)
	defer cmd.SetOut(was)
	return errors.Join(run(cmd, args), w.Close())
}

// YAMLOut turns JSON values into YAML documents, each as soon as it is whole.
type YAMLOut struct {
	To   io.Writer
	rest []byte
	any  bool // something was written
}

// Write implements io.Writer.
func (y *YAMLOut) Write(p []byte) (int, error) {
	y.rest = append(y.rest, p...)
	if !bytes.HasSuffix(p, []byte("\n")) {
		return len(p), nil
	}
	for {
		d := json.NewDecoder(bytes.NewReader(y.rest))
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return len(p), nil // not whole yet; Close says if it never is
		}
		if err := y.Document(value); err != nil {
			return 0, err
		}
		y.rest = y.rest[d.InputOffset():]
	}
}

// Document writes one JSON value as a YAML document.
func (y *YAMLOut) Document(value []byte) error {
	var n yaml.Node
	if err := yaml.Unmarshal(value, &n); err != nil {
		return err
	}
	plain(&n)
	text, err := yaml.Marshal(&n)
	if err != nil {
		return err
	}
	text = jsontext.Escape(text) // plain double-quotes such strings, and YAML has the same escapes there
	if y.any {
		text = append([]byte("---\n"), text...)
	}
	y.any = true
	_, err = y.To.Write(text)
	return err
}

// notText11 are texts that readers of YAML 1.1, as most languages have, take for a boolean, a
// number or a time; to YAML 1.2 they are text without quotes.
var notText11 = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null|~|=|<<|[-+.0-9][-+.:_0-9a-fxotz ]*)$`)

// plain writes a value in lines of its own, with quotes where they are needed.
func plain(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && (notText11.MatchString(n.Value) || strings.ContainsFunc(n.Value, jsontext.Obeyed)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		plain(c)
	}
}

// Close writes what is left as it is: it was no JSON.
func (y *YAMLOut) Close() error {
	if len(bytes.TrimSpace(y.rest)) == 0 {
		return nil
	}
	_, err := y.To.Write(y.rest)
	return err
}

// CSVOut takes tables as CSV, and drops the words around them. Several tables have an empty
// line between them.
type CSVOut struct {
	To  io.Writer
	any bool
	raw bool
}

// RawOut marks an output whose CSV is written without escaping formulas.
type RawOut struct{ io.Writer }

// Close implements io.Closer.
func (RawOut) Close() error { return nil }

// Write implements io.Writer.
func (*CSVOut) Write(p []byte) (int, error) { return len(p), nil }

// Close implements io.Closer.
func (*CSVOut) Close() error { return nil }

func (c *CSVOut) table(t *Table) error {
	if c.any && strings.Join(t.Rows[0], "") != "" {
		if _, err := io.WriteString(c.To, "\n"); err != nil {
			return err
		}
	}
	c.any = true
	if c.raw {
		return t.WriteCSV(RawOut{c.To})
	}
	return t.WriteCSV(c.To)
}

// PrintResult writes an answer: as JSON, or as a text of one line.
func PrintResult(cmd *cobra.Command, output string, res proto.Message, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if output == "json" {
		text = string(api.FormatJSON(res))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// WriteJSON prints v as indented JSON.
func WriteJSON(cmd *cobra.Command, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
	return err
}
