package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

func newKeysCommand() *cobra.Command {
	return group("keys", "Show and reset single keys",
		`Show what the leaders know of a key, say why it is refused, make it as good as
new, and list the keys with the highest demand.`,
		newKeysGetCommand(), newKeysExplainCommand(), newKeysResetCommand(), newKeysTopCommand())
}

// parseKey reads the two arguments that name a bucket.
func parseKey(limit, key string) (quota.Key, error) {
	n, err := parseName(limit)
	if err != nil {
		return quota.Key{}, err
	}
	if len(key) > quota.MaxKeyLen {
		return quota.Key{}, usagef("key: is %d bytes; at most %d", len(key), quota.MaxKeyLen)
	}
	if key == "" {
		key = quota.WholeKey
	}
	return quota.Key{LimitName: n, Key: key}, nil
}

func newKeysGetCommand() *cobra.Command {
	var t targets
	var output string
	cmd := &cobra.Command{
		Use:   "get NAMESPACE/LIMIT KEY",
		Short: "Print what the leaders know of a key",
		Long: `Print what the leaders of its ranges know of a key: one line for each counter
(the limit, its further tiers, its floor, its parents), and its override if it
has one. "*" is the key of limits that have one bucket for everybody.`,
		Example: `  quorate keys get web/per_client 203.0.113.7
  quorate keys get api/per_tenant acme -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := parseKey(args[0], args[1])
			if err != nil {
				return err
			}
			var res *quoratev1.GetKeyResponse
			err = t.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
				res, err = quoratev1.NewKeyServiceClient(conn).GetKey(ctx, &quoratev1.GetKeyRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
				return err
			})
			if err != nil {
				return err
			}
			if output == "json" {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", api.FormatJSON(res))
				return err
			}
			return printKey(cmd.OutOrStdout(), res)
		},
	}
	t.addFlags(cmd)
	outputFlag(cmd, &output, "table", "json")
	return cmd
}

func printKey(w io.Writer, res *quoratev1.GetKeyResponse) error {
	titles, needless := needlessColumns(w, res.Counters)
	tbl := newTable(slices.Concat([]string{"COUNTER", "KEY", "RULE", "REMAINING", "RATE", "ADMITTED", "REFUSED"}, titles, []string{"NODES", "LEADER"})...)
	for _, k := range res.Counters {
		row := []string{
			k.Namespace + "/" + k.Limit, cell(k.Key), ruleText(k.Rule) + shadowMark(k.Rule), num(k.Remaining), perSecond(k.Rate),
			num(k.Admitted), num(k.Refused),
		}
		tbl.row(append(append(row, needless(k)...), num(k.Members), orNothing(k.Leader))...)
	}
	if err := tbl.write(w); err != nil || res.Override == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "override: %s\n", overrideText(res.Override))
	return err
}

// ruleText is a limit in a few words: 10/s burst 20.
func ruleText(l *quoratev1.Limit) string {
	switch {
	case l.GetClass() == quoratev1.Class_CLASS_UNLIMITED || l.GetClass() == quoratev1.Class_CLASS_BANNED:
		return word(l.Class)
	case l.GetKind() == quoratev1.Kind_KIND_CONCURRENCY:
		return fmt.Sprintf("%d in flight", l.InFlight)
	case l.GetKind() > quoratev1.Kind_KIND_BUCKET:
		return rateText(&quoratev1.Tier{Kind: l.Kind, Rate: l.Rate, Burst: l.Burst, Calendar: l.Calendar, Timezone: l.Timezone}) + " " + word(l.Kind)
	}
	return fmt.Sprintf("%s burst %d", l.GetRate(), l.GetBurst())
}

func newKeysResetCommand() *cobra.Command {
	var t targets
	var yes bool
	var output string
	cmd := &cobra.Command{
		Use:   "reset NAMESPACE/LIMIT KEY",
		Short: "Make a key as good as new",
		Long: `Make a key as good as new: all its tiers are full again, debt and reservations
are forgotten. Parents stay as they are. The command asks first.`,
		Example: `  quorate keys reset web/login alice
  quorate keys reset web/login alice --yes`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := parseKey(args[0], args[1])
			if err != nil {
				return err
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Reset %s of %v: full again, all debt forgotten?", show(k.Key), k.LimitName)); err != nil {
				return err
			}
			err = t.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
				_, err := quoratev1.NewKeyServiceClient(conn).ResetKey(ctx, &quoratev1.ResetKeyRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
				return err
			})
			if err != nil {
				return err
			}
			return printResult(cmd, output, &quoratev1.ResetKeyResponse{}, "%v %s reset", k.LimitName, show(k.Key))
		},
	}
	t.addFlags(cmd)
	yesFlag(cmd, &yes)
	outputFlag(cmd, &output, "text", "json")
	return cmd
}

func newKeysTopCommand() *cobra.Command {
	var r ratesOptions
	cmd := &cobra.Command{
		Use:   "top [NAMESPACE[/LIMIT]]",
		Short: "Print the keys with the highest demand",
		Long: `Print the keys with the highest demand, over the whole cluster, as "quorate rates"
does. RATE and DEMAND are tokens per second over the last few seconds, USED is
the demand as a part of what the rule refills; the other columns count tokens
since the leader of the key's range first saw the key.`,
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

// overrideText is what an override changes, in a few words.
func overrideText(o *quoratev1.Override) string {
	s := ""
	add := func(name, value string) {
		if value != "" {
			s += name + value + " "
		}
	}
	switch o.Class {
	case quoratev1.Class_CLASS_UNLIMITED, quoratev1.Class_CLASS_BANNED:
		add("", word(o.Class))
	}
	add("rate ", o.Rate)
	if o.Burst != nil {
		add("burst ", num(*o.Burst))
	}
	if o.Scale > 0 {
		add("scale ", fmt.Sprintf("%gx", o.Scale))
	}
	if o.Expires != nil {
		add("until ", o.Expires.AsTime().UTC().Format(time.RFC3339))
	}
	return s[:max(len(s)-1, 0)]
}
