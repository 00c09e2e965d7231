package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

// nodeChange changes the desired state of a node.
type nodeChange struct {
	remote.Targets
	who    accounts.Identity
	output render.Output
	wait   bool
}

// addFlags adds the flags; what describes the condition to wait for.
func (o *nodeChange) addFlags(cmd *cobra.Command, what string) {
	o.Targets.AddFlags(cmd)
	o.who.AddFlags(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until "+what+" (default: on a terminal)")
	o.output.AddFlags(cmd, "text", "json")
}

func (o *nodeChange) waits(cmd *cobra.Command) bool {
	if cmd.Flags().Changed("wait") {
		return o.wait
	}
	return render.OnTerminal(cmd.ErrOrStderr())
}

// run makes the change and waits for w.
func (o *nodeChange) run(cmd *cobra.Command, req *quoratev1.ChangeNodeRequest, text func(*quoratev1.ChangeNodeResponse) string, w waiting) error {
	res, err := CallCluster(cmd.Context(), &o.Targets, o.who, quoratev1.ClusterServiceClient.ChangeNode, req)
	if err != nil {
		return err
	}
	if err := o.output.Printf(cmd, res, "%s", text(res)); err != nil {
		return err
	}
	if res.Warning != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: warning: %s\n", phrase.Printable(res.Warning))
	}
	if !o.waits(cmd) {
		return nil
	}
	return w.run(cmd, &o.Targets)
}

func newClusterDrainCommand() *cobra.Command {
	var o nodeChange
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move all leaderships off a node, before maintenance",
		Long: `Move all leaderships of a node to others. The node receives no new ones and no
further replicas. It keeps its replicas, keeps deciding, and can be restarted or
stopped for a while without further steps. "quorate cluster activate" ends it.`,
		Example: `  quorate cluster drain n2
  quorate cluster drain n2 --wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			return o.run(cmd, &quoratev1.ChangeNodeRequest{Node: id, Change: quoratev1.NodeChange_NODE_CHANGE_DRAIN}, func(*quoratev1.ChangeNodeResponse) string {
				return fmt.Sprintf("%s is draining: it keeps its replicas and hands over its leaderships", phrase.Show(id))
			}, waiting{node: id, what: "leaderships handed over", done: fmt.Sprintf("%s leads nothing", phrase.Show(id)), left: leadsLeft})
		},
	}
	o.addFlags(cmd, "it leads no range")
	return cmd
}

func newClusterActivateCommand() *cobra.Command {
	var o nodeChange
	cmd := &cobra.Command{
		Use:   "activate NODE",
		Short: "End a drain, or an unfinished leave",
		Long: `Return a node to service after "quorate cluster drain", or cancel "quorate
cluster leave" while the node is still a member. Replicas that have moved away
return as the placement requires.`,
		Example: `  quorate cluster activate n2`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			return o.run(cmd, &quoratev1.ChangeNodeRequest{Node: id, Change: quoratev1.NodeChange_NODE_CHANGE_ACTIVATE}, func(*quoratev1.ChangeNodeResponse) string {
				return fmt.Sprintf("%s is active", phrase.Show(id))
			}, waiting{node: id, what: "ranges settled", done: "every range is in place", left: unsettledRanges})
		},
	}
	o.addFlags(cmd, "all moves are done")
	return cmd
}

func newClusterLeaveCommand() *cobra.Command {
	var o nodeChange
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "leave [NODE]",
		Short: "Take a node out of the cluster, its replicas first",
		Long: `Take a node out of the cluster: its replicas move to others, one step at a time
and never with fewer voters than before; then its process ends by itself. Until
then "quorate cluster activate" keeps it. Without NODE it is the node at --addr.
To preview the moves, use "quorate cluster plan --without NODE". A node that
does not answer cannot leave: see "quorate cluster remove". The command is
refused if ranges would have fewer voters than now and than the setting
"replicas" asks for: join another node first, or use --force. On a terminal it
asks first.`,
		Example: `  quorate cluster leave n3
  quorate cluster leave --addr 10.0.0.3:7412 --yes --wait`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := o.nodeOf(cmd.Context(), args)
			if err != nil {
				return err
			}
			if !yes && render.OnTerminal(cmd.InOrStdin()) {
				if err := render.Confirm(cmd, yes, fmt.Sprintf("Let %s leave the cluster? Its replicas move to others, and its process ends.", phrase.Show(id))); err != nil {
					return err
				}
			}
			return o.run(cmd, &quoratev1.ChangeNodeRequest{Node: id, Change: quoratev1.NodeChange_NODE_CHANGE_LEAVE, Force: force}, leavesText(id), goes(id))
		},
	}
	o.addFlags(cmd, "the node has left")
	cmd.Flags().BoolVar(&force, "force", false, "even if ranges then have fewer voters than replicas asks for")
	render.YesFlag(cmd, &yes)
	return cmd
}

func leavesText(id string) func(*quoratev1.ChangeNodeResponse) string {
	return func(res *quoratev1.ChangeNodeResponse) string {
		return fmt.Sprintf("%s is leaving: %s to change", phrase.Show(id), phrase.Plural(int(res.Moves), "group"))
	}
}

func goes(id string) waiting {
	return waiting{
		node: id, what: "replicas moved", done: fmt.Sprintf("%s is out of the cluster", phrase.Show(id)), gone: true,
		left: func(_ *quoratev1.GetStatusResponse, n *quoratev1.NodeStatus) int { return int(n.Replicas) },
	}
}

// nodeOf returns the id of the named node or, without a name, of the only node at --addr.
func (o *nodeChange) nodeOf(ctx context.Context, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	if len(o.Addrs) != 1 {
		return "", exit.Usagef("leave: say which node, or give the address of one with --addr")
	}
	st, err := GetStatus(ctx, &o.Targets)
	if err != nil {
		return "", err
	}
	return st.Node, nil
}

func newClusterRemoveCommand() *cobra.Command {
	var o nodeChange
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a permanently dead node from the cluster",
		Long: `Remove a node that will not return, such as one whose machine or disk is lost.
The cluster does not wait for it; its replicas are rebuilt on other nodes from
the remaining ones. It is refused when no active node that answers would be
left, and for a node that answers, which should leave instead, unless --force is
given. A removed node cannot return with its data: join it again, with an empty
data directory.`,
		Example: `  quorate cluster remove n3
  quorate cluster remove n3 --yes --wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			if err := render.Confirm(cmd, yes, fmt.Sprintf("Remove %s permanently? Data that only it holds is lost, and it must join again to come back.", phrase.Show(id))); err != nil {
				return err
			}
			return o.run(cmd, &quoratev1.ChangeNodeRequest{Node: id, Change: quoratev1.NodeChange_NODE_CHANGE_REMOVE, Force: force}, leavesText(id), goes(id))
		},
	}
	o.addFlags(cmd, "its replicas have moved and it has left")
	cmd.Flags().BoolVar(&force, "force", false, "even if it answers")
	render.YesFlag(cmd, &yes)
	return cmd
}
