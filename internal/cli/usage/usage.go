package usage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/suggest"
)

// Group returns a command that only groups subcommands.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long}
	cmd.AddCommand(commands...)
	group(cmd, commands)
	return cmd
}

// group makes cmd report that it needs one of its subcommands, or an unknown one.
func group(cmd *cobra.Command, commands []*cobra.Command) {
	use := cmd.Name()
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		return exit.Usagef("%s: give a command: %s", use, strings.Join(names, ", "))
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		right := suggestion(cmd, args[0])
		if right == "" {
			right = commandsNamed(cmd.Root(), args[0])
		}
		if right == "" {
			right = withLimit(cmd, args[0])
		}
		if right == "" {
			return exit.Usagef("%s: unknown command %q; must be %s", use, args[0], strings.Join(names, ", "))
		}
		return exit.Usagef("%s: unknown command %q; did you mean %s?", use, args[0], right)
	}
	// Report an unknown command before an unknown flag.
	cmd.FParseErrWhitelist.UnknownFlags = true
}

// Explain makes all commands answer an invalid command line with what would be right.
func Explain(root *cobra.Command) {
	root.SetFlagErrorFunc(wrongFlag)
	explainArguments(root)
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			group(cmd, cmd.Commands())
		case "help":
			help := cmd.Run
			cmd.Run, cmd.RunE = nil, func(cmd *cobra.Command, args []string) error {
				if _, _, err := root.Find(args); err != nil {
					return exit.Usagef("%w", err)
				}
				help(cmd, args)
				return nil
			}
		}
	}
}

func explainArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		explainArguments(sub)
	}
	allowed := cmd.Args
	if allowed == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := allowed(cmd, args)
		switch {
		case err == nil || exit.WrongUsage(err):
			return err
		case allowed(cmd, nil) == nil && allowed(cmd, args[:1]) != nil:
			return needlessArgument(cmd, args[0])
		}
		got := "no arguments"
		switch len(args) {
		case 0:
		case 1:
			got = "1 argument"
		default:
			got = fmt.Sprintf("%d arguments", len(args))
		}
		return exit.Usagef("the command must be \"%s\"; got %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), got)
	}
}

// needlessArgument returns the error for an argument to a command that takes none.
func needlessArgument(cmd *cobra.Command, arg string) error {
	if right := withLimit(cmd, arg); right != "" {
		return exit.Usagef("unknown argument %q; did you mean %s?", arg, right)
	}
	if !cmd.HasSubCommands() {
		return exit.Usagef("unknown argument %q; the command must be %q", arg, cmd.CommandPath())
	}
	if near := suggestion(cmd, arg); near != "" {
		return exit.Usagef("unknown command %q; did you mean %q?", arg, cmd.CommandPath()+" "+near)
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return exit.Usagef("%s: unknown command %q; must be %s", cmd.CommandPath(), arg, strings.Join(names, ", "))
}

// suggestion returns the name of the subcommand of cmd that was most likely meant, or "".
func suggestion(cmd *cobra.Command, typed string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	return suggest.Word(typed, names)
}

var (
	brackets      = strings.NewReplacer("[", "", "]", "")
	limitArgument = regexp.MustCompile(`(NAMESPACE/)?LIMIT`) // in the usage of a command
)

// withLimit suggests what was meant by a limit's name where the command takes none: its flag, or
// its subcommands for a limit, or the command of another group with its name, such as "keys top" for
// "top". It returns an empty string if it finds nothing.
func withLimit(cmd *cobra.Command, arg string) string {
	if !strings.Contains(arg, "/") {
		return ""
	}
	if cmd.Flags().Lookup("limit") != nil {
		return strconv.Quote(cmd.CommandPath() + " --limit " + arg)
	}
	meant := cmd.Commands()
	if len(meant) == 0 {
		for _, group := range cmd.Root().Commands() {
			meant = append(meant, slices.DeleteFunc(slices.Clone(group.Commands()), func(sub *cobra.Command) bool { return sub.Name() != cmd.Name() })...)
		}
	}
	var ways []string
	for _, sub := range meant {
		if _, after, _ := strings.Cut(brackets.Replace(sub.Use), " "); limitArgument.MatchString(after) {
			ways = append(ways, strconv.Quote(sub.CommandPath()+" "+limitArgument.ReplaceAllLiteralString(after, arg)))
		}
	}
	return strings.Join(ways, " or ")
}

// commandsNamed lists the first few commands of any group with a name, compared without hyphens.
func commandsNamed(root *cobra.Command, name string) string {
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

// rootCommand matches the library's error for an unknown command below the root.
var rootCommand = regexp.MustCompile(`^unknown command "(.+)" for "quorate"`)

// Text returns the text of an error. For an unknown command it adds which one was most likely meant.
func Text(root *cobra.Command, err error) string {
	m := rootCommand.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	right := commandsNamed(root, m[1])
	if near := suggestion(root, m[1]); right == "" && near != "" {
		right = strconv.Quote(root.Name() + " " + near)
	}
	if right == "" {
		return fmt.Sprintf("unknown command %q", m[1])
	}
	return fmt.Sprintf("unknown command %q; did you mean %s?", m[1], right)
}

// wrongFlag explains an unknown flag by the one that was meant or by the valid ones, and an invalid
// value by what would be valid.
func wrongFlag(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var all, own []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
		if near := suggest.Word(unknown.GetSpecifiedName(), all); near != "" {
			return exit.Usagef("%w; did you mean --%s?", err, near)
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				own = append(own, "--"+f.Name)
			}
		})
		if len(own) > 0 && len(own) <= 11 { // longer lists help nobody
			return exit.Usagef("%w; %s has %s", err, cmd.CommandPath(), strings.Join(own, ", "))
		}
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := wrong.GetFlag().Value.Type()
		_, number := errors.AsType[*strconv.NumError](err) // or a boolean
		must := "a whole number"
		switch {
		case kind == "duration" && strings.HasPrefix(wrong.Unwrap().Error(), "time: "):
			must = "a duration with its unit, such as 500ms or 1h30m"
		case !number:
			return exit.Usagef("--%s %q: %w", wrong.GetFlag().Name, wrong.GetValue(), wrong.Unwrap())
		case kind == "bool":
			must = "true or false"
		case strings.HasPrefix(kind, "float"):
			must = "a number"
		case strings.HasPrefix(kind, "uint"):
			must = "a whole number, 0 or more"
		}
		return exit.Usagef("--%s %q: must be %s", wrong.GetFlag().Name, wrong.GetValue(), must)
	}
	return err
}
