package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/checks"
	"github.com/quorate/quorate/internal/cli/cluster"
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

// New returns the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "quorate",
		Short: "A rate-limit cluster that decides locally on every node",
		Long: `Quorate is a rate-limit and quota cluster. Every node decides from its own
memory whether a request may pass; behind the requests, the nodes share out what
is left of each limit through leaders elected by Raft.`,
		Example: `  quorate dev
  quorate limits apply limits.yaml
  quorate allow web/per_client 203.0.113.7
  quorate events -f
  quorate status
  quorate load --limit api/per_tenant --rate 2000 --duration 10s`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		server.NewDevCommand(),
		server.NewServeCommand(),
		server.NewInitCommand(),
		limits.NewCommand(),
		limits.NewOverridesCommand(),
		accounts.NewAccountsCommand(),
		accounts.NewPoliciesCommand(),
		security.NewRolesCommand(),
		security.NewTokensCommand(),
		security.NewWhoAmICommand(),
		security.NewAuditCommand(),
		checks.NewKeysCommand(),
		checks.NewEventsCommand(),
		limits.NewConvertCommand(),
		checks.NewAllowCommand(),
		checks.NewReserveCommand(),
		checks.NewSettleCommand(),
		checks.NewAcquireCommand(),
		checks.NewReleaseCommand(),
		cluster.NewStatusCommand("quorate status"),
		cluster.NewClusterCommand(),
		cluster.NewJoinTokenCommand(), cluster.NewTokenCommand(),
		security.NewCACommand(),
		security.NewCertCommand(),
		checks.NewRatesCommand(),
		planning.NewHistoryCommand(),
		planning.NewPlanCommand(),
		top.NewCommand(),
		cluster.NewBackupCommand(),
		server.NewRestoreCommand(),
		load.NewReplayCommand(),
		simulate.NewCommand(),
		load.NewLoadCommand(),
		build.NewVersionCommand(),
		exit.NewTopic(),
	)
	render.ColourFlag(root)
	completeNames(root)
	return root
}
