package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/multiraft"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
)

func newServeCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one node of a cluster",
		Long: `Run one node of a cluster until Ctrl-C or SIGTERM; then it hands its
leaderships over and stops. The settings come from a file; QUORATE_* environment
variables override it (QUORATE_LISTEN_HTTP for listen.http, and so on).`,
		Example: `  quorate serve --config examples/cluster/n1.yaml
  QUORATE_LOG_LEVEL=debug quorate serve --config node.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), path, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "file with the node's settings; without it the environment alone says them")
	return cmd
}

func serve(ctx context.Context, path string, stdout, stderr io.Writer) error {
	settings, err := config.LoadNode(path)
	if err != nil {
		return err
	}
	limits, err := loadSeedLimits(settings.Limits)
	if err != nil {
		return err
	}
	ports, err := listen(ctx, settings.Listen.HTTP, settings.Listen.GRPC, settings.Listen.Peer)
	if err != nil {
		return err
	}
	log := newLogger(stderr, settings.Log)
	in, err := startInstance(nodeConfig(settings), settings.Access.Grants, ports, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "quorate %s: node %s of cluster %s\n", version, settings.Node, settings.Cluster)
	fmt.Fprintf(stdout, "HTTP %s  gRPC %s  peers %s  data %s\n", ports.http.Addr(), ports.grpc.Addr(), ports.peer.Addr(), settings.Data)
	go seedLimits(ctx, in.node, settings, limits, log)
	select {
	case <-ctx.Done():
	case err = <-in.fault:
	}
	fmt.Fprintln(stdout, "stopping: handing leaderships over")
	stopCtx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return errors.Join(err, in.stop(stopCtx))
}

func nodeConfig(s config.Node) cluster.Config {
	nodes := map[quota.NodeID]string{}
	for _, p := range s.Nodes {
		nodes[p.ID] = p.Peer
	}
	if len(nodes) == 0 {
		nodes[s.Node] = s.Listen.Peer
	}
	t := multiraft.DefaultTiming()
	t.Heartbeat, t.Election, t.Lease = s.Raft.Heartbeat, s.Raft.Election, s.Raft.Lease
	return cluster.Config{
		Cluster: s.Cluster, Self: s.Node, Nodes: nodes, Dir: s.Data, Ranges: s.Ranges, Replicas: s.Replicas,
		Sync: s.Sync, MaxKeys: s.MaxKeys, Idle: s.Idle, GrantWait: cluster.DefaultGrantWait, Timing: t,
	}
}

func newLogger(w io.Writer, l config.Log) *slog.Logger {
	opts := &slog.HandlerOptions{Level: l.Level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func loadSeedLimits(path string) ([]quota.Limit, error) {
	if path == "" {
		return nil, nil
	}
	return config.LoadLimits(path)
}

// seedLimits gives the cluster its first limits, if it has none when it is
// ready. All nodes may try, while somebody applies others: only the first counts.
func seedLimits(ctx context.Context, n *cluster.Node, s config.Node, limits []quota.Limit, log *slog.Logger) {
	if limits == nil || waitReady(ctx, n) != nil || n.Limits().Version > 0 {
		return
	}
	if _, err := firstLimits(ctx, n, "node "+string(s.Node), s.Limits, limits); err != nil && ctx.Err() == nil {
		log.Error("limits were not loaded", "err", err)
	}
}

// firstLimits sets the limits of a cluster that never had any, and reports
// whether it was one.
func firstLimits(ctx context.Context, n *cluster.Node, by, source string, limits []quota.Limit) (bool, error) {
	comment := "first limits, from " + source
	if len(comment) > quota.MaxCommentLen || !utf8.ValidString(comment) {
		comment = "first limits"
	}
	_, _, err := n.ChangeLimits(ctx, quota.Change{Limits: limits, Expect: 0, By: by[:min(len(by), quota.MaxNameLen)], Comment: comment})
	if conflict := new(quota.ConflictError); errors.As(err, &conflict) {
		return false, nil
	}
	return err == nil, err
}
