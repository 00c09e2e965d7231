package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// ratesOptions are the flags of "rates" and "keys top".
type ratesOptions struct {
	targets
	output, limit string
	top           int32
}

func (r *ratesOptions) addFlags(cmd *cobra.Command) {
	r.targets.addFlags(cmd)
	cmd.Flags().Int32Var(&r.top, "top", api.DefaultTop, fmt.Sprintf("how many keys, 1 to %d", api.MaxTop))
	outputFlag(cmd, &r.output, "table", "json")
}

func newRatesCommand() *cobra.Command {
	var r ratesOptions
	cmd := &cobra.Command{
		Use:   "rates",
		Short: "Print the keys with the highest demand, as the range leaders report them",
		Long: `Print the keys with the highest demand, over the whole cluster. RATE and DEMAND
are tokens per second over the last few seconds; the other columns count tokens
since the leader of the key's range first saw the key.`,
		Example: `  quorate rates --top 5
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
	req := &quoratev1.TopRatesRequest{Top: r.top}
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
	return printRates(cmd.OutOrStdout(), res)
}

func printRates(w io.Writer, res *quoratev1.TopRatesResponse) error {
	if len(res.Keys) == 0 {
		_, err := fmt.Fprintln(w, "no traffic")
		return err
	}
	tbl := newTable("LIMIT", "KEY", "RULE", "RATE", "DEMAND", "ATTEMPTED", "ADMITTED", "REFUSED", "REMAINING", "NODES", "RANGE", "LEADER")
	for _, k := range res.Keys {
		tbl.row(k.Namespace+"/"+k.Limit, show(k.Key), ruleText(k.Rule)+" "+word(k.Rule.GetCeiling()),
			fmt.Sprintf("%.1f", k.Rate), fmt.Sprintf("%.1f", k.Demand), num(k.Attempted), num(k.Admitted), num(k.Refused),
			num(k.Remaining), num(k.Members), num(k.Range), orDash(k.Leader))
	}
	return tbl.write(w)
}
