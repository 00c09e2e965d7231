package render

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/exit"
)

// OnTerminal reports whether a stream is a terminal.
func OnTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// Palette colours text if true, and leaves it alone if false.
type Palette bool

// Colours returns the palette for the command's output, as --color says. By default colours are for
// terminals, unless NO_COLOR is set.
func Colours(cmd *cobra.Command) Palette {
	switch f := cmd.Flag("color"); {
	case f != nil && f.Value.String() == "always":
		return true
	case f != nil && f.Value.String() == "never":
		return false
	}
	return Palette(OnTerminal(cmd.OutOrStdout()) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// Colours of [Palette.Paint].
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Paint returns s in a colour.
func (p Palette) Paint(colour, s string) string {
	if !p || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// Confirm asks for confirmation on the terminal. Without a terminal, --yes is required.
func Confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !OnTerminal(cmd.InOrStdin()) {
		return exit.Usagef("%s Confirm with --yes, because standard input is not a terminal", question)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer means no
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return exit.Errorf(exit.No, "nothing was changed")
	}
	return nil
}
