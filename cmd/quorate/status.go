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

func newStatusCommand() *cobra.Command {
	var t targets
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print nodes, ranges and leaders as one node sees them",
		Long: `Print the state of the cluster as the first node that answers sees it. The
command succeeds whether or not the cluster is ready; see "ready" in the output.`,
		Example: `  quorate status
  quorate status -o json | jq .ready
  quorate status --addr 127.0.0.1:7422`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := getStatus(cmd.Context(), &t)
			if err != nil {
				return err
			}
			if output == "json" {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", api.FormatJSON(st))
				return err
			}
			return printStatus(cmd.OutOrStdout(), st)
		},
	}
	t.addFlags(cmd)
	outputFlag(cmd, &output, "table", "json")
	return cmd
}

func getStatus(ctx context.Context, t *targets) (*quoratev1.GetStatusResponse, error) {
	var st *quoratev1.GetStatusResponse
	err := t.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		st, err = quoratev1.NewClusterServiceClient(conn).GetStatus(ctx, &quoratev1.GetStatusRequest{})
		return err
	})
	return st, err
}

func printStatus(w io.Writer, st *quoratev1.GetStatusResponse) error {
	ready := "yes"
	if !st.Ready {
		ready = "no: " + st.Reason
	}
	fmt.Fprintf(w, "cluster  %s, as node %s sees it (version %s)\nready    %s\nmeta     leader %s, limits version %d\n\n",
		orDash(st.Cluster), orDash(st.Node), orDash(st.Version), ready, orDash(st.MetaLeader), st.LimitsVersion)
	nodes := newTable("NODE", "PEER ADDRESS", "CONNECTED", "LEADS")
	for _, n := range st.Nodes {
		nodes.row(n.Id, orDash(n.PeerAddress), yesNo(n.Connected), num(n.Leads))
	}
	if err := nodes.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	ranges := newTable("RANGE", "LEADER", "TERM", "REPLICAS")
	for _, r := range st.Ranges {
		ranges.row(num(r.Id), orDash(r.Leader), num(r.Term), strings.Join(r.Replicas, " "))
	}
	return ranges.write(w)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return show(s)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
