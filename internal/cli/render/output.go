package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/exit"
)

// Output formats. Every command has a page for people, text or tables, and data; a command may have
// further formats of its own.
const (
	FormatText  = "text"
	FormatTable = "table"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatCSV   = "csv"
)

// Output holds the flags -o and --raw, which select how a command prints its answers. The zero
// value prints pages.
type Output struct {
	Format string // the value of -o
	Raw    bool   // CSV without escaped formulas

	printer Printer
}

// AddFlags adds -o with the given formats; the first is the default. JSON implies YAML and CSV. Commands
// that print text accept "table" for it, and print their data as a row of CSV.
func (o *Output) AddFlags(cmd *cobra.Command, formats ...string) {
	rows := slices.Contains(formats, FormatTable) || slices.Contains(formats, FormatCSV)
	if !slices.Contains(formats, FormatCSV) {
		formats = append(formats, FormatCSV)
	}
	if !slices.Contains(formats, FormatYAML) {
		formats = append(formats, FormatYAML)
	}
	cmd.Flags().BoolVar(&o.Raw, "raw", false, "with -o csv: do not put an apostrophe before texts that a spreadsheet would take for a formula")
	if !rows {
		_ = cmd.Flags().MarkHidden("raw") // the flag was added above
	}
	cmd.Flags().StringVarP(&o.Format, "output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	CompleteWords(cmd, "output", formats...)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if o.Format == FormatTable && slices.Contains(formats, FormatText) {
			o.Format = FormatText // so that scripts can give -o table to every command
		}
		switch {
		case !slices.Contains(formats, o.Format):
			return exit.Usagef("--output %q: must be %s", o.Format, strings.Join(formats[:len(formats)-1], ", ")+" or "+formats[len(formats)-1])
		case o.Raw && o.Format != FormatCSV:
			return exit.Usagef("--raw: is for -o csv alone")
		}
		return nil
	}
}

// ForPeople reports whether the format prints pages, whole or only their tables.
func (o *Output) ForPeople() bool { return o.Format != FormatJSON && o.Format != FormatYAML }

// Printer returns the printer of the format, which continues where it stopped.
func (o *Output) Printer(cmd *cobra.Command) Printer {
	if o.printer == nil {
		o.printer = NewPrinter(o.Format, o.Raw, cmd.OutOrStdout())
		if p, ok := o.printer.(pagePrinter); ok && cmd.CalledAs() == "describe" {
			p.describe = true
			o.printer = p
		}
	}
	return o.printer
}

// Print prints an answer in the format of -o: data, or the page that page writes.
func (o *Output) Print(cmd *cobra.Command, data any, page func(*Page)) error {
	return o.Printer(cmd).Print(data, page)
}

// Printf prints an answer whose page is one line of text.
func (o *Output) Printf(cmd *cobra.Command, data any, format string, args ...any) error {
	return o.Print(cmd, data, func(p *Page) { fmt.Fprintf(p, format+"\n", args...) })
}

// List begins an answer that is a list and arrives in parts. In data, it is the field with the
// given name. Of an empty list, a page shows the sentence none.
func (o *Output) List(cmd *cobra.Command, name, none string, table *Table) *List {
	return &List{printer: o.Printer(cmd), name: name, none: none, table: table}
}
