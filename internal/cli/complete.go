package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
)

// completeTime bounds how long a shell waits when the user presses Tab.
const completeTime = time.Second

// completer returns the valid words at some place, from the cluster.
type completer func(ctx context.Context, t *remote.Targets) []string

// completeNames makes all commands complete the names of limits, namespaces and nodes, where their
// usage shows such a name, and for flags of that name. A cluster that does not answer at once
// contributes nothing.
func completeNames(root *cobra.Command) {
	for _, c := range root.Commands() {
		completeNames(c)
	}
	if c, many := completerOf(root.Use); c != nil {
		root.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && !many {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return c.complete(cmd, begun, args)
		}
	}
	flags := map[string]completer{"limit": limitNames, "namespace": namespaces}
	if p := root.Parent(); p != nil && p.Name() == "cluster" {
		flags = map[string]completer{"without": nodeIDs, "from": nodeIDs, "to": nodeIDs}
	}
	for flag, c := range flags {
		c.onFlag(root, flag)
	}
}

// onFlag completes a flag, if the command has it without a completion of its own.
func (c completer) onFlag(cmd *cobra.Command, flag string) {
	if cmd.LocalNonPersistentFlags().Lookup(flag) == nil {
		return
	}
	if _, has := cmd.GetFlagCompletionFunc(flag); has {
		return
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return c.complete(cmd, begun, nil)
	}); err != nil {
		panic(err) // invariant: the flag exists
	}
}

// completerOf derives from a command's usage what its first argument names, and whether all
// arguments do.
func completerOf(use string) (c completer, many bool) {
	words := strings.Fields(use)
	if len(words) < 2 {
		return nil, false
	}
	first := words[1]
	many = strings.Contains(first, "...") && len(words) == 2
	switch strings.Trim(first, "[].") {
	case "NAMESPACE/LIMIT", "LIMIT":
		return limitNames, many
	case "NAMESPACE":
		return namespaces, many
	case "NAMESPACE[/LIMIT":
		return limitsAndNamespaces, many
	case "NAME":
		if strings.HasPrefix(use, "get") || strings.HasPrefix(use, "delete") { // of limits; other commands make a new name
			return limitsAndNamespaces, many
		}
	case "NODE":
		return nodeIDs, many
	}
	return nil, false
}

// complete returns the words that begin with what the user typed, without those already present.
func (c completer) complete(cmd *cobra.Command, begun string, have []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	var out []string
	for _, name := range c(ctx, targetsOf(cmd)) {
		if strings.HasPrefix(name, begun) && !slices.Contains(have, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}

// targetsOf returns the nodes that the flags so far name.
func targetsOf(cmd *cobra.Command) *remote.Targets {
	var t remote.Targets
	own := &cobra.Command{}
	t.AddFlags(own)
	own.Flags().VisitAll(func(f *pflag.Flag) {
		given := cmd.Flags().Lookup(f.Name)
		switch {
		case given == nil || !given.Changed:
		case f.Name == "addr":
			t.Addrs, _ = cmd.Flags().GetStringSlice(f.Name)
		default:
			_ = own.Flags().Set(f.Name, given.Value.String()) // already parsed from the same words
		}
	})
	return &t
}

func limitNames(ctx context.Context, t *remote.Targets) (out []string) {
	for _, l := range limitsOf(ctx, t) {
		out = append(out, l.GetNamespace()+"/"+l.GetName())
	}
	return out
}

func namespaces(ctx context.Context, t *remote.Targets) (out []string) {
	for _, l := range limitsOf(ctx, t) {
		out = append(out, l.GetNamespace())
	}
	return out
}

func limitsAndNamespaces(ctx context.Context, t *remote.Targets) []string {
	var out []string
	for _, l := range limitsOf(ctx, t) {
		out = append(out, l.GetNamespace(), l.GetNamespace()+"/"+l.GetName())
	}
	return out
}

func limitsOf(ctx context.Context, t *remote.Targets) []*quoratev1.Limit {
	res, err := limits.GetLimits(ctx, t, nil)
	if err != nil {
		return nil
	}
	return res.GetLimits()
}

func nodeIDs(ctx context.Context, t *remote.Targets) (out []string) {
	st, err := cluster.GetStatus(ctx, t)
	if err != nil {
		return nil
	}
	for _, n := range st.GetNodes() {
		out = append(out, n.GetId())
	}
	return out
}
