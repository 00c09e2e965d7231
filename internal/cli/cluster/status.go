package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/phrase"
)

// statusFlags holds the flags of status.
type statusFlags struct {
	remote.Targets
	output     render.Output
	all, check bool
}

// NewStatusCommand returns "quorate status" or "quorate cluster status"; path is the one for the
// examples.
func NewStatusCommand(path string) *cobra.Command {
	var o statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print the state of the cluster, its nodes and its ranges",
		Long: `Print the state of the cluster: a summary line, then each node, then the ranges
that need attention. The command asks the first node that answers, and then the
others, for at most a second, for what only they know: whether they are ready,
their faults, and how many log entries the replicas of their ranges lag (LAG).

The first line begins with "healthy", with "changing" while replicas move or
nodes drain, with "degraded" when everything is still served but something is
broken or the loss of one more node would stop ranges, with "draining" while
ranges miss a leader because a node hands over its leaderships, or with "not
ready" when every node that answers is not ready or sees no leader of some
range. A cluster whose settings ask for one replica is "unreplicated" where it
would be healthy. The command succeeds in any case; with --check it ends with
exit code 1 unless the cluster is healthy, unreplicated or changing.

In JSON and YAML that word is "health" and the rest of the line "health_text";
"ready" of a node is its own report that it decides, and is missing if it does
not answer. "ready" of the cluster means that at least one node is ready.
"leaderless" lists the groups without a leader, if every node that answers
misses some.`,
		Example: fmt.Sprintf(`  %[1]s
  %[1]s --ranges --addr 127.0.0.1:7422
  %[1]s --check -o json | jq '.health, (.nodes[] | {id, ready, reason})'`, path),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	o.AddFlags(cmd)
	cmd.Flags().BoolVar(&o.all, "ranges", false, "print all ranges")
	cmd.Flags().BoolVar(&o.check, "check", false, "end with exit code 1 unless the cluster is healthy, unreplicated or changing")
	o.output.AddFlags(cmd, "table", "json")
	return cmd
}

func (o *statusFlags) run(cmd *cobra.Command) error {
	st, err := GetStatus(cmd.Context(), &o.Targets)
	if err != nil {
		return err
	}
	list := askOthers(cmd.Context(), &o.Targets, st)
	v := health.Of(st, list...)
	addVerdict(st, list, v)
	err = o.output.Print(cmd, st, func(p *render.Page) { printStatus(p, render.Colours(cmd), st, list, v, o.all) })
	if err == nil && o.check && !v.OK() {
		return exit.AnswerNo()
	}
	return err
}

// GetStatus asks the first node that answers for the status of the cluster.
func GetStatus(ctx context.Context, t *remote.Targets) (*quoratev1.GetStatusResponse, error) {
	return remote.Invoke(ctx, t, quoratev1.NewClusterServiceClient, quoratev1.ClusterServiceClient.GetStatus, &quoratev1.GetStatusRequest{})
}

func printStatus(w *render.Page, p render.Palette, st *quoratev1.GetStatusResponse, list []health.Readiness, v health.State, all bool) {
	fmt.Fprintf(w, "%s: %s\n\n", p.Paint(colourOf(v), v.Word), v.Text)
	fmt.Fprintf(w, "cluster  %s, as node %s sees it (version %s)\nmeta     leader %s, limits version %d\n\n",
		render.OrDash(st.Cluster), render.OrDash(st.Node), render.OrDash(st.Version), render.OrDash(st.MetaLeader), st.LimitsVersion)
	w.Table(nodeTable(st.Nodes, st.Node))
	for _, s := range list { // a line per node that is not ready, sees a group without a leader, or does not answer
		switch {
		case s.Fault != "":
			fmt.Fprintf(w, "%s: does not answer %s\n", phrase.Show(s.Node), phrase.Printable(s.Fault))
		case s.Reason != "":
			fmt.Fprintf(w, "%s: not ready: %s\n", phrase.Show(s.Node), phrase.Printable(s.Reason))
		case s.Leaderless != "":
			fmt.Fprintf(w, "%s: %s\n", phrase.Show(s.Node), phrase.Printable(s.Leaderless))
		}
	}
	for _, n := range st.Nodes {
		for _, f := range n.Faults {
			fmt.Fprintf(w, "%s: %s\n", phrase.Show(n.Id), phrase.Printable(f))
		}
	}
	printRanges(w, st, all)
}

// nodeTable returns a table of nodes, as the node self sees them.
func nodeTable(list []*quoratev1.NodeStatus, self string) *render.Table {
	t := render.NewTable("NODE", "STATE", "ZONE", "VERSION", "PEER ADDRESS", "ANSWERS", "REPLICAS", "LEADS", "CLIENTS", "ROUND TRIP")
	for _, n := range list {
		t.Row(render.Name(n.Id), stateWord(n), render.NameOrNothing(n.Zone), render.NameOrNothing(n.Version), render.NameOrNothing(n.PeerAddress), answers(n), n.Replicas, n.Leads, n.Clients, roundTrip(n, self))
	}
	return t
}

