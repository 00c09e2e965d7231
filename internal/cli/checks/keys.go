package checks

import (
	"fmt"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
)

// NewKeysCommand returns "quorate keys".
func NewKeysCommand() *cobra.Command {
	return usage.Group("keys", "Show and reset single keys",
		`Show the state of a key at its leaders, explain why it is refused, reset it, and
list the keys with the highest demand.`,
		newKeysGetCommand(), newKeysExplainCommand(), newKeysResetCommand(), newKeysTopCommand())
}

func newKeysGetCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:   "get NAMESPACE/LIMIT KEY",
		Short: "Print the state of a key at its leaders",
		Long: `Print the state of a key at the leaders of its ranges: one line for each counter
(the limit, its further tiers, its floor, its parents), and its override if it
has one. "*" is the key of limits with one bucket for all callers.`,
		Example: `  quorate keys get web/per_client 203.0.113.7
  quorate keys get api/per_tenant acme -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := limits.ParseCounter(args[0], args[1])
			if err != nil {
				return err
			}
			res, err := remote.Invoke(cmd.Context(), &t, quoratev1.NewKeyServiceClient, quoratev1.KeyServiceClient.GetKey, &quoratev1.GetKeyRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
			if err != nil {
				return err
			}
			return output.Print(cmd, res, func(p *render.Page) { printKey(p, res) })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func printKey(p *render.Page, res *quoratev1.GetKeyResponse) {
	tbl := render.NewTable("COUNTER", "KEY", "RULE", "REMAINING", "RATE", "ADMITTED", "REFUSED", needless, needlessAtMost, "NODES", "LEADER")
	hideNeedless(tbl, res.Counters)
	for _, k := range res.Counters {
		least, most := needlessCells(k)
		tbl.Row(k.Namespace+"/"+k.Limit, render.Name(k.Key), limits.RuleText(k.Rule)+shadowMark(k.Rule), k.Remaining, perSecond(k.Rate),
			k.Admitted, k.Refused, least, most, k.Members, render.NameOrNothing(k.Leader))
	}
	p.Table(tbl)
	if res.Override != nil {
		fmt.Fprintf(p, "override: %s\n", limits.OverrideText(res.Override))
	}
}

func newKeysResetCommand() *cobra.Command {
	var t remote.Targets
	var yes bool
	var output render.Output
	cmd := &cobra.Command{
		Use:   "reset NAMESPACE/LIMIT KEY",
		Short: "Reset a key: full again, without debt",
		Long: `Reset a key: all its tiers are full again, debt and reservations are forgotten.
Parents do not change. The command asks first.`,
		Example: `  quorate keys reset web/login alice
  quorate keys reset web/login alice --yes`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := limits.ParseCounter(args[0], args[1])
			if err != nil {
				return err
			}
			if err := render.Confirm(cmd, yes, fmt.Sprintf("Reset %s of %v: full again, all debt forgotten?", phrase.Show(k.Key), k.LimitName)); err != nil {
				return err
			}
			res, err := remote.Invoke(cmd.Context(), &t, quoratev1.NewKeyServiceClient, quoratev1.KeyServiceClient.ResetKey, &quoratev1.ResetKeyRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
			if err != nil {
				return err
			}
			return output.Printf(cmd, res, "%v %s reset", k.LimitName, phrase.Show(k.Key))
		},
	}
	t.AddFlags(cmd)
	render.YesFlag(cmd, &yes)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newKeysTopCommand() *cobra.Command {
	var r ratesOptions
	cmd := &cobra.Command{
		Use: "top [NAMESPACE[/LIMIT]]", Aliases: []string{"list"},
		Short: "Print the keys with the highest demand",
		Long: `Print the keys with the highest demand, over the whole cluster, as "quorate
rates" does. "list" is the same command.

` + ratesColumns,
		Example: `  quorate keys top
  quorate keys top web/per_client --top 5
  quorate keys top api -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				r.limit = args[0]
			}
			return r.run(cmd)
		},
	}
	r.addFlags(cmd)
	return cmd
}
