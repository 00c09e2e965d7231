package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/gcpace"
	"github.com/quorate/quorate/internal/logs"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
	"github.com/quorate/quorate/internal/tracing"
	"github.com/quorate/quorate/internal/tracing/export"
)

// serveOptions holds the flags of serve.
type serveOptions struct {
	placeFlags
	config, tokenFile string
	join              []string
	plain             bool
}

// NewServeCommand returns "quorate serve".
func NewServeCommand() *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one node of a cluster",
		Long: `Run one node of a cluster until Ctrl-C or SIGTERM. When it stops, it reports
that it is not ready, hands over its leaderships, completes pending requests,
and exits. With the setting linger, it keeps answering for that time first.
There are three ways to choose the node:

  --data DIR             a node that "quorate init" made, or that has joined
  --data DIR --join ...  a new node, that joins a cluster through any member
  --config FILE          a node whose settings are in a file

QUORATE_* environment variables override the settings (QUORATE_LISTEN_HTTP for
listen.http, and so on), and flags override both: to move a node to another
address, start it with the new --host or ports, and the others find it there. A
joining node keeps retrying, through elections and restarts of the members,
unless the cluster rejects it permanently.`,
		Example: `  quorate serve --data /var/lib/quorate
  quorate serve --data /var/lib/quorate --node n2 --host 10.0.0.2 --join 10.0.0.1:7412 --token-file join.token
  quorate serve --config examples/cluster/n1.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.placeFlags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "`file` with the node's settings; without it and --data, the environment has them")
	f.StringSliceVar(&o.join, "join", nil, "gRPC `addresses` of members, host:port,...; a name may resolve to many")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the join token")
	f.BoolVar(&o.plain, "insecure", false, "join a cluster that has no TLS")
	return cmd
}

// load returns the node's settings. strict says that they are the operator's own file, which must
// agree with the cluster that the node joins.
func (o *serveOptions) load() (s config.Node, strict bool, err error) {
	kept := filepath.Join(o.data, SettingsFile)
	switch _, missing := os.Stat(kept); {
	case o.config != "" || o.data == "":
		s, err = config.LoadNode(o.config)
		strict = true
	case missing == nil:
		s, err = o.loadKept(kept)
	default:
		err = o.loadNew(kept, &s)
		return s, false, err
	}
	if err == nil {
		err = o.overlay(&s)
	}
	return s, strict, err
}

// loadKept is load for a data directory with settings. Variables override them, but not the node's
// name: its certificate carries it, and a process without data would bind the directory to the other.
func (o *serveOptions) loadKept(kept string) (config.Node, error) {
	s, err := config.LoadNode(kept)
	if err != nil {
		return s, err
	}
	text, err := os.ReadFile(kept)
	if err != nil {
		return s, err
	}
	if own, err := config.ParseNode(kept, text); err == nil && own.Node != s.Node {
		return s, exit.Usagef("QUORATE_NODE=%s: the node here is %s; a node keeps its name", s.Node, own.Node)
	}
	return s, nil
}

// loadNew is load for a node that joins.
func (o *serveOptions) loadNew(kept string, s *config.Node) (err error) {
	o.node = cmp.Or(o.node, os.Getenv("QUORATE_NODE"))
	switch {
	case len(o.join) == 0 && os.Getenv("QUORATE_JOIN") == "":
		return exit.Usagef("--data %s: the directory has no node; create a cluster with \"quorate init\", or join one with --join", o.data)
	case o.node == "":
		return exit.Usagef("--node: is missing; give the new node a unique name")
	}
	text := o.settings(config.Default().Cluster)
	if o.plain {
		text += "tls: {mode: off}\n"
	}
	if *s, err = config.LoadNodeText(kept, []byte(text)); err != nil {
		return err
	}
	return o.overlay(s)
}

// clusterName returns the cluster's name, or an empty string for a node that learns the name from
// the cluster that it joins.
func (o *serveOptions) clusterName(s *config.Node, strict bool) string {
	if _, err := os.Stat(filepath.Join(o.data, SettingsFile)); strict || err == nil {
		return s.Cluster
	}
	return ""
}

// overlay applies the given flags to the settings.
func (o *serveOptions) overlay(s *config.Node) error {
	if len(o.join) > 0 {
		if err := s.Set("join", strings.Join(o.join, ",")); err != nil {
			return exit.Usagef("--join: %w", err)
		}
	}
	if o.tokenFile != "" {
		s.TokenFile = o.tokenFile
	}
	return o.placeFlags.over(s)
}

func (o *serveOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	settings, strict, err := o.load()
	if err != nil {
		return exit.Invalid(err)
	}
	var limits []quota.Limit
	if settings.Limits != "" {
		if limits, err = config.LoadLimits(settings.Limits); err != nil {
			return exit.Invalid(err)
		}
	}
	log := newLogger(stderr, settings.Log)
	tracer, flush, err := export.Start(ctx, os.Getenv, string(settings.Node), build.Version, log)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	defer flush()
	sec, err := openSecurity(&settings, o.clusterName(&settings, strict), log)
	if err != nil {
		return err
	}
	ports, err := listen(ctx, settings.Listen.HTTP, settings.Listen.GRPC, settings.Listen.Peer)
	if err != nil {
		return err
	}
	cfg := nodeConfig(settings)
	cfg.Tracer, cfg.AwaitLimits = tracer, len(limits) > 0
	back := []func(){away(ports.http), away(ports.grpc)}
	err = o.enter(ctx, &settings, strict, sec, &cfg, ports.peer, log)
	for _, stop := range back {
		stop()
	}
	if err != nil {
		ports.close()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if cfg.JoinID, err = ownJoinID(settings.Data); err != nil {
		ports.close()
		return err
	}
	cfg.TLS, cfg.Authority = sec.links(), sec.authority
	if r := sec.renewer(&settings); r != nil {
		cfg.Certificates = r
	}
	in, err := startInstance(cfg, callersOf(&settings), ports, sec, log)
	if err != nil {
		return err
	}
	secured := "TLS"
	go sec.watch(ctx, log)
	if !sec.on() {
		secured = "no TLS"
	}
	fmt.Fprintf(stdout, "quorate %s: node %s of cluster %s\n", build.Version, settings.Node, settings.Cluster)
	redis := ""
	if settings.Redis != "" {
		redis = "  Redis " + settings.Redis
	}
	fmt.Fprintf(stdout, "HTTP %s  gRPC %s  peers %s%s  %s  data %s\n", ports.http.Addr(), ports.grpc.Addr(), ports.peer.Addr(), redis, secured, settings.Data)
	fmt.Fprintf(stdout, "console %s\n", consoleURL(ports.http.Addr().String(), sec.on()))
	go gcpace.Run(ctx)
	go seedLimits(ctx, in.node, settings, limits, log)
	select {
	case <-ctx.Done():
		fmt.Fprintln(stdout, "stopping: handing leaderships over")
		in.retire(settings.Linger)
	case <-in.node.Out():
		fmt.Fprintln(stdout, "this node is out of the cluster; its data is no longer usable: to join again, empty its data directory first")
	case err = <-in.fault:
		fmt.Fprintln(stdout, "stopping: handing leaderships over")
	}
	stopCtx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return errors.Join(err, in.stop(stopCtx))
}

// enter brings a node without data into a cluster: it joins if the settings say where, and
// otherwise creates the cluster.
func (o *serveOptions) enter(ctx context.Context, s *config.Node, strict bool, sec *security, cfg *cluster.Config, peers net.Listener, log *slog.Logger) error {
	_, err := os.Stat(filepath.Join(s.Data, "node.json"))
	switch {
	case err == nil || len(s.Join) == 0: // the node has data, or creates the cluster
		return sec.ready(s)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data: %w", err)
	}
	token, err := readToken(s.TokenFile)
	if err != nil {
		return err
	}
	if token == "" && (!sec.on() || sec.store.Empty()) {
		return exit.Usagef("--token-file: is missing; \"quorate join-token create\" on a member makes a token")
	}
	here := &presence{}
	if sec.on() && !sec.store.Empty() {
		here.own = sec.store.ServerConfig(pki.PeerPort)
	}
	defer here.present(peers)()
	j := &joiner{settings: s, strict: strict, sec: sec, token: token, here: here, log: log}
	ctx, span := cfg.Tracer.Start(ctx, "quorate.node.join")
	span.Text("quorate.node", string(s.Node))
	res, err := j.run(metadata.AppendToOutgoingContext(ctx, tracing.Header, cfg.Tracer.Parent(ctx)))
	span.End(err)
	if errors.Is(err, errAlone) {
		log.Warn("creates a new cluster", "cluster", s.Cluster, "node", s.Node, "why", err)
		return forgetJoin(s.Data)
	}
	if err != nil {
		return err
	}
	if err := takeOver(s, cfg, res, strict); err != nil || strict {
		return err
	}
	return o.remember(s)
}

// remember writes the settings of a node that has joined, for its next start.
func (o *serveOptions) remember(s *config.Node) error {
	path := filepath.Join(o.data, SettingsFile)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	var b strings.Builder
	b.WriteString(o.settings(s.Cluster))
	fmt.Fprintf(&b, "ranges: %d\nreplicas: %d\nsync: %s\n", s.Ranges, s.Replicas, s.Sync)
	fmt.Fprintf(&b, "join: [%q", s.Join[0]) // a node that stops before it has data joins again
	for _, addr := range s.Join[1:] {
		fmt.Fprintf(&b, ", %q", addr)
	}
	b.WriteString("]\n")
	if s.TLS.Mode == config.TLSOff {
		b.WriteString("tls: {mode: off}\n")
	}
	return writeNew(path, []byte(b.String()))
}

func nodeConfig(s config.Node) cluster.Config {
	at := s.Addresses()
	nodes := map[quota.NodeID]string{}
	for _, p := range s.Nodes {
		nodes[p.ID] = p.Peer
	}
	if len(nodes) == 0 || len(nodes) == 1 && s.Advertise != "" {
		nodes = map[quota.NodeID]string{s.Node: at.Peer}
	}
	t := raftgroup.DefaultTiming()
	t.Heartbeat, t.Election, t.Lease = s.Raft.Heartbeat, s.Raft.Election, s.Raft.Lease
	dead := s.DeadAfter
	if dead == 0 {
		dead = -1
	}
	return cluster.Config{
		Cluster: s.Cluster, Self: s.Node, Nodes: nodes, Dir: s.Data, Ranges: s.Ranges, Replicas: s.Replicas,
		Series: series.New(s.Metrics.Limits), TopKeys: s.Metrics.TopKeys,
		History: recorder.Retention{Off: !s.History.Keep, Minutes: s.History.Minutes, Hours: s.History.Hours, MaxBytes: int64(s.History.MaxMiB) << 20},
		Sync:    s.Sync, MaxKeys: s.MaxKeys, Idle: s.Idle, GrantWait: cluster.DefaultGrantWait, Timing: t,
		Zone: s.Zone, GRPC: at.GRPC, HTTP: at.HTTP, DeadAfter: dead, BalanceAfter: s.Raft.BalanceAfter, SlowDisk: s.Raft.SlowDisk,
	}
}

func newLogger(w io.Writer, l config.Log) *slog.Logger {
	opts := &slog.HandlerOptions{Level: l.Level}
	if l.Format == "json" {
		return slog.New(logs.New(slog.NewJSONHandler(w, opts)))
	}
	return slog.New(logs.New(slog.NewTextHandler(w, opts)))
}

// seedLimits sets the cluster's first limits as soon as it has a leader, unless it has limits. All
// nodes may try this, even while a user applies other limits: only the first set counts.
func seedLimits(ctx context.Context, n *cluster.Node, s config.Node, limits []quota.Limit, log *slog.Logger) {
	if limits == nil || n.Limits().Version > 0 {
		return
	}
	if _, err := firstLimits(ctx, n, "node "+string(s.Node), s.Limits, limits); err != nil && ctx.Err() == nil {
		log.Error("limits were not loaded", "err", err)
	}
}

// firstLimits sets the limits of a cluster that never had any, and reports whether it did. It waits
// for a leader until ctx ends, because the other nodes may start much later than this one.
func firstLimits(ctx context.Context, n *cluster.Node, by, source string, limits []quota.Limit) (bool, error) {
	comment := "first limits, from " + source
	if len(comment) > quota.MaxCommentLen || !utf8.ValidString(comment) {
		comment = "first limits"
	}
	change := quota.Change{Limits: limits, Expect: 0, By: by[:min(len(by), quota.MaxNameLen)], Comment: comment}
	for {
		_, _, err := n.ChangeLimits(ctx, change)
		if conflict := new(quota.ConflictError); errors.As(err, &conflict) {
			return false, nil
		}
		if none := new(quota.NoLeaderError); !errors.As(err, &none) || ctx.Err() != nil {
			return err == nil, err
		}
	}
}