// stateWord returns the desired state of a node, active while the membership is unknown.
func stateWord(n *quoratev1.NodeStatus) string {
	if n.State == quoratev1.NodeState_NODE_STATE_UNSPECIFIED {
		return render.Word(quoratev1.NodeState_NODE_STATE_ACTIVE)
	}
	return render.Word(n.State)
}

func answers(n *quoratev1.NodeStatus) string {
	if n.Connected {
		return "yes"
	}
	if n.Silent != nil {
		return "no, for " + render.Span(n.Silent.AsDuration().Round(time.Second))
	}
	return "no"
}

func roundTrip(n *quoratev1.NodeStatus, self string) any {
	if d := n.RoundTrip.AsDuration(); d > 0 && n.Id != self && n.Connected {
		return render.Exact(d.Round(10*time.Microsecond).String(), d.Seconds())
	}
	return render.Nothing
}

const (
	fewRanges = 8 // up to this many ranges with a problem are printed one by one; more, on a line per problem
	maxRuns   = 5 // bounds the runs of numbers on such a line
)

// printRanges prints the ranges with a problem, or all of them.
func printRanges(p *render.Page, st *quoratev1.GetStatusResponse, all bool) {
	up := health.Connected(st)
	var list []*quoratev1.RangeStatus
	for _, r := range st.Ranges {
		if all || health.NeedsAttention(r, up) {
			list = append(list, r)
		}
	}
	switch {
	case len(list) == 0:
		return
	case !all && len(list) > fewRanges:
		sumRanges(p, list, up)
		return
	}
	fmt.Fprintln(p)
	p.Table(rangeTable(list))
}

func rangeTable(list []*quoratev1.RangeStatus) *render.Table {
	t := render.NewTable("RANGE", "LEADER", "TERM", "LAG", "VOTERS", "LEAVING", "NOW")
	for _, r := range list {
		var lag any = render.Nothing
		if r.Lag != nil {
			lag = *r.Lag
		}
		t.Row(r.Id, render.NameOrNothing(r.Leader), r.Term, lag, render.Names(r.Replicas), render.Names(r.Removed), render.NameOrNothing(r.Step))
	}
	return t
}

// sumRanges prints a line per problem, with the ranges that have it.
func sumRanges(w io.Writer, list []*quoratev1.RangeStatus, up map[string]bool) {
	var kinds []string
	of := map[string][]uint32{}
	for _, r := range list {
		k := trouble(r, up)
		if of[k] == nil {
			kinds = append(kinds, k)
		}
		of[k] = append(of[k], r.Id)
	}
	fmt.Fprintln(w)
	for _, k := range kinds {
		fmt.Fprintf(w, "%s %s: %s\n", phrase.Plural(len(of[k]), "range"), k, runs(of[k]))
	}
	fmt.Fprintln(w, "--ranges prints them one by one")
}

// trouble describes the most important problem of a range.
func trouble(r *quoratev1.RangeStatus, up map[string]bool) string {
	var away []string
	for _, id := range r.Replicas {
		if !up[id] {
			away = append(away, phrase.Show(id))
		}
	}
	switch {
	case r.Leader == "":
		return "without a leader"
	case health.Moves(r):
		return "to change"
	case len(away) > 0:
		return "without " + strings.Join(away, ", ")
	}
	return fmt.Sprintf("with a voter more than %d entries behind", health.MuchLag)
}

// runs formats ascending numbers, such as "0-15, 17 and 3 more".
func runs(ids []uint32) string {
	var out []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if len(out) == maxRuns {
			return fmt.Sprintf("%s and %d more", strings.Join(out, ", "), len(ids)-i)
		}
		text := strconv.FormatUint(uint64(ids[i]), 10)
		if j > i {
			text += "-" + strconv.FormatUint(uint64(ids[j]), 10)
		}
		out = append(out, text)
		i = j + 1
	}
	return strings.Join(out, ", ")
}

func colourOf(v health.State) string {
	switch v.Word {
	case health.Healthy:
		return render.Green
	case health.NotReady:
		return render.Red
	}
	return render.Yellow
}

// addVerdict writes into a status what the table shows: the state of the cluster, and the readiness
// that each node reports of itself.
func addVerdict(st *quoratev1.GetStatusResponse, list []health.Readiness, v health.State) {
	st.Health, st.HealthText, st.Ready = v.Word, v.Text, false
	for _, n := range st.Nodes {
		n.Ready, n.Reason = nil, ""
	}
	led := false
	for _, s := range list {
		st.Ready = st.Ready || s.Fault == "" && s.Reason == ""
		led = led || s.Fault == "" && s.Leaderless == ""
		i := slices.IndexFunc(st.Nodes, func(n *quoratev1.NodeStatus) bool { return n.Id == s.Node })
		if i < 0 {
			continue
		}
		if st.Nodes[i].Reason = s.Reason; s.Fault == "" {
			st.Nodes[i].Ready = new(s.Reason == "")
		}
	}
	if st.Ready {
		st.Reason = ""
	}
	if led {
		st.Leaderless = ""
	}
}
