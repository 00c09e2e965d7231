package render

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/quota"
)

// ColourFlag adds --color to all commands.
func ColourFlag(root *cobra.Command) {
	modes := []string{"auto", "always", "never"}
	root.PersistentFlags().Var(&oneWord{word: modes[0], of: modes}, "color", "colours: auto, always or never")
	CompleteWords(root, "color", modes...)
}

// oneWord is a flag that takes one of a few words.
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

// YesFlag adds --yes.
func YesFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVarP(to, "yes", "y", false, "do not ask")
}

// Change holds the author of a change, and a comment.
type Change struct{ Author, Comment string }

// AddFlags adds --comment and --author.
func (c *Change) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.Comment, "comment", "", fmt.Sprintf("comment for the history; at most %d bytes", quota.MaxCommentLen))
	cmd.Flags().StringVar(&c.Author, "author", "", "author, for the history (default: $QUORATE_USER, or the login name)")
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

// ExpectFlag adds --expected-version. The returned function returns nil if the flag was not given.
func ExpectFlag(cmd *cobra.Command) func() *uint64 {
	v := cmd.Flags().Uint64("expected-version", 0, "change nothing unless this version is active (0: none yet)")
	return func() *uint64 {
		if !cmd.Flags().Changed("expected-version") {
			return nil
		}
		return v
	}
}

// CompleteWords completes a flag that takes one of the given words.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // invariant: the flag exists
	}
}
