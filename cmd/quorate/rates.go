package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// ratesOptions are the flags of "rates" and "keys top".
type ratesOptions struct {
	targets
	output, limit, by, prefix string

	top int32
}

func (r *ratesOptions) addFlags(cmd *cobra.Command) {
	r.targets.addFlags(cmd)
	cmd.Flags().Int32Var(&r.top, "top", api.DefaultTop, fmt.Sprintf("how many keys, 1 to %d", api.MaxTop))
	_, orders := api.EnumOf(quoratev1.RateOrder(0).Descriptor(), "")
	cmd.Flags().StringVar(&r.by, "by", "demand", "what is first: the most of "+strings.Join(orders, ", ")+" (of that the least)")
	if err := cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
	cmd.Flags().StringVar(&r.prefix, "prefix", "", "only keys that begin with this")
	outputFlag(cmd, &r.output, "table", "csv", "json")
}

func newRatesCommand() *cobra.Command {
	var r ratesOptions
	cmd := &cobra.Command{
		Use:   "rates",
		Short: "Print the keys with the highest demand, or the most of something else",
		Long: `Print the keys with the highest demand, over the whole cluster, as the leaders
of their ranges report them. RATE and DEMAND are tokens per second over the last
few seconds, USED is the demand as a part of what the rule refills; the other
columns count tokens since the leader of the key's range first saw the key.`,
		Example: `  quorate rates --top 5
  quorate rates --by refusal_rate --prefix acme/
  quorate rates --by utilisation --top 1000 -o csv > used.csv
  quorate rates --limit web/per_client -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	r.addFlags(cmd)
	cmd.Flags().StringVar(&r.limit, "limit", "", "only this namespace, or namespace/limit")
	return cmd
}

func (r *ratesOptions) run(cmd *cobra.Command) error {
	if r.top < 1 || r.top > api.MaxTop {
		return usagef("--top %d: must be 1 to %d", r.top, api.MaxTop)
	}
	order, orders := api.EnumOf(quoratev1.RateOrder(0).Descriptor(), r.by)
	if order == 0 {
		return usagef("--by %q: must be one of %s", r.by, strings.Join(orders, ", "))
	}
	req := &quoratev1.TopRatesRequest{Top: r.top, Order: quoratev1.RateOrder(order), KeyPrefix: r.prefix}
	req.Namespace, req.Limit, _ = strings.Cut(r.limit, "/")
	var res *quoratev1.TopRatesResponse
	err := r.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		res, err = quoratev1.NewRateServiceClient(conn).TopRates(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	if res.RangesCovered < res.RangesTotal {
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: incomplete: %d of %d ranges answered\n", res.RangesCovered, res.RangesTotal)
	}
	if r.output == "json" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", api.FormatJSON(res))
		return err
	}
	return printRates(cmd.OutOrStdout(), res, r.output == "csv")
}

func printRates(w io.Writer, res *quoratev1.TopRatesResponse, csv bool) error {
	if len(res.Keys) == 0 && !csv {
		_, err := fmt.Fprintln(w, "no traffic")
		return err
	}
	tbl := newTable("LIMIT", "KEY", "RULE", "RATE", "DEMAND", "USED", "ATTEMPTED", "ADMITTED", "REFUSED", "REMAINING", "NODES", "RANGE", "LEADER")
	for _, k := range res.Keys {
		tbl.row(k.Namespace+"/"+k.Limit, keyCell(k.Key, csv), ruleText(k.Rule)+" "+word(k.Rule.GetCeiling()),
			fmt.Sprintf("%.1f", k.Rate), fmt.Sprintf("%.1f", k.Demand), usedCell(k.Utilisation, csv), num(k.Attempted), num(k.Admitted), num(k.Refused),
			num(k.Remaining), num(k.Members), num(k.Range), orDash(k.Leader))
	}
	if csv {
		return tbl.writeCSV(w)
	}
	return tbl.write(w)
}

// usedCell is a part as a table shows it, or as a program reads it.
func usedCell(part float64, plain bool) string {
	if plain {
		return strconv.FormatFloat(part, 'f', 4, 64)
	}
	return fmt.Sprintf("%.0f%%", 100*part)
}

// keyCell is a key as a table shows it, or whole.
func keyCell(key string, whole bool) string {
	if whole {
		return key
	}
	return show(key)
}
