package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/phrase"
)

// NewNodesCommand returns "quorate nodes".
func NewNodesCommand() *cobra.Command {
	return usage.Group("nodes", "List and describe nodes",
		`List the nodes of the cluster, or describe one. "quorate status" shows the whole
cluster, and "quorate cluster" changes it.`,
		newNodesGetCommand(), newNodesDescribeCommand())
}

// NewRangesCommand returns "quorate ranges".
func NewRangesCommand() *cobra.Command {
	return usage.Group("ranges", "List the ranges of keys",
		`List the key ranges: their leaders, and the nodes that hold them. "quorate
status" shows only the ranges that need attention.`,
		newRangesGetCommand())
}

func newNodesGetCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:     "get [NODE...]",
		Aliases: []string{"list"},
		Short:   "List nodes",
		Long:    `List all nodes of the cluster, or the named ones, on one line each.`,
		Example: `  quorate nodes list
  quorate nodes get n1 n2 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			st, _, err := statusOfAll(cmd, &t)
			if err != nil {
				return err
			}
			list, err := Named(args, st.Nodes, "node", func(n *quoratev1.NodeStatus) string { return n.Id })
			if err != nil {
				return err
			}
			return output.Print(cmd, object(map[string]any{"nodes": messages(list)}), func(p *render.Page) { p.Table(nodeTable(list, st.Node)) })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func newNodesDescribeCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:   "describe NODE",
		Short: "Print all details of a node",
		Long: `Print all details of a node: its state, addresses, load and faults, and the
ranges that it leads and holds.`,
		Example: `  quorate nodes describe n2`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, list, err := statusOfAll(cmd, &t)
			if err != nil {
				return err
			}
			found, err := Named(args, st.Nodes, "node", func(n *quoratev1.NodeStatus) string { return n.Id })
			if err != nil {
				return err
			}
			d := nodeDescription{NodeStatus: found[0], leads: []uint32{}, holds: []uint32{}}
			for _, r := range st.Ranges {
				if r.Leader == d.Id {
					d.leads = append(d.leads, r.Id)
				}
				if slices.Contains(r.Replicas, d.Id) || slices.Contains(r.Removed, d.Id) {
					d.holds = append(d.holds, r.Id)
				}
			}
			if i := slices.IndexFunc(list, func(s health.Readiness) bool { return s.Node == d.Id }); i >= 0 {
				d.fault = list[i].Fault
			}
			data := map[string]any{"node": json.RawMessage(apijson.Format(d.NodeStatus)), "leads": d.leads, "holds": d.holds}
			return output.Print(cmd, object(data), func(p *render.Page) { d.print(p, st.Node) })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newRangesGetCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:     "get [RANGE...]",
		Aliases: []string{"list", "describe"},
		Short:   "List ranges",
		Long: `List all ranges, or those with the given numbers: the leader and its term, the
log entries by which the slowest voter lags, the voters, nodes that still have
to drop the range, and the current step of a move. "describe" prints one of them
on each line.`,
		Example: `  quorate ranges list
  quorate ranges get 3 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			st, _, err := statusOfAll(cmd, &t)
			if err != nil {
				return err
			}
			list, err := Named(args, st.Ranges, "range", func(r *quoratev1.RangeStatus) string { return strconv.FormatUint(uint64(r.Id), 10) })
			if err != nil {
				return err
			}
			return output.Print(cmd, object(map[string]any{"ranges": messages(list)}), func(p *render.Page) { p.Table(rangeTable(list)) })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

// messages returns each message as JSON.
func messages[M proto.Message](list []M) []json.RawMessage {
	out := make([]json.RawMessage, len(list))
	for i, m := range list {
		out[i] = json.RawMessage(apijson.Format(m))
	}
	return out
}

// object returns data as JSON on one line.
func object(data map[string]any) json.RawMessage {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err) // invariant: it consists of valid JSON, numbers and texts
	}
	return b
}

// statusOfAll returns the status of the cluster, with what each node reports of itself.
func statusOfAll(cmd *cobra.Command, t *remote.Targets) (*quoratev1.GetStatusResponse, []health.Readiness, error) {
	st, err := GetStatus(cmd.Context(), t)
	if err != nil {
		return nil, nil, err
	}
	list := askOthers(cmd.Context(), t, st)
	addVerdict(st, list, health.Of(st, list...))
	return st, list, nil
}

// maxKnown bounds the names in an error about an unknown one.
const maxKnown = 10

// Named returns the items with the given names, all of them without names.
func Named[T any](names []string, list []T, kind string, name func(T) string) ([]T, error) {
	var known []string
	for _, x := range list {
		known = append(known, name(x))
	}
	for _, n := range names {
		switch more := len(known) - maxKnown; {
		case slices.Contains(known, n):
		case len(known) == 0:
			return nil, exit.NotFoundf("unknown %s %q; there are no %ss", kind, n, kind)
		case more > 0:
			return nil, exit.NotFoundf("unknown %s %q; known: %s and %d more", kind, n, strings.Join(known[:maxKnown], ", "), more)
		default:
			return nil, exit.NotFoundf("unknown %s %q; known: %s", kind, n, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return list, nil
	}
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !slices.Contains(names, name(x)) }), nil
}

// nodeDescription is the output of "quorate nodes describe".
type nodeDescription struct {
	*quoratev1.NodeStatus
	leads, holds []uint32
	fault        string // why it does not answer; "" if it does
}

func (d *nodeDescription) print(p *render.Page, self string) {
	line := func(name string, value any) {
		if value != "" {
			fmt.Fprintf(p, "  %-11s %v\n", name, value)
		}
	}
	fmt.Fprintf(p, "node %s\n", phrase.Show(d.Id))
	line("state", stateWord(d.NodeStatus))
	line("answers", answers(d.NodeStatus))
	switch {
	case d.fault != "":
		line("fault", "does not answer "+phrase.Printable(d.fault))
	case d.Reason != "":
		line("ready", "no: "+phrase.Printable(d.Reason))
	case d.Ready != nil:
		line("ready", "yes")
	}
	for _, f := range d.Faults {
		line("fault", phrase.Printable(f))
	}
	line("version", phrase.Printable(d.Version))
	line("zone", phrase.Printable(d.Zone))
	line("gRPC", phrase.Printable(d.GrpcAddress))
	line("HTTP", phrase.Printable(d.HttpAddress))
	line("peers", phrase.Printable(d.PeerAddress))
	if d.JoinedAt != nil {
		line("joined", d.JoinedAt.AsTime().UTC().Format(time.RFC3339))
	}
	if r := d.Resources; r != nil {
		line("up for", render.Span(r.Uptime.AsDuration().Round(time.Second)))
		if r.Cpu != nil {
			line("CPU", fmt.Sprintf("%.2f cores", *r.Cpu))
		}
		if r.MemoryBytes != nil {
			line("memory", phrase.Bytes(*r.MemoryBytes))
		}
		if r.DiskFreeBytes != nil {
			line("disk free", phrase.Bytes(*r.DiskFreeBytes))
		}
	}
	line("clients", d.Clients)
	if rt := d.RoundTrip.AsDuration(); rt > 0 && d.Id != self && d.Connected {
		line("round trip", rt.Round(10*time.Microsecond).String())
	}
	line("leads", rangesText(d.leads))
	line("holds", rangesText(d.holds))
}

func rangesText(ids []uint32) string {
	if len(ids) == 0 {
		return "no ranges"
	}
	return phrase.Plural(len(ids), "range") + ": " + runs(ids)
}
