package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/exit"
)

// Formats of what a command prints. A command has a page for people, which is text or tables, and
// data; a command may have further formats of its own.
const (
	FormatText  = "text"
	FormatTable = "table"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatCSV   = "csv"
)

// Output is how a command prints its answers: the flags -o and --raw. The zero value prints pages.
type Output struct {
	Format string // as -o says
	Raw    bool   // CSV without escaping of formulas

	printer Printer
}

// AddFlags adds -o with the given formats, the first being the default. Who prints JSON
// prints YAML too, and who prints a table, CSV.
func (o *Output) AddFlags(cmd *cobra.Command, formats ...string) {
	if slices.Contains(formats, FormatTable) && !slices.Contains(formats, FormatCSV) {
		formats = append(formats, FormatCSV)
	}
	if !slices.Contains(formats, FormatYAML) {
		formats = append(formats, FormatYAML)
	}
	if slices.Contains(formats, FormatCSV) {
		cmd.Flags().BoolVar(&o.Raw, "raw", false, "with -o csv: texts as they are; else what a spreadsheet would take for a formula has an apostrophe before it")
	}
	cmd.Flags().StringVarP(&o.Format, "output", "o", formats[0], "form of the output: "+strings.Join(formats, ", "))
	CompleteWords(cmd, "output", formats...)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case !slices.Contains(formats, o.Format):
			return exit.Usagef("--output %q: must be %s", o.Format, strings.Join(formats, " or "))
		case o.Raw && o.Format != FormatCSV:
			return exit.Usagef("--raw: is for -o csv alone")
		}
		return nil
	}
}

// ForPeople reports whether pages are printed, whole or their tables.
func (o *Output) ForPeople() bool { return o.Format != FormatJSON && o.Format != FormatYAML }

// Printer returns the printer of the format, which goes on where it was.
func (o *Output) Printer(cmd *cobra.Command) Printer {
	if o.printer == nil {
		o.printer = NewPrinter(o.Format, o.Raw, cmd.OutOrStdout())
	}
	return o.printer
}

// Print prints an answer in the format that -o says: data, or what page writes for people.
func (o *Output) Print(cmd *cobra.Command, data any, page func(*Page)) error {
	return o.Printer(cmd).Print(data, page)
}

// Printf prints an answer whose page is a line of text.
func (o *Output) Printf(cmd *cobra.Command, data any, format string, args ...any) error {
	return o.Print(cmd, data, func(p *Page) { fmt.Fprintf(p, format+"\n", args...) })
}

// List begins an answer that is a list and arrives in parts. In data it is the field of that name.
func (o *Output) List(cmd *cobra.Command, name string, table *Table) *List {
	return &List{printer: o.Printer(cmd), name: name, table: table}
}
