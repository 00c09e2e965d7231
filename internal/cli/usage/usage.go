package usage

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/nearest"
)

// The library's words for a command line that is wrong, which say too little.
var (
	argCount    = regexp.MustCompile(`^(accepts|requires) .*arg\(s\),.* received (\d+)$`)
	unknownFlag = regexp.MustCompile(`^unknown flag: --(\S+)$`)
	rootCommand = regexp.MustCompile(`^unknown command "(.+)" for "quorate"`)
	noArguments = regexp.MustCompile(`^unknown command "(.+)" for "(quorate .+)"$`)
	// A limit among the arguments of a command's use.
	limitArgument = regexp.MustCompile(`(NAMESPACE/)?LIMIT`)
	flagValue     = regexp.MustCompile(`^invalid argument (".*") for "(?:-., )?--(\S+)" flag: .*(?:invalid syntax|value out of range|invalid duration|unknown unit|missing unit).*$`)
)

var brackets = strings.NewReplacer("[", "", "]", "")

// PlainUsage says of a command line that is wrong what would be right.
func PlainUsage(cmd *cobra.Command, err error) string {
	text := strings.ReplaceAll(err.Error(), "\n\n", "\n")
	if m := argCount.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the command must be \"%s\"; got %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), arguments(m[2]))
	}
	if m := unknownFlag.FindStringSubmatch(text); m != nil {
		if near := nearest.Word(m[1], flagsOf(cmd)); near != "" {
			return fmt.Sprintf("%s; did you mean --%s?", text, near)
		}
		return text + ownFlags(cmd)
	}
	if m := rootCommand.FindStringSubmatch(text); m != nil {
		if others := elsewhere(cmd.Root(), m[1]); others != "" {
			return fmt.Sprintf("unknown command %q; did you mean %s?", m[1], others)
		}
	}
	if m := noArguments.FindStringSubmatch(text); m != nil {
		if right := ofLimit(cmd, m[1]); right != "" {
			return fmt.Sprintf("unknown argument %q; did you mean %s?", m[1], right)
		}
		if below := subcommandsOf(cmd); len(below) > 0 {
			if near := nearest.Word(m[1], below); near != "" {
				return fmt.Sprintf("unknown command %q; did you mean %q?", m[1], m[2]+" "+near)
			}
			return fmt.Sprintf("%s: unknown command %q; must be %s", m[2], m[1], strings.Join(below, ", "))
		}
		return fmt.Sprintf("unknown argument %q; the command must be %q", m[1], m[2])
	}
	if m := flagValue.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("--%s %s: must be %s", m[2], m[1], kindOf(cmd.Flags().Lookup(m[2])))
	}
	return text
}

// ofLimit is what was meant by the name of a limit where a command takes none: its flag, or
// the commands below it that are about a limit. Empty where there are none.
func ofLimit(cmd *cobra.Command, arg string) string {
	if !strings.Contains(arg, "/") {
		return ""
	}
	if cmd.Flags().Lookup("limit") != nil {
		return strconv.Quote(cmd.CommandPath() + " --limit " + arg)
	}
	var ways []string
	for _, sub := range cmd.Commands() {
		if name, after, _ := strings.Cut(brackets.Replace(sub.Use), " "); limitArgument.MatchString(after) {
			ways = append(ways, strconv.Quote(cmd.CommandPath()+" "+name+" "+limitArgument.ReplaceAllLiteralString(after, arg)))
		}
	}
	return strings.Join(ways, " or ")
}

// subcommandsOf are the names of the commands below one.
func subcommandsOf(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// elsewhere are the commands, of whatever group, that have a name, with or without its
// hyphens: the first few.
func elsewhere(root *cobra.Command, name string) string {
	const most = 3
	var paths []string
	plain := func(s string) string { return strings.ReplaceAll(s, "-", "") }
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		if c.HasParent() && (plain(c.Name()) == plain(name) || c.HasAlias(name)) && c.IsAvailableCommand() {
			paths = append(paths, strconv.Quote(c.CommandPath()))
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(root)
	return strings.Join(paths[:min(len(paths), most)], " or ")
}

// ownFlags names the flags of a command that has few.
func ownFlags(cmd *cobra.Command) string {
	const most = 9
	var names []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) == 0 || len(names) > most {
		return ""
	}
	return fmt.Sprintf("; %s has %s", cmd.CommandPath(), strings.Join(names, ", "))
}

// kindOf is what the values of a flag are.
func kindOf(f *pflag.Flag) string {
	if f == nil {
		return "of another kind"
	}
	switch kind := f.Value.Type(); {
	case kind == "duration":
		return "a duration with its unit, such as 500ms or 1h30m"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number, 0 or more"
	}
	return "a whole number"
}

func arguments(n string) string {
	switch n {
	case "0":
		return "no arguments"
	case "1":
		return "1 argument"
	}
	return n + " arguments"
}

// flagsOf are the names of a command's flags.
func flagsOf(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// Group is a command that only has others below it.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		RunE: func(*cobra.Command, []string) error {
			return exit.Usagef("%s: say what to do: %s", use, strings.Join(names, ", "))
		},
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("%s: unknown command %q; did you mean %s?", use, args[0], near[0])
		}
		if others := elsewhere(cmd.Root(), args[0]); others != "" {
			return fmt.Errorf("%s: unknown command %q; did you mean %s?", use, args[0], others)
		}
		if right := ofLimit(cmd, args[0]); right != "" {
			return fmt.Errorf("%s: unknown command %q; did you mean %s?", use, args[0], right)
		}
		return fmt.Errorf("%s: unknown command %q; must be %s", use, args[0], strings.Join(names, ", "))
	}
	// A command that there is not is told before a flag that it would have.
	cmd.FParseErrWhitelist.UnknownFlags = true
	cmd.AddCommand(commands...)
	return cmd
}
