package limits

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

// NewConvertCommand returns "quorate convert".
func NewConvertCommand() *cobra.Command {
	var from, to string
	forms := config.ConvertFrom()
	cmd := &cobra.Command{
		Use:   "convert --from FORM FILE",
		Short: "Turn another system's configuration into a limit file",
		Long: `Turn the configuration of another system ("-": standard input) into a limit
file, on standard output or in the file of --out. No cluster is needed. FORM is
` + oneOf(forms) + `.

Notes on standard error list what could not be converted exactly, and what
callers have to change. Exit code 0 means no notes, 1 some notes, 2 an invalid
file.`,
		Example: `  quorate convert --from envoy-ratelimit config.yaml --out limits.yaml
  quorate convert --from quotaservice quotas.yaml | quorate limits validate -
  quorate convert --from slas slas.yaml | quorate limits diff -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch one := oneOf(forms); {
			case from == "":
				return exit.Usagef("--from is missing; say which form the file has: %s", one)
			case !slices.Contains(forms, from):
				return exit.Usagef("--from %q: must be %s", from, one)
			}
			data, err := ReadInput(args[0], cmd.InOrStdin(), apiproto.MaxLimitsFile)
			if err != nil {
				return err
			}
			res, err := config.Convert(from, args[0], data)
			if err != nil {
				return exit.Invalid(err)
			}
			if to == "" || to == "-" {
				_, err = cmd.OutOrStdout().Write(res.YAML)
			} else {
				err = exit.Invalid(os.WriteFile(to, res.YAML, 0o644))
			}
			if err != nil || len(res.Notes) == 0 {
				return err
			}
			printNotes(cmd.ErrOrStderr(), res.Notes)
			return exit.AnswerNo()
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "form of the file: "+strings.Join(forms, ", ")+" (required)")
	cmd.Flags().StringVar(&to, "out", "", "write the limit file here (default: standard output)")
	render.CompleteWords(cmd, "from", forms...)
	return cmd
}

// oneOf joins words for "must be".
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

const noteWidth = 96 // columns

func printNotes(w io.Writer, notes []config.Note) {
	fmt.Fprintf(w, "%s on differences:\n", phrase.Plural(len(notes), "note"))
	for _, n := range notes {
		path := n.Path
		if path == "" {
			path = "(all)"
		}
		fmt.Fprintf(w, "%s\n", phrase.Printable(path))
		fmt.Fprint(w, wrap("    ", phrase.Printable(n.What)))
		if n.Do != "" {
			fmt.Fprint(w, wrap("    > ", phrase.Printable(n.Do)))
		}
	}
}

// wrap breaks a text between words. The first line starts with begin, and the others are indented
// by its length.
func wrap(begin, s string) string {
	var b strings.Builder
	line := begin
	for w := range strings.FieldsSeq(s) {
		if len(line)+len(w) > noteWidth && strings.TrimSpace(line) != "" && line != begin {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = strings.Repeat(" ", len(begin))
		}
		line += w + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
