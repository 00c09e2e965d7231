package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/checks"
	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/contexts"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/load"
	"github.com/quorate/quorate/internal/cli/planning"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/security"
	"github.com/quorate/quorate/internal/cli/server"
	"github.com/quorate/quorate/internal/cli/simulate"
	"github.com/quorate/quorate/internal/cli/top"
	"github.com/quorate/quorate/internal/cli/usage"
)

// Run runs the program with these arguments, and returns its exit code.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := New()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultCompletionCmd(args...) // it captures the current output
	usage.Explain(root)
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exit.OK
	}
	if exit.Silent(err) {
		return exit.CodeOf(err)
	}
	fmt.Fprintln(stderr, "quorate:", usage.Text(root, err))
	if !started || exit.WrongUsage(err) {
		fmt.Fprintf(stderr, "Run \"%s --help\" for usage.\n", cmd.CommandPath())
		return exit.Usage
	}
	return exit.CodeOf(err)
}

// helpWidth is the width in columns of help texts.
const helpWidth = 80

// New returns the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "quorate",
		Short: "A rate-limit cluster that decides locally on every node",
		Long: `Quorate is a rate-limit and quota cluster. Every node decides from its own
memory whether a request may pass. In the background, leaders elected by Raft
divide each limit among the nodes.`,
		Example: `  quorate dev
  quorate limits apply limits.yaml
  quorate allow web/per_client 203.0.113.7
  quorate events -f
  quorate status
  quorate load --limit api/per_tenant --rate 2000 --duration 10s`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	addGroups(root)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	render.ColourFlag(root)
	completeNames(root)
	return root
}

// addGroups adds all commands to the root, in the groups that its help shows.
func addGroups(root *cobra.Command) {
	addGroup(root, "run", "Run a cluster:",
		server.NewDevCommand(),
		server.NewInitCommand(),
		server.NewServeCommand(),
		cluster.NewClusterCommand(),
		cluster.NewJoinTokenCommand(), cluster.NewTokenCommand(),
		cluster.NewBackupCommand(),
		server.NewRestoreCommand(),
	)
	addGroup(root, "limits", "Limits:",
		limits.NewCommand(),
		limits.NewOverridesCommand(),
		limits.NewConvertCommand(),
		checks.NewKeysCommand(),
		checks.NewAllowCommand(),
		checks.NewReserveCommand(),
		checks.NewSettleCommand(),
		checks.NewAcquireCommand(),
		checks.NewReleaseCommand(),
	)
	addGroup(root, "look", "Monitoring:",
		cluster.NewStatusCommand("quorate status"),
		cluster.NewNodesCommand(), cluster.NewRangesCommand(),
		top.NewCommand(),
		checks.NewRatesCommand(),
		checks.NewEventsCommand(),
	)
	addGroup(root, "quotas", "Durable quotas:",
		accounts.NewAccountsCommand(),
		accounts.NewPoliciesCommand(),
	)
	addGroup(root, "plan", "Plan:",
		planning.NewHistoryCommand(),
		planning.NewPlanCommand(),
		simulate.NewCommand(),
		load.NewLoadCommand(),
		load.NewReplayCommand(),
	)
	addGroup(root, "security", "Security:",
		security.NewCACommand(),
		security.NewCertCommand(),
		security.NewRolesCommand(),
		security.NewTokensCommand(),
		security.NewWhoAmICommand(),
		security.NewAuditCommand(),
	)
	addGroup(root, "other", "Other:",
		contexts.NewCommand(),
		build.NewVersionCommand(),
		exit.NewTopic(),
	)
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
}

func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	root.AddCommand(commands...)
}
