package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
)

// run is the whole program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if exit, ok := errors.AsType[*exitError](err); ok && exit.err == nil {
		return exit.code
	}
	fmt.Fprintln(stderr, "quorate:", plainUsage(cmd, err))
	if !started || errors.As(err, new(usageError)) {
		fmt.Fprintf(stderr, "Run \"%s --help\" for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return codeOf(err)
}

func newRootCommand() *cobra.Command {
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
		newDevCommand(),
		newServeCommand(),
		newInitCommand(),
		newLimitsCommand(),
		newOverridesCommand(),
		newAccountsCommand(),
		newPoliciesCommand(),
		newRolesCommand(),
		newTokensCommand(),
		newWhoAmICommand(),
		newAuditCommand(),
		newKeysCommand(),
		newEventsCommand(),
		newConvertCommand(),
		newAllowCommand(),
		newReserveCommand(),
		newSettleCommand(),
		newAcquireCommand(),
		newReleaseCommand(),
		newStatusCommand("quorate status"),
		newClusterCommand(),
		newJoinTokenCommand(), newTokenCommand(),
		newCACommand(),
		newCertCommand(),
		newRatesCommand(),
		newHistoryCommand(),
		newPlanCommand(),
		newTopCommand(),
		newBackupCommand(),
		newRestoreCommand(),
		newReplayCommand(),
		newSimCommand(),
		newLoadCommand(),
		newVersionCommand(),
		newExitCodesTopic(),
	)
	colourFlag(root)
	completeNames(root)
	return root
}

// printResult writes an answer: as JSON, or as a text of one line.
func printResult(cmd *cobra.Command, output string, res proto.Message, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if output == "json" {
		text = string(api.FormatJSON(res))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
