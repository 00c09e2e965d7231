package cluster

import (
	"fmt"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

func newClusterTransferCommand() *cobra.Command {
	var t remote.Targets
	var who accounts.Identity
	var req quoratev1.TransferLeadershipRequest
	var ranges []uint
	var output render.Output
	cmd := &cobra.Command{
		Use:   "transfer",
		Short: "Transfer the leadership of ranges to other nodes",
		Long: `Transfer the leadership of ranges to another of their voters: of all ranges that
--from leads, or of those that --range names; with both, only if --from leads
them. The transfer is temporary: the cluster soon returns leaderships to the
preferred nodes. To keep a node free of them, drain it. Exit code 1 means that
some could not be transferred.`,
		Example: `  quorate cluster transfer --from n1
  quorate cluster transfer --from n1 --to n2
  quorate cluster transfer --range 7,8 --to n3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, r := range ranges {
				req.Ranges = append(req.Ranges, uint32(min(r, 1<<31)))
			}
			if req.From == "" && len(ranges) == 0 {
				return exit.Usagef("transfer: give --from, the node whose leaderships to transfer, or --range")
			}
			res, err := CallCluster(cmd.Context(), &t, who, quoratev1.ClusterServiceClient.TransferLeadership, &req)
			if err != nil {
				return err
			}
			if err := output.Printf(cmd, res, "%s handed over", phrase.Plural(int(res.Moved), "range")); err != nil || len(res.Faults) == 0 {
				return err
			}
			for _, f := range res.Faults {
				fmt.Fprintln(cmd.ErrOrStderr(), phrase.Printable(f))
			}
			return exit.AnswerNo()
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	cmd.Flags().StringVar(&req.From, "from", "", "the `node` whose ranges are transferred")
	cmd.Flags().StringVar(&req.To, "to", "", "`node` that becomes the leader (default: any other of their voters)")
	cmd.Flags().UintSliceVar(&ranges, "range", nil, "the `ranges`, by number (default: all that --from leads)")
	cmd.Flags().Lookup("range").DefValue = ""
	output.AddFlags(cmd, "text", "json")
	return cmd
}
