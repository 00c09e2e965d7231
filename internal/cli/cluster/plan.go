package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
)

// NewClusterCommand returns "quorate cluster".
func NewClusterCommand() *cobra.Command {
	return usage.Group("cluster", "Show and change the nodes of the cluster",
		`Show the members of the cluster and their replicas, and change them: drain
nodes, let them leave, remove dead ones, transfer leaderships. A change is
committed when the command answers; the moves that follow continue by
themselves, through crashes and elections. To add a node see "quorate join-token
create --help".`,
		NewStatusCommand("quorate cluster status"), newClusterPlanCommand(), newClusterDrainCommand(), newClusterActivateCommand(),
		newClusterLeaveCommand(), newClusterRemoveCommand(), newClusterTransferCommand())
}

// CallCluster calls ClusterService with the caller's identity.
func CallCluster[Request, Response any](ctx context.Context, t *remote.Targets, who accounts.Identity, method remote.Method[quoratev1.ClusterServiceClient, Request, Response], req *Request) (*Response, error) {
	ctx, err := who.Named(ctx)
	if err != nil {
		return nil, err
	}
	return remote.Invoke(ctx, t, quoratev1.NewClusterServiceClient, method, req)
}

func newClusterPlanCommand() *cobra.Command {
	var t remote.Targets
	var without []string
	var output render.Output
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print which replicas will move, and in which steps",
		Long: `Print the groups whose voters have to change: the current voters, the wanted
ones, and the remaining steps. The first step is in progress, or says what it
waits for. --without changes nothing: it shows what would happen if these nodes
left.`,
		Example: `  quorate cluster plan
  quorate cluster plan --without n2
  quorate cluster plan --without n2,n3 -o json | jq ".groups | length"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := CallCluster(cmd.Context(), &t, accounts.Identity{}, quoratev1.ClusterServiceClient.GetPlan, &quoratev1.GetPlanRequest{Without: without})
			if err != nil {
				return err
			}
			return output.Print(cmd, res, func(p *render.Page) { printPlan(p, res) })
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().StringSliceVar(&without, "without", nil, "as if these `nodes` had left")
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func printPlan(p *render.Page, res *quoratev1.GetPlanResponse) {
	t := render.NewTable("GROUP", "VOTERS", "WANTED", "STEPS")
	for _, g := range res.Groups {
		steps := g.Steps
		if len(steps) == 0 {
			steps = []string{""}
		}
		t.Row(render.Name(g.Group), render.Names(g.Voters), render.Names(g.Wanted), phrase.Printable(steps[0]))
		for _, s := range steps[1:] {
			t.Row("", "", "", phrase.Printable(s))
		}
	}
	p.TableOr(t, fmt.Sprintf("nothing to do: all %d groups are in place", res.Total))
	if len(res.Groups) > 0 {
		fmt.Fprintf(p, "\n%d of %d groups will change\n", len(res.Groups), res.Total)
	}
}
