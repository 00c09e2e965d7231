package render

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/quota"
)

// OnTerminal reports whether a stream is a terminal that somebody looks at.
func OnTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// Palette colours text, or leaves it alone.
type Palette bool

// Colours returns the palette for the command's output: as --color says, and by default
// colours are for terminals, and for nobody who set NO_COLOR.
func Colours(cmd *cobra.Command) Palette {
	switch f := cmd.Flag("color"); {
	case f != nil && f.Value.String() == "always":
		return true
	case f != nil && f.Value.String() == "never":
		return false
	}
	return Palette(OnTerminal(cmd.OutOrStdout()) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// ColourFlag adds --color to all commands.
func ColourFlag(root *cobra.Command) {
	modes := []string{"auto", "always", "never"}
	root.PersistentFlags().Var(&oneWord{word: modes[0], of: modes}, "color", "colours: auto, always or never")
	CompleteWords(root, "color", modes...)
}

// oneWord is a flag whose value is one of a few words.
type oneWord struct {
	word string
	of   []string
}

// String implements pflag.Value.
func (o *oneWord) String() string { return o.word }

// Type implements pflag.Value.
func (*oneWord) Type() string { return "when" }

// Set implements pflag.Value.
func (o *oneWord) Set(s string) error {
	if !slices.Contains(o.of, s) {
		return fmt.Errorf("must be %s", strings.Join(o.of, ", "))
	}
	o.word = s
	return nil
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

// Confirm asks on the terminal. Where there is none, --yes has to say it.
func Confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !OnTerminal(cmd.InOrStdin()) {
		return exit.Usagef("--yes is missing: %s It cannot be asked, because standard input is not a terminal", question)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return exit.Errorf(exit.No, "nothing was changed")
	}
	return nil
}

// YesFlag adds --yes.
func YesFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVarP(to, "yes", "y", false, "do not ask")
}

// Change is who makes a change, and why.
type Change struct{ Author, Comment string }

// AddFlags adds --comment and --author.
func (c *Change) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.Comment, "comment", "", fmt.Sprintf("why, for the history; at most %d bytes", quota.MaxCommentLen))
	cmd.Flags().StringVar(&c.Author, "author", "", "who, for the history (default: $QUORATE_USER, or who is logged in)")
}

// Who returns the author.
func (c *Change) Who() string {
	name := c.Author
	if name == "" {
		name = os.Getenv("QUORATE_USER")
	}
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
		if len(name) > quota.MaxNameLen {
			name = ""
		}
	}
	return name
}

// ExpectFlag adds --expected-version; the function returns nil if it was not given.
func ExpectFlag(cmd *cobra.Command) func() *uint64 {
	v := cmd.Flags().Uint64("expected-version", 0, "change nothing unless this version is in force (0: none yet)")
	return func() *uint64 {
		if !cmd.Flags().Changed("expected-version") {
			return nil
		}
		return v
	}
}

// Word returns an enum's word in limit files and JSON, such as soft for CEILING_SOFT.
func Word(e protoreflect.Enum) string { return apijson.EnumWord(e) }

// When prints a moment in UTC, to the second.
func When(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format("2006-01-02T15:04:05Z")
}

// Pause prints a duration of an answer as span does.
func Pause(d *durationpb.Duration) string { return Span(d.AsDuration()) }

// Span prints a duration without needless parts: 1h30m, 2.5s.
func Span(d time.Duration) string {
	s := d.Round(time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// CompleteWords completes a flag that takes one of some words.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // invariant: the flag is there
	}
}
